"""Checkpoints: Hugging Face folders that training can go on from.

`checkpoints/step_000040/` holds what the training engine saved (the model, and all it needs to go on), the
tokenizer, `checkpoint.json` and, where the next step's episodes were collected ahead, `ahead.zst`. A folder
is written under another name, brought to the disk and renamed, and `latest` (the newest folder's name) is
replaced last: whatever happens in between, a power cut included, the earlier checkpoint stays whole.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from trainer_core.engine.protocols import TrainingEngine
from trainer_core.records.payload import pack, unpack
from trainer_core.tracking.atomic import write_atomically
from trainer_core.types import Episode, TrainingError

_RECORD, _AHEAD = "checkpoint.json", "ahead.zst"


@dataclass(frozen=True)
class Checkpoint:
    """Where a run was when it was saved."""

    step: int
    start_digest: str
    """Digest of the weights that reinforcement learning started from: the reference of the KL loss."""
    row: Mapping[str, float]
    """The metric row of that step."""
    config: Mapping[str, Any]
    """The config it was trained with."""
    ahead: Sequence[Episode] = ()
    """The episodes of the next step, where they were collected ahead."""
    folder: Path = Path()
    """Where it was read from."""


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, folder: Path, keep: int | None) -> None:
        """`keep` newest ones stay, older ones are removed; None keeps all."""
        self.folder = folder
        self._keep = keep
        self.last_step = 0
        """Saved or gone on from; whatever is newer is of a course that was given up."""

    def resume(
        self,
        engine: TrainingEngine,
        *,
        check: Callable[[Checkpoint], None],
        say: Callable[[str], None],
    ) -> Checkpoint | None:
        """Load the checkpoint that `latest` names (the newest if there is no such file), or where it is
        damaged the next older one, saying so.

        Args:
            check: raises TrainingError where a checkpoint is not of this run.

        Returns:
            None if there is none.

        Raises:
            TrainingError: `check` says so, or none can be read.
        """
        candidates, named = self._candidates(), self._named()
        problems: list[str] = []
        if named and self.folder / named not in candidates:
            problems.append(f"{self.folder / 'latest'} names {named!r}, which is not there")
        for folder in reversed(candidates):
            try:
                checkpoint = _read(folder)
            except (OSError, ValueError, TypeError) as error:
                problems.append(f"checkpoint {folder} cannot be read ({error})")
                continue
            check(checkpoint)
            try:
                engine.load(checkpoint.folder)
            except TrainingError as error:
                problems.append(str(error))
                continue
            for problem in problems:
                say(f"warning: {problem}; going back to {folder.name}")
            self.last_step = checkpoint.step
            return checkpoint
        if problems:
            raise TrainingError(
                f"{problems[0]}, and there is no older one that is whole. Set trainer_common.resume: never "
                "and a new experiment_dir to start again"
            )
        return None

    @property
    def last(self) -> Path | None:
        """The checkpoint that `resume` tries first; None if there is none."""
        return next(reversed(self._candidates()), None)

    def save(self, checkpoint: Checkpoint, engine: TrainingEngine, tokenizer: Any) -> None:
        """Write a checkpoint and make it the latest.

        Raises:
            TrainingError: it cannot be written, for instance because the disk is full; earlier ones are
            untouched.
        """
        record = {name: getattr(checkpoint, name) for name in ("step", "start_digest", "row", "config")}
        target = self.folder / f"step_{checkpoint.step:06d}"
        draft = self.folder / f".draft-{target.name}"
        try:
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
            engine.save(draft)
            tokenizer.save_pretrained(draft)
            (draft / _RECORD).write_text(json.dumps(record, indent=2), encoding="utf-8")
            if checkpoint.ahead:
                (draft / _AHEAD).write_bytes(pack(checkpoint.ahead))
            for path in [*draft.rglob("*"), draft]:
                _to_disk(path)
            shutil.rmtree(target, ignore_errors=True)
            draft.rename(target)
            _to_disk(self.folder)
            write_atomically(self.folder / "latest", target.name + "\n")
            _to_disk(self.folder)
        except (OSError, RuntimeError, SafetensorError) as error:
            shutil.rmtree(draft, ignore_errors=True)
            raise TrainingError(
                f"cannot write the checkpoint of step {checkpoint.step} to {target}: {error}. Free space on "
                "that disk (or choose another checkpoint_base_dir) and start again: training goes on from "
                "the last one"
            ) from error
        self._remove_others(target)

    def _named(self) -> str:
        """What `latest` names; empty if there is no such file."""
        pointer = self.folder / "latest"
        return pointer.read_text(encoding="utf-8").strip() if pointer.is_file() else ""

    def _candidates(self) -> list[Path]:
        """Those that can be gone on from, the best last."""
        named = self._named()
        return [each for each in self._folders() if not named or _step(each.name) <= _step(named)]

    def _folders(self) -> list[Path]:
        """By step, ascending."""
        found = [each for each in self.folder.glob("step_*") if _step(each.name) >= 0]
        return sorted(found, key=lambda each: _step(each.name))

    def _remove_others(self, written: Path) -> None:
        """Remove what is newer than the step this one was trained from, and all but the last `keep`."""
        folders = self._folders()
        kept = [each for each in folders if each == written or _step(each.name) <= self.last_step]
        for folder in folders:
            if folder not in kept[-(self._keep or len(kept)) :]:
                shutil.rmtree(folder, ignore_errors=True)
        self.last_step = _step(written.name)


def _read(folder: Path) -> Checkpoint:
    record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
    ahead = folder / _AHEAD
    episodes = unpack(ahead.read_bytes()) if ahead.is_file() else ()
    return Checkpoint(**record, ahead=episodes, folder=folder)


def _step(name: str) -> int:
    digits = name.removeprefix("step_")
    return int(digits) if digits.isdecimal() else -1


def _to_disk(path: Path) -> None:
    """Have a file's content, or a folder's list of names, survive a power cut."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
