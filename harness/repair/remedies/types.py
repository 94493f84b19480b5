"""The words that the remedies share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from harness.attempt import Diagnosis, Remedy, Undo
from harness.attempt import RemedyKind as Kind
from harness.repair.remedies.settings import Settings

if TYPE_CHECKING:
    from harness.config.edit import Scalar

__all__ = ["Kind", "Remedy", "Undo"]


@dataclass(frozen=True)
class Repair:
    """What a remedy comes to in one situation: only values. `edits`: dotted keys with their new values, set
    after the keys of `remove` were taken out."""

    edits: Mapping[str, Scalar] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    package: str = ""
    wait_s: float = 0.0

    @classmethod
    def of(cls, edits: Mapping[str, Scalar]) -> Repair | None:
        """These edits; None where there are none."""
        return cls(edits=edits) if edits else None

    @property
    def changes_something(self) -> bool:
        return bool(self.edits or self.remove or self.environment or self.package)


@dataclass(frozen=True)
class Surroundings:
    """What can be asked about the machine and the rules, each when a remedy needs it.

    `free_port`: a port that is free; `is_taken`: True if something listens on this one. `open_files`:
    soft and hard limit. `is_cached`: whether this revision of a model of the hub is complete on this machine.
    `leftovers`: how many processes our attempts left behind. `superseded_bytes`: size of our own checkpoints
    that later ones have replaced. `refuses_install`: why this package may not be installed, None when it may.
    `known_key`: the key that the trainer knows and a misspelt one was most probably meant to be. `refuses`:
    why the rules forbid a repair, None when they do not.
    """

    free_port: Callable[[], int]
    is_taken: Callable[[int], bool]
    cpu_count: Callable[[], int]
    open_files: Callable[[], tuple[int, int]]
    is_cached: Callable[[str, str], bool]
    leftovers: Callable[[], int]
    superseded_bytes: Callable[[], int]
    refuses_install: Callable[[str], str | None]
    known_key: Callable[[str], str | None]
    refuses: Callable[[Repair], str | None]


class NobodyToAskError(Exception):
    """A repair depends on the machine or the rules, and the situation knows neither."""


@dataclass(frozen=True)
class Situation:
    """A failure, and what a repair of it would start from.

    `config`: the text that the next launch would start from, "" when it reads none that
    is known; None when only a log is known. `environment`: the variables that the next launch would have.
    `command`: what is launched. `tried`: names of remedies after which the same failure came back, once for
    each time. `surroundings` is None where nothing can be asked: then what depends on it is only described.
    """

    diagnosis: Diagnosis
    config: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    tried: tuple[str, ...] = ()
    surroundings: Surroundings | None = None

    @cached_property
    def settings(self) -> Settings:
        """The values of the config."""
        return Settings.read(self.config or "", self.command)

    @property
    def ask(self) -> Surroundings:
        """The surroundings. Raises NobodyToAskError."""
        if self.surroundings is None:
            raise NobodyToAskError
        return self.surroundings

    @property
    def said(self) -> str:
        """What the diagnosis says in words: signature, cause, evidence."""
        found = self.diagnosis
        return "\n".join([found.signature or "", found.cause, *(line.text for line in found.evidence)])

    def captured(self, name: str) -> str:
        """What the log measured, "" where it did not."""
        return str(self.diagnosis.captures.get(name) or "").strip()
