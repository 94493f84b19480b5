"""The values of a training config by dotted key, and which tree of keys it is.

In: the text of a config. Out: `Settings`, which finds keys by the parameter they are wherever they stand, and
adds those that the tree is known to have with their defaults.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from harness.command import overlaid
from harness.config import edit as config_edit
from harness.config import keys
from harness.config.values import NOTHING, Scalar, flatten

Tree = Literal["ajet", "verl", "huggingface", ""]
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_HUGGINGFACE = "per_device_train_batch_size"
_TOO_LARGE = 10**9
_TOPS: dict[Tree, str] = {"ajet": "ajet", "verl": "actor_rollout_ref"}


@dataclass(frozen=True)
class Setting:
    """One key with its value; `is_default`: it does not stand in the config, the value is what the trainer
    takes then."""

    key: str
    value: Scalar
    is_default: bool = False

    @property
    def number(self) -> float | None:
        """The value as a number that is finite."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            return None
        return float(self.value) if abs(self.value) < _TOO_LARGE else None

    @property
    def whole(self) -> int | None:
        """The value as a whole number of a size that settings have."""
        is_whole = isinstance(self.value, int) and not isinstance(self.value, bool)
        return self.value if is_whole and self.number is not None else None  # type: ignore[return-value]

    @property
    def above(self) -> tuple[str, ...]:
        """The names of the sections that it stands in."""
        return keys.named_segments((self.key,))[:-1]

    @property
    def name(self) -> str:
        """The last part of its key."""
        return self.key.rpartition(".")[2]


@dataclass(frozen=True)
class Settings:
    """The plain values of a config. `tree`: whose keys they are, "" when that is not known. `above`: what
    stands before the keys of that tree, such as `training_args.`."""

    values: Mapping[str, Scalar]
    tree: Tree = ""
    above: str = ""

    @classmethod
    def read(cls, text: str, command: str = "") -> Settings:
        """`command`: what is launched; what it sets holds against the config. A text that is no mapping,
        or contains itself, has no values."""
        try:
            data = config_edit.read(text)
            found = flatten(data)
        except (config_edit.ConfigEditError, RecursionError):
            data, found = {}, {}
        reached = {key: value for key, value in found.items() if config_edit.get(data, key, NOTHING) is value}
        together = overlaid({key: value for key, value in reached.items() if _is_plain(key, value)}, command)
        values = {key: value for key, value in together.items() if _is_plain(key, value)}
        tops = {key.partition(".")[0] for key in values}
        for tree, top in _TOPS.items():
            if top in tops:
                return cls(values, tree)
        batches = [key for key in values if key.rpartition(".")[2] == _HUGGINGFACE]
        if len(batches) == 1:
            return cls(values, "huggingface", batches[0].removesuffix(_HUGGINGFACE))
        return cls(values)

    def of(self, *names: str) -> list[Setting]:
        """The keys that are one of these parameters: those in the config, then those with a known default.
        Keys that the config's backbone does not read are left out."""
        wanted = [keys.parameter(name) for name in names]
        return [each for each in self.all if any(parameter.is_at(each.key) for parameter in wanted)]

    @cached_property
    def all(self) -> list[Setting]:
        """Every key that is read, with its value or default."""
        found = [Setting(key, value) for key, value in self.values.items()]
        for key, (value, needed) in keys.defaults(self.tree).items():
            in_use = not needed or self.values.get(f"{self.above}{needed}") is True
            if in_use and f"{self.above}{key}" not in self.values:
                found.append(Setting(f"{self.above}{key}", value, is_default=True))
        if self.backbone == "local":
            found = [each for each in found if keys.is_read_by_local(each.key)]
        return found

    def longest(self, parameter: str) -> int | None:
        """The greatest whole number at keys of this parameter."""
        found = [each.whole for each in self.of(parameter)]
        return max((number for number in found if number is not None), default=None)

    @property
    def backbone(self) -> str:
        """What runs an `ajet:` config; "" for any other tree."""
        return str(self.values.get("ajet.backbone") or "local") if self.tree == "ajet" else ""


def _is_plain(key: str, value: object) -> bool:
    """True for a single value at a key of plain names."""
    is_single = value is None or isinstance(value, str | int | float | bool)
    return is_single and all(_PLAIN_KEY.fullmatch(part) for part in key.split("."))
