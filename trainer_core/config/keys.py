"""The schema as a flat list of keys: for `--explain`, the documentation, and "did you mean"."""

from __future__ import annotations

import difflib
import json
import types
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from trainer_core.config.schema import Config

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

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]


@lru_cache(maxsize=1)
def all_keys() -> dict[str, Key]:
    """Every key of the schema by its path, in the order of the schema."""
    return {key.path: key for key in _keys_below(Config, "")}


def _keys_below(section: type[BaseModel], prefix: str) -> list[Key]:
    keys = []
    for name, field in section.model_fields.items():
        path = f"{prefix}{name}"
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            keys.append(Key(path, "mapping", None, field.description or "", True))
            keys.extend(_keys_below(inner, f"{path}."))
        else:
            default = field.get_default(call_default_factory=True)
            default = list(default) if isinstance(default, tuple) else default
            kind = _type_text(field.annotation) + _bounds(field.metadata)
            keys.append(Key(path, kind, default, field.description or "", False))
    return keys


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
    return _NAMES[annotation]


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
    if not parent:
        return _root_suggestion(name)
    siblings = [key.name for key in keys.values() if key.path.rpartition(".")[0] == parent]
    wanted = _OTHER_NAMES.get(name, name)
    if wanted in siblings:
        return f"Did you mean `{parent}.{wanted}`?"
    if elsewhere := _elsewhere(wanted, path):
        return f"Did you mean {elsewhere}?"
    if close := difflib.get_close_matches(name, siblings, n=1, cutoff=0.6):
        return f"Did you mean `{parent}.{close[0]}`?"
    if far := difflib.get_close_matches(name, sorted({key.name for key in keys.values()}), n=1, cutoff=0.75):
        return f"Did you mean {_elsewhere(far[0], path)}?"
    return f"Remove it; `ajet --explain '{parent}.*'` lists what may stand there."


def _elsewhere(name: str, path: str) -> str:
    """Up to three keys called `name`, nearest to `path` first, as text."""
    wanted = set(path.split("."))

    def distance(candidate: str) -> tuple[int, bool, int]:
        """First what shares most with the path asked for, then what belongs to the trainer proper."""
        shared = len(wanted & set(candidate.split(".")))
        return -shared, not candidate.startswith("ajet.trainer_common."), candidate.count(".")

    found = sorted((key.path for key in all_keys().values() if key.name == name), key=distance)
    return " or ".join(f"`{candidate}`" for candidate in found[:3])


def _root_suggestion(name: str) -> str:
    keys = all_keys()
    inside = f"ajet.{name}" in keys
    if name in _VERL_ROOTS:
        also = f", or under `ajet:` if `ajet.{name}` is meant" if inside else ""
        return f"If it is a key of verl, put it under `verl:`{also}."
    if inside:
        return f"Put it under `ajet:`: `ajet.{name}`."
    roots = [key.path for key in keys.values() if "." not in key.path]
    if close := difflib.get_close_matches(name, roots, n=1, cutoff=0.6):
        return f"Did you mean `{close[0]}`?"
    if elsewhere := _elsewhere(_OTHER_NAMES.get(name, name), name):
        return f"Did you mean {elsewhere}?"
    return "Keys of the trainer stand under `ajet:`; if it is a raw key of verl, put it under `verl:`."
