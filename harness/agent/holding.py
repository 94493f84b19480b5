"""Holding a run while its disk or its folder cannot be used, and going on by itself when it can again.

In: the run's work and whatever OSError ended it. A full or vanished disk says nothing about the training,
which goes on beside it: its supervisor knows its deadline, and nothing is concluded from files that cannot be
read. Only a person ends the waiting, and a folder that was moved or deleted, as that does not come back by
itself.
"""

import asyncio
import errno
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from harness.journal.events import AttemptEvent, Held, Owner
from harness.state import Verdict
from monitors.launch import state_home
from monitors.processes import members_of_attempt

if TYPE_CHECKING:
    from harness.agent.executor import Executor

FIRST_LOOK_S, LONGEST_LOOK_S = 2.0, 15.0
GONE_PATIENCE_S = 300.0
_MISSING = (errno.ENOENT, errno.ENOTDIR)
TO_DO = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "make room there"),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM), "make it writable again"),
    **dict.fromkeys((errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ENODEV), "see to that disk"),
    **dict.fromkeys(_MISSING, "put it back in its place"),
}
_ANYWHERE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE)


def is_of_the_disk(error: Exception, executor: "Executor") -> bool:
    """True if the error is one of a disk or of the run's own folders, which may pass; whatever else is
    missing or forbidden is no reason to wait."""
    if not isinstance(error, OSError) or error.errno not in TO_DO:
        return False
    own = (executor.experiment.dir, state_home())
    is_own = any(Path(str(error.filename)).is_relative_to(folder) for folder in own)
    if error.errno in _ANYWHERE or (is_own and error.errno not in _MISSING):
        return True
    try:
        executor.check_folders()
    except OSError:
        return True
    return False


def in_words(error: OSError, executor: "Executor") -> str:
    """What cannot be used, why, and what to do about it."""
    where = error.filename or executor.experiment.dir
    return f"{where}: {error.strerror}; {TO_DO.get(error.errno or 0, 'see to that disk')}"


async def carry_through(executor: "Executor", work: Callable[[], Awaitable[Verdict]]) -> Verdict:
    """What the work comes to, begun anew whenever what ended it has passed. Raises what does not pass."""
    last, look_s = None, FIRST_LOOK_S
    while True:
        began = time.monotonic()
        try:
            return await work()
        except OSError as error:
            if not is_of_the_disk(error, executor):
                raise
            trouble, worked_s = error, time.monotonic() - began
        said = in_words(trouble, executor)
        is_the_same = said == last and worked_s < LONGEST_LOOK_S
        last, look_s = said, min(look_s * 2, LONGEST_LOOK_S) if is_the_same else FIRST_LOOK_S
        if not is_the_same:
            _tell(executor, said)
        await _until_it_passes(executor, trouble, look_s)


def _tell(executor: "Executor", said: str) -> None:
    """Say it where a person reads, and record it where that can be."""
    state = executor.experiment.state
    executor.on_held(f"{said}. The run is held until then{', and the training goes on' * state.trains}")
    if state.finished_at is not None:  # only finish.flag is missing
        return
    try:
        executor.experiment.record(Held(said))
    except OSError:
        with suppress(OSError):
            executor.experiment.tell(Held(said))


async def _until_it_passes(executor: "Executor", trouble: OSError, look_s: float) -> None:
    """Look again, at longer and longer intervals. Raises the trouble where the folder was moved or deleted
    and has not come back, and as an InterruptedError when a person wants an end."""
    executor.close()
    executor.interrupted.clear()
    began = time.monotonic()
    while True:
        with suppress(TimeoutError):
            await asyncio.wait_for(executor.interrupted.wait(), look_s)
            raise InterruptedError(trouble.errno, trouble.strerror, trouble.filename)
        look_s = min(look_s * 2, LONGEST_LOOK_S)
        try:
            executor.check_folders()
            if executor.experiment.state.finished_at is None:
                executor.experiment.record(Held(""))
            return
        except FileNotFoundError as error:
            have_been_gone = time.monotonic() - began > GONE_PATIENCE_S
            if _gives_up_files(executor, have_been_gone):
                return
            if have_been_gone and executor.experiment.is_gone_for_good():
                if (now := executor.experiment.journal.folder_now()) is not None:
                    executor.experiment.list_in(now)
                raise error from None
        except OSError:
            continue


def _gives_up_files(executor: "Executor", have_been_gone: bool) -> bool:
    """True if the attempt is concluded without its files, which alone are gone from the result folder: a
    person wants it to stop, or they `have_been_gone` for long and its supervisor is, too; where that was
    never seen, whatever carries the attempt's id, on the one machine that the run knows."""
    experiment, attempt = executor.experiment, executor.concluding()
    if attempt is None:
        return False
    try:
        experiment.check_place()
    except OSError:
        return False
    files = experiment.attempt_files(attempt.number)
    if files.supervisor() is not None:
        is_dead = files.state() == "lost"
    else:
        hosts = {owner.host for owner in experiment.journal.of(Owner)}
        is_dead = hosts <= {socket.gethostname()} and not members_of_attempt(attempt.attempt_id)
    if experiment.state.stop_asked is None and not (have_been_gone and is_dead):
        return False
    text = f"{files.dir} is gone, and with it how the training ended"
    experiment.record(AttemptEvent(attempt.number, "files_lost", experiment.clock(), text))
    return True
