"""The values of a training config by dotted key, and which tree of keys it is.

In: the text of a config. Out: `Settings`, which finds keys by their last name wherever they stand, and adds
those that the tree is known to have with their defaults (`keys.yaml`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from harness.command import plain
from harness.repair.remedies.tables import table

if TYPE_CHECKING:
    from harness.config.edit import Scalar

Tree = Literal["ajet", "verl", "huggingface", ""]
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_HUGGINGFACE = "per_device_train_batch_size"
_TOO_LARGE = 10**9


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
        return tuple(plain(self.key).split(".")[:-1])

    @property
    def name(self) -> str:
        """The last part of its key."""
        return _last(self.key)


@dataclass(frozen=True)
class Settings:
    """The plain values of a config. `tree`: whose keys they are, "" when that is not known. `above`: what
    stands before the keys of that tree, such as `training_args.`."""

    values: Mapping[str, Scalar]
    tree: Tree = ""
    above: str = ""

    @classmethod
    @lru_cache(maxsize=16)
    def read(cls, text: str) -> Settings:
        """A text that is no mapping, or contains itself, has no values. The same few texts are read again and
        again."""
        from harness.config import edit as config_edit

        try:
            values = dict(_leaves(config_edit.load(text), ""))
        except (config_edit.ConfigEditError, RecursionError):
            return cls({})
        tops = {key.partition(".")[0] for key in values}
        if "ajet" in tops:
            return cls(values, "ajet")
        if "actor_rollout_ref" in tops:
            return cls(values, "verl")
        batches = [key for key in values if key.rpartition(".")[2] == _HUGGINGFACE]
        if len(batches) == 1:
            return cls(values, "huggingface", batches[0].removesuffix(_HUGGINGFACE))
        return cls(values)

    def named(self, pattern: str) -> list[Setting]:
        """The keys whose last name matches in full: those in the config, then those with a known default.
        Keys that the config's backbone does not read are left out."""
        name = re.compile(pattern)
        found = [Setting(key, value) for key, value in self.values.items()]
        found += [
            Setting(f"{self.above}{key}", value, is_default=True)
            for key, value in table("keys")["defaults"].get(self.tree, {}).items()
            if f"{self.above}{key}" not in self.values and self._has_section(key)
        ]
        return [each for each in found if name.fullmatch(_last(each.key)) and not self._is_unread(each.key)]

    def get(self, key: str) -> Scalar:
        return self.values.get(key)

    def longest(self, pattern: str) -> int | None:
        """The greatest whole number at keys of this name."""
        found = [each.whole for each in self.named(pattern)]
        return max((number for number in found if number is not None), default=None)

    def is_on(self, pattern: str) -> bool:
        """Whether a key of this name is true."""
        return any(each.value is True for each in self.named(pattern))

    @property
    def backbone(self) -> str:
        """What runs an `ajet:` config; "" for any other tree."""
        return str(self.values.get("ajet.backbone") or "local") if self.tree == "ajet" else ""

    def _has_section(self, key: str) -> bool:
        """Whether what a default belongs to is in use: a table of its own says which key must be true."""
        needs = table("keys")["needs"].get(self.tree, {})
        wanted = next((needs[pattern] for pattern in needs if fnmatchcase(key, pattern)), None)
        return wanted is None or self.values.get(f"{self.above}{wanted}") is True

    def _is_unread(self, key: str) -> bool:
        return any(fnmatchcase(key, pattern) for pattern in table("keys")["unread"].get(self.backbone, ()))


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _leaves(node: Mapping[str, Any], above: str) -> Iterator[tuple[str, Scalar]]:
    """Values that stand at plain dotted keys; lists are left out."""
    for key, value in node.items():
        if not isinstance(key, str) or not _PLAIN_KEY.fullmatch(key):
            continue
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{above}{key}.")
        elif value is None or isinstance(value, str | int | float | bool):
            yield f"{above}{key}", value
