"""Everything a training is given, as one flat table: its config, and what the command line adds to it.

Overrides (`data.train_files=x`), and flags (`--learning-rate 1e-6`) by the names that configs have for them,
win over the config. Out: dotted key → value, and the modules that values ask for.
"""

import difflib
import os
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


MOST_ENTRIES = 20_000
"""Where the codebase has more, it is not known that a name stands there only once."""
_LIKENESS = 0.8
_NOT_WALKED = {"node_modules", "venv", "__pycache__", "wandb", "exp_results", "site-packages"}


def similar(text: str, base: Path) -> str:
    """The only file like the missing one at `text`, seen from `base` and written as `text` is; "" where there
    is none, or more than one."""
    missing = base / Path(text).expanduser()
    is_inside = missing.is_relative_to(base)
    top = base if is_inside else Path(missing.anchor)
    found = list(_respelt(top, missing.relative_to(top).parts))
    if not found and is_inside:
        found = _of_this_name(missing.name, base)
    if len(found) != 1:
        return ""
    is_relative = is_inside and not Path(text).expanduser().is_absolute()
    return str(found[0].relative_to(base) if is_relative else found[0])


def _respelt(folder: Path, parts: tuple[str, ...]) -> Iterator[Path]:
    """Files below the folder whose path has the same parts, or nearly so where there is none of that name."""
    if not parts:
        if folder.is_file():
            yield folder
        return
    is_there = (folder / parts[0]).exists()
    for name in [parts[0]] if is_there else [each for each in _names(folder) if _is_like(parts[0], each)]:
        yield from _respelt(folder / name, parts[1:])


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir() if not entry.name.startswith(".")]
    except OSError:
        return []


def _is_like(one: str, other: str) -> bool:
    """True if the names differ by a slip: not in their numbers or their ending, as versions and splits do."""
    is_of_a_kind = Path(one).suffix == Path(other).suffix and re.findall(r"\d+", one) == re.findall(
        r"\d+", other
    )
    return is_of_a_kind and difflib.SequenceMatcher(None, one, other).ratio() >= _LIKENESS


def _of_this_name(name: str, base: Path) -> list[Path]:
    """The files of this name in the codebase; none where it is too large to be sure."""
    found, left = [], MOST_ENTRIES
    for folder, folders, files in os.walk(base):
        folders[:] = [each for each in folders if not each.startswith(".") and each not in _NOT_WALKED]
        left -= len(files) + len(folders)
        if left < 0:
            return []
        found += [Path(folder, name)] if name in files else []
    return found
