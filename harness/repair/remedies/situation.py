"""What a remedy is computed from, and what it comes to."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

from harness.attempt import Diagnosis
from harness.command import read_or_empty
from harness.config import keys
from harness.config.keys import parameter
from harness.config.values import Scalar
from harness.repair.remedies.settings import Setting, Settings

_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*([KMGT]?)(i?)B?(?:ytes)?", re.IGNORECASE)
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


class UnknownError(Exception):
    """A repair depends on a machine of which nothing is known."""


def _unknown(*_: Any) -> NoReturn:
    raise UnknownError


@dataclass(frozen=True)
class Repair:
    """What a remedy comes to in one situation: only values. `edits`: dotted keys with their new values, set
    after the keys of `remove` were taken out."""

    edits: Mapping[str, Scalar] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    package: str = ""
    wait_s: float = 0.0


Edits = dict[str, Scalar]
"""A repair that only edits keys; empty where there is none."""


@dataclass(frozen=True)
class Machine:
    """What can be asked about the machine, each when a remedy needs it; unless it is given, it raises
    UnknownError.

    `open_files`: soft and hard limit. `is_cached`: True if this revision of a model of the hub is complete
    here. `owned`: how many `processes` our attempts left behind, or bytes of `checkpoints` that later ones
    have replaced. `may_install`: True if packages may be installed.
    """

    free_port: Callable[[], int] = _unknown
    cpu_count: Callable[[], int] = _unknown
    open_files: Callable[[], tuple[int, int]] = _unknown
    is_cached: Callable[[str, str], bool] = _unknown
    owned: Callable[[str], int] = _unknown
    may_install: Callable[[], bool] = _unknown


@dataclass(frozen=True)
class Situation:
    """A failure, and what a repair of it would start from.

    `config`: the text that the next launch would start from, "" when it reads none that is known; None when
    only a log is known. `environment`: the variables that the next launch would have. `command`: what is
    launched. `tried`: names of remedies after which the same failure came back, once for each time.
    `protected`: keys and variables that the author wants to stay.
    """

    diagnosis: Diagnosis
    config: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    tried: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    machine: Machine = Machine()

    @cached_property
    def settings(self) -> Settings:
        """The values of the config."""
        return Settings.read(self.config or "", self.command)

    def changeable(self, *names: str) -> list[Setting]:
        """The settings of these parameters that a repair may give another value, by their roles in the table
        of keys. What an edit leads to all the same, by a reference or an alias, the guard sees."""
        is_judged = any(parameter(name).is_judged for name in names)
        is_ajet = self.settings.tree == "ajet"
        return [
            each
            for each in self.settings.of(*names)
            if not keys.is_protected((each.key,), self.protected)
            and (is_judged or keys.meaning((each.key,), is_ajet).may_change)
        ]

    def captured(self, name: str) -> str:
        """What the log measured, "" where it did not."""
        return str(self.diagnosis.captures.get(name) or "").strip()

    def size(self, name: str) -> float | None:
        """A captured amount of memory in GiB."""
        return gib(self.captured(name))

    def count(self, name: str) -> int | None:
        """A captured whole number."""
        return whole(self.captured(name))

    def variables(self, wanted: Mapping[str, str]) -> Repair | None:
        """These variables set; None where they are already, or one must stay as it is."""
        given = read_or_empty(self.command).values
        must_stay = any(name in self.protected or f"env:{name}" in given for name in wanted)
        changed = {name: value for name, value in wanted.items() if self.environment.get(name) != value}
        return Repair(environment=changed) if changed and not must_stay else None


def gib(text: str) -> float | None:
    """`1.02 GiB`, `512 MB`, `79.15GiB` or a number of bytes in GiB; None for anything else, also for numbers
    that no memory has."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    base = 1024 if match[3] or not match[2] else 1000
    return float(match[1]) * float(base ** _POWER[match[2].lower()]) / 2**30


def whole(text: str) -> int | None:
    """`4,096` as a number; None for anything else, and for more digits than a setting has."""
    digits = text.replace(",", "")
    return int(digits) if re.fullmatch(r"[0-9]{1,9}", digits) else None
