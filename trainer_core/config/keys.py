"""The schema as a flat list of keys: for `--explain`, the documentation, and "did you mean"."""

from __future__ import annotations

import difflib
import json
import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from trainer_core.config.schema import Config
from trainer_core.config.section import Section

_OTHER_NAMES = {
    **{"learning_rate": "lr", "batch_size": "train_batch_size", "max_steps": "total_training_steps"},
    **{"epochs": "total_epochs", "num_epochs": "total_epochs", "n": "num_repeat", "group_size": "num_repeat"},
    **{"clip_grad": "grad_clip", "max_grad_norm": "grad_clip", "kl_coef": "kl_loss_coef"},
    **{"random_seed": "seed", "eval_freq": "test_freq", "model_path": "path", "save_interval": "save_freq"},
}
_NAMES = {int: "int", float: "number", bool: "true | false", str: "text", type(None): "null", Any: "anything"}
_VERL_ROOTS = (
    "actor_rollout_ref", "algorithm", "critic", "custom_reward_function", "data", "global_profiler",
    "ray_init", "ray_kwargs", "reward", "reward_model", "trainer", "transfer_queue",
)  # fmt: skip


@dataclass(frozen=True)
class Key:
    """One key: its dotted path, what may stand there, its default (None for a section), its meaning."""

    path: str
    type: str
    default: Any
    description: str
    is_section: bool
    concern: str
    """What it is about, see `concerns.py`."""

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]


@lru_cache(maxsize=1)
def all_keys() -> dict[str, Key]:
    """Every key of the schema by its path, in the order of the schema."""
    return {key.path: key for key in _keys_below(Config, "", "")}


def _keys_below(section: type[Section], prefix: str, above: str) -> Iterator[Key]:
    for name, field in section.model_fields.items():
        path, inner, meaning = f"{prefix}{name}", field.annotation, field.description or ""
        concern = section.differing.get(name) or section.concerns or above
        if isinstance(inner, type) and issubclass(inner, Section):
            yield Key(path, "mapping", None, meaning, True, concern)
            yield from _keys_below(inner, f"{path}.", concern)
        else:
            default = field.get_default(call_default_factory=True)
            default = list(default) if isinstance(default, tuple) else default
            kind = _type_text(inner) + _bounds(field.metadata)
            yield Key(path, kind, default, meaning, False, concern)


def _type_text(annotation: Any) -> str:
    """What may stand at a key, in words: `int > 0`, `a | b`, `list of text`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type_text(arguments[0]) + _bounds(arguments[1:])
    if origin is Literal:
        return " | ".join(str(argument) for argument in arguments)
    if origin in (Union, types.UnionType):
        return " | ".join(_type_text(argument) for argument in arguments)
    if origin is list:
        return f"list of {_type_text(arguments[0])}"
    if origin is tuple:
        return f"list of {len(arguments)}: {_type_text(arguments[0])}"
    if origin is dict:
        return "mapping"
    return _NAMES.get(annotation, "mapping")


def _bounds(metadata: Any) -> str:
    signs = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
    found = []
    for item in metadata:
        for part in (item, *getattr(item, "metadata", ())):
            found += [f" {sign} {getattr(part, name)}" for name, sign in signs.items() if hasattr(part, name)]
    return ",".join(found)


def shown_default(key: Key) -> str:
    """A default as it would stand in YAML."""
    return key.default if key.default and isinstance(key.default, str) else json.dumps(key.default)


def suggestion(path: str) -> str:
    """What the writer of an unknown key probably meant, as a sentence that says how to fix it."""
    keys = all_keys()
    parent, _, name = path.rpartition(".")
    if not parent and name in _VERL_ROOTS:
        also = f", or under `ajet:` if `ajet.{name}` is meant" if f"ajet.{name}" in keys else ""
        return f"If it is a key of verl, put it under `verl:`{also}."
    if not parent and f"ajet.{name}" in keys:
        return f"Put it under `ajet:`: `ajet.{name}`."
    beside = {key.name: key.path for key in keys.values() if key.path.rpartition(".")[0] == parent}
    wanted = _OTHER_NAMES.get(name, name)
    close = difflib.get_close_matches(name, beside, n=1, cutoff=0.6)
    far = difflib.get_close_matches(name, sorted({key.name for key in keys.values()}), n=1, cutoff=0.75)
    meant = _elsewhere(wanted, path) or "".join(f"`{beside[one]}`" for one in close)
    if wanted in beside:
        meant = f"`{beside[wanted]}`"
    elif not meant and far:
        meant = _elsewhere(far[0], path)
    if meant:
        return f"Did you mean {meant}?"
    if parent:
        return f"Remove it; `ajet --explain '{parent}.*'` lists what may stand there."
    return "Keys of the trainer stand under `ajet:`; if it is a raw key of verl, put it under `verl:`."


def _elsewhere(name: str, path: str) -> str:
    """Up to three keys called `name`, nearest to `path` first, as text."""
    wanted = set(path.split("."))

    def distance(candidate: str) -> tuple[int, bool, int]:
        """First what shares most with the path asked for, then what belongs to the trainer proper."""
        shared = len(wanted & set(candidate.split(".")))
        return -shared, not candidate.startswith("ajet.trainer_common."), candidate.count(".")

    found = sorted((key.path for key in all_keys().values() if key.name == name), key=distance)
    return " or ".join(f"`{candidate}`" for candidate in found[:3])
