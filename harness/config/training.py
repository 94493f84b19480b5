"""What the harness needs to know of a training's config file, read without importing any trainer.

A config with an `ajet:` mapping belongs to the bundled trainer, whose outputs can be pointed into the
attempt's folder and whose validations and steps are known in advance. Of any other YAML nothing is assumed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config import edit as config_edit
from harness.config.reader import UnreadableConfigError, text_of

TRAINER_COMMON = "ajet.trainer_common"


@dataclass(frozen=True)
class TrainingConfig:
    """A parsed config; `data` is {} when there is none."""

    data: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path | None) -> "TrainingConfig":
        """Read the file at `path`; no config for None. Raises UnreadableConfigError, OSError."""
        if path is None or not path.exists():
            return cls({})
        return cls(config_edit.load(text_of(path)))

    @classmethod
    def of_attempt(cls, path: Path) -> "TrainingConfig":
        """As `read`, of a file that a training may have altered: one that cannot be read holds nothing."""
        try:
            return cls.read(path)
        except (OSError, UnreadableConfigError):
            return cls({})

    @classmethod
    def of_text(cls, text: str) -> "TrainingConfig":
        """As `of_attempt`, of a text."""
        try:
            return cls(config_edit.load(text))
        except UnreadableConfigError:
            return cls({})

    def _trainer_common(self, key: str, default: Any) -> Any:
        value = config_edit.get(self.data, f"{TRAINER_COMMON}.{key}")
        return default if value is None else value

    @property
    def is_ajet(self) -> bool:
        """True if the bundled trainer (or a system that shares its config tree) runs this."""
        return isinstance(self.data.get("ajet"), Mapping)

    @property
    def expects_kl_loss(self) -> bool:
        return self.is_ajet and bool(self._trainer_common("use_kl_loss", True))

    @property
    def goes_on_from_checkpoints(self) -> bool:
        """True if a trainer that finds a checkpoint in its output folder goes on from it."""
        return self.is_ajet and self._trainer_common("resume", "auto") != "never"

    @property
    def total_steps(self) -> int | None:
        """The number of optimizer steps, where the config fixes it."""
        value = self._trainer_common("total_training_steps", None)
        return value if isinstance(value, int) else None

    def expected_validations(self, last_step: int) -> set[int]:
        """The steps at which a training that came to `last_step` owes a validation."""
        if not self.is_ajet:
            return set()
        every = self._trainer_common("test_freq", 20)
        steps = set(range(every, last_step + 1, every)) if isinstance(every, int) and every > 0 else set()
        return steps | ({0} if self._trainer_common("val_before_train", False) else set())


def steps_fixed_by(config: Path) -> int | None:
    """The number of optimizer steps, where there is a config that can be read and fixes it."""
    return TrainingConfig.of_attempt(config).total_steps


def for_attempt(text: str, attempt_dir: Path) -> str:
    """An attempt's config: an `ajet:` one with its outputs in `attempt_dir`, any other unchanged."""
    data = config_edit.load(text)
    if not isinstance(data.get("ajet"), Mapping):
        return text
    changes: dict[str, config_edit.Scalar] = {
        "ajet.experiment_dir": str(attempt_dir / "trainer"),
        f"{TRAINER_COMMON}.val_print_to_markdown_file_path": str(attempt_dir / "validation.md"),
    }
    if config_edit.get(data, f"{TRAINER_COMMON}.checkpoint_base_dir") is not None:
        changes[f"{TRAINER_COMMON}.checkpoint_base_dir"] = "auto"  # never the checkpoints of another run
    return config_edit.edit(text, changes)
