"""What a remedy is computed from, and what it comes to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

from harness.attempt import Diagnosis
from harness.config.values import Scalar
from harness.repair.remedies.settings import Settings


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

    `free_port`: a port that is free; `is_taken`: True if something listens on this one. `open_files`: soft
    and hard limit. `is_cached`: True if this revision of a model of the hub is complete here. `owned`: how
    many `processes` our attempts left behind, or bytes of `checkpoints` that later ones have replaced.
    `may_install`: True if this package may be installed and is not there.
    """

    free_port: Callable[[], int] = _unknown
    is_taken: Callable[[int], bool] = _unknown
    cpu_count: Callable[[], int] = _unknown
    open_files: Callable[[], tuple[int, int]] = _unknown
    is_cached: Callable[[str, str], bool] = _unknown
    owned: Callable[[str], int] = _unknown
    may_install: Callable[[str], bool] = _unknown


@dataclass(frozen=True)
class Situation:
    """A failure, and what a repair of it would start from.

    `config`: the text that the next launch would start from, "" when it reads none that is known; None when
    only a log is known. `environment`: the variables that the next launch would have. `command`: what is
    launched. `tried`: names of remedies after which the same failure came back, once for each time.
    """

    diagnosis: Diagnosis
    config: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    tried: tuple[str, ...] = ()
    machine: Machine = Machine()

    @cached_property
    def settings(self) -> Settings:
        """The values of the config."""
        return Settings.read(self.config or "", self.command)

    @property
    def said(self) -> str:
        """What the diagnosis says in words: signature, cause, evidence."""
        found = self.diagnosis
        return "\n".join([found.signature or "", found.cause, *(line.text for line in found.evidence)])

    def captured(self, name: str) -> str:
        """What the log measured, "" where it did not."""
        return str(self.diagnosis.captures.get(name) or "").strip()

    def variable(self, name: str, value: str) -> Repair | None:
        """This variable set; None where it is already."""
        return None if self.environment.get(name) == value else Repair(environment={name: value})
