"""Checkpoints: Hugging Face folders that training can go on from.

`checkpoints/step_000040/` holds the model, its tokenizer and `trainer_state.pt`. A folder is written under
another name and renamed, and `latest` (the newest folder's name) is replaced last: whatever happens in
between, the earlier checkpoint stays whole.
"""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from trainer_core.engine.protocols import TrainingEngine
from trainer_core.tracking.atomic import write_atomically
from trainer_core.types import TrainingError

_STATE = "trainer_state.pt"


@dataclass(frozen=True)
class Checkpoint:
    """Where a run was when it was saved."""

    folder: Path
    step: int
    engine: Mapping[str, Any]
    """The training engine's `state()`."""
    start_digest: str
    """Digest of the weights that reinforcement learning started from: the reference of the KL loss."""
    row: Mapping[str, float]
    """The metric row of that step."""
    config: Mapping[str, Any]
    """The config it was trained with."""


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, folder: Path, keep: int | None) -> None:
        """`keep` newest ones stay, older ones are removed; None keeps all."""
        self.folder = folder
        self._keep = keep

    def latest(self) -> Checkpoint | None:
        """The newest checkpoint, None when there is none.

        Raises:
            TrainingError: it cannot be read.
        """
        pointer = self.folder / "latest"
        if not pointer.is_file():
            return None
        folder = self.folder / pointer.read_text(encoding="utf-8").strip()
        try:
            state = torch.load(folder / _STATE, weights_only=True)
            return Checkpoint(folder=folder, **state)
        except (OSError, RuntimeError, EOFError, TypeError, ValueError, pickle.UnpicklingError) as error:
            raise TrainingError(
                f"checkpoint {folder} cannot be read ({error}). Write the name of an earlier folder "
                f"into {pointer}, or set "
                "trainer_common.resume: never and a new experiment_dir"
            ) from error

    def save(
        self,
        step: int,
        engine: TrainingEngine,
        tokenizer: Any,
        *,
        start_digest: str,
        row: Mapping[str, float],
        config: Mapping[str, Any],
    ) -> Path:
        """Write the checkpoint of a step and make it the latest.

        Raises:
            TrainingError: it cannot be written, for instance because the disk is full; earlier ones are
            untouched.
        """
        target = self.folder / f"step_{step:06d}"
        draft = self.folder / f".draft-step_{step:06d}"
        try:
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
            engine.save_model(draft)
            tokenizer.save_pretrained(draft)
            state = {
                "step": step,
                "engine": engine.state(),
                "start_digest": start_digest,
                "row": dict(row),
                "config": dict(config),
            }
            torch.save(state, draft / _STATE)
            shutil.rmtree(target, ignore_errors=True)
            draft.rename(target)
            write_atomically(self.folder / "latest", target.name + "\n")
        except (OSError, RuntimeError, SafetensorError) as error:
            shutil.rmtree(draft, ignore_errors=True)
            raise TrainingError(
                f"cannot write the checkpoint of step {step} to {target}: {error}. Free space on "
                "that disk (or choose "
                "another checkpoint_base_dir) and start again: training goes on from the last checkpoint"
            ) from error
        self._remove_old()
        return target

    def _remove_old(self) -> None:
        if self._keep is not None:
            for folder in sorted(self.folder.glob("step_*"))[: -self._keep]:
                shutil.rmtree(folder, ignore_errors=True)
