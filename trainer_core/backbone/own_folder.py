"""A run's folder, which belongs to one training at a time."""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil

from trainer_core.types import TrainingError

_ENDS_IN_S = 120.0
"""A training that is told to end saves a checkpoint first."""


@contextmanager
def own_folder(folder: Path, *, ends_other: bool = False) -> Iterator[None]:
    """Hold the folder for this process, and log to it; the lock goes with the process, however it ends.

    Args:
        ends_other: end a training on this machine that holds it.

    Raises:
        TrainingError: another training writes there, or nobody can.
    """
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = held.enter_context((folder / ".lock").open("a"))
            is_ours = _locked(lock)
            if not is_ours and ends_other:
                _end_holders(folder / ".lock")
                is_ours = _locked(lock)
            if is_ours:
                _log_to(folder / "train.log")
        except OSError as error:
            raise TrainingError(
                f"ajet.experiment_dir: cannot write to {folder}: {error.strerror or error}"
            ) from error
        if not is_ours:
            raise TrainingError(
                f"another training is writing to {folder}. Wait for its end, have it ended with --autokill, "
                "or choose another experiment_name or --exp-dir"
            )
        yield


def _locked(lock: IO[str]) -> bool:
    """True if the lock is ours now."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _end_holders(lock: Path) -> None:
    """End who else has the file open: a training of this machine, and no process that looks alike."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            opened = () if process.pid == os.getpid() else process.open_files()
            if any(each.path == str(lock.resolve()) for each in opened):
                process.terminate()
                try:
                    process.wait(_ENDS_IN_S)
                except psutil.TimeoutExpired:
                    process.kill()
                    process.wait()


def _log_to(path: Path) -> None:
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("trainer_core")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    for earlier in logger.handlers:
        earlier.close()
    logger.handlers = [handler]
