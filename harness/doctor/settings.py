"""Everything a training is given, as one flat table: its config, and what the command line adds to it.

Overrides (`data.train_files=x`), and flags (`--learning-rate 1e-6`) by the names that configs have for them,
win over the config. Out: dotted key → value, and the modules that values ask for.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.command import PythonProgram
from harness.config import keys

FLASH_ATTENTION = "attn_implementation"
"""The setting that asks for a kernel of its own package."""
_TRACKERS = ("wandb", "swanlab", "mlflow")
BUNDLED = "the bundled trainer"
_TRAINER_MODULES = ("numpy", "pydantic", "ruamel.yaml", "safetensors", "tokenizers", "torch", "transformers")
_LAUNCHER_MODULES = {"torchrun": "torch", "accelerate": "accelerate", "deepspeed": "deepspeed"}
_FOR_A_SETTING: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    ("actor_rollout_ref.rollout.name", "vllm", ("vllm",)),
    ("actor_rollout_ref.rollout.name", "sglang", ("sglang",)),
    (FLASH_ATTENTION, "flash_attention_2", ("flash_attn",)),
    ("use_vllm", True, ("vllm",)),
    ("use_peft", True, ("peft",)),
    ("load_in_4bit", True, ("bitsandbytes",)),
    ("load_in_8bit", True, ("bitsandbytes",)),
    ("ajet.backbone", "verl", ("verl", "ray", "vllm")),
    ("ajet.backbone", "trinity", ("trinity", "ray", "vllm")),
    ("ajet.task_reader.type", "huggingface_dat_repo", ("datasets",)),
    *((key, name, (name,)) for key in ("trainer.logger", "report_to") for name in _TRACKERS),
    *(("ajet.trainer_common.logger", name, (name,)) for name in ("swanlab", "wandb", "tensorboard")),
)
"""(key, value, modules): with this value of this key the modules are imported, late and often in a worker."""


@dataclass(frozen=True)
class Settings:
    """Dotted key → value."""

    values: Mapping[str, Any]

    def get(self, *names: str) -> Any:
        """The value of the first of these exact keys that is set to something; else None."""
        return next((self.values[name] for name in names if self.values.get(name) is not None), None)

    def text(self, *names: str) -> str:
        """As `get`, "" unless it is a text."""
        value = self.get(*names)
        return value if isinstance(value, str) else ""

    def whole(self, *names: str) -> int | None:
        """As `get`, None unless it is a positive integer."""
        value = self.get(*names)
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

    def texts(self) -> Iterator[tuple[str, str]]:
        """Every (key, text), those in lists each."""
        for key, value in self.values.items():
            for item in value if isinstance(value, list | tuple) else [value]:
                if isinstance(item, str):
                    yield key, item

    @property
    def is_of_verl(self) -> bool:
        """True if these are settings of verl."""
        return any(key.startswith("actor_rollout_ref.") for key in self.values)


def spellings(parameter: str) -> tuple[str, ...]:
    """The keys of a setting in all known trees."""
    return keys.parameter(parameter).spellings


def local_path(text: str, folder: Path) -> Path | None:
    """The path that a value means; None where it is an address, an interpolation or has a pattern in it."""
    if not text or re.search(r"[$*?{}\n]|://|^\?\?\?$", text):
        return None
    return folder / Path(text).expanduser()


def modules_of(settings: Settings, programs: tuple[PythonProgram, ...], bundled: bool) -> dict[str, str]:
    """Module → who wants it: the bundled trainer, a launcher, a setting of verl, TRL or transformers."""
    found = dict.fromkeys(_TRAINER_MODULES, BUNDLED) if bundled else {}
    if not bundled and not (programs and all(program.call.certain for program in programs)):
        return found
    for program in programs:
        if program.launcher in _LAUNCHER_MODULES:
            found.setdefault(_LAUNCHER_MODULES[program.launcher], "the launch command")
    if settings.is_of_verl:
        found.setdefault("ray", "verl")
    for key, value, modules in _FOR_A_SETTING:
        given = settings.get(key)
        is_asked = value in given if isinstance(given, list) else value == given
        if is_asked and key.startswith("ajet.") == bundled:
            found = dict.fromkeys(modules, f"{key}: {value}") | found
    if settings.get("ajet.rollout.vllm_python") or settings.get("ajet.rollout.inference") == "transformers":
        found.pop("vllm", None)  # another interpreter's matter, or nobody's
    if settings.get("ajet.trainer_common.trinity_python"):
        found = {module: asker for module, asker in found.items() if asker != "ajet.backbone: trinity"}
    return found
