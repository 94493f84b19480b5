"""What a remedy is computed from (a failure, settings of a training, a machine), and what it comes to."""

from __future__ import annotations

import re
import resource
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal, NoReturn

from harness.attempt import Diagnosis
from harness.command import overlaid, read_or_empty
from harness.command.launch_command import bare
from harness.command.settings import Setting as CommandSetting
from harness.config import edit as config_edit
from harness.config import keys
from harness.config.keys import parameter
from harness.config.values import NOTHING, Scalar, flatten
from harness.machine.ports import a_free_port, is_taken

_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*([KMGT]?)(i?)B?(?:ytes)?", re.IGNORECASE)
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


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
        except config_edit.ConfigEditError:
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

    `is_taken`: True if something listens on this port. `open_files`: soft and hard limit. `is_cached`: True
    if this revision of a model of the hub is complete here. `owned`: how many `processes` our attempts left
    behind, or bytes of `checkpoints` that later ones have replaced. `why_not_install`: why
    no package may be installed, "" where it may. `is_hidden`: True if this path is there and the sandbox of
    the attempt did not show it.
    """

    free_port: Callable[[], int] = _unknown
    is_taken: Callable[[int], bool] = _unknown
    cpu_count: Callable[[], int] = _unknown
    open_files: Callable[[], tuple[int, int]] = _unknown
    is_cached: Callable[[str, str], bool] = _unknown
    owned: Callable[[str], int] = _unknown
    why_not_install: Callable[[], str] = _unknown
    is_hidden: Callable[[str], bool] = _unknown

    @classmethod
    def here(cls, **others: Callable[..., Any]) -> Machine:
        """This machine, and what else is known of it."""
        limits = partial(resource.getrlimit, resource.RLIMIT_NOFILE)
        return cls(free_port=a_free_port, is_taken=is_taken, open_files=limits, **others)


@dataclass(frozen=True)
class Situation:
    """A failure, and what a repair of it would start from.

    `config`: the text that the next launch would start from, "" when it reads none that is known; None when
    only a log is known. `environment`: the variables that the next launch would have. `command`: what is
    launched. `tried`: names of remedies after which the same failure came back, once for each time.
    `protected`: keys and variables that the author wants to stay. `python`: the training's interpreter;
    `config_name`: what people call the config.
    """

    diagnosis: Diagnosis
    config: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    command: str = ""
    tried: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    machine: Machine = Machine()
    python: str = "python"
    config_name: str = "the config"

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

    def where(self, key: str) -> str:
        """Where a setting stands, in words."""
        return "the launch command" if self._in_command(key) is not None else self.config_name

    def written(self, key: str, value: str) -> str:
        """A setting with another value, as it is written where it stands."""
        place = self._in_command(key)
        if place is None:
            return f"{key}: {value}"
        name = bare(place.name)
        return f"{name} {value}" if name.startswith("-") else f"{name}={value}"

    def _in_command(self, key: str) -> CommandSetting | None:
        return read_or_empty(self.command).setting_of(key)

    @property
    def said(self) -> str:
        """What the diagnosis says in words: signature, cause, evidence."""
        found = self.diagnosis
        return "\n".join([found.signature or "", found.cause, *(line.text for line in found.evidence)])

    def captured(self, name: str) -> str:
        """What the log measured, "" where it did not."""
        return str(self.diagnosis.captures.get(name) or "").strip()

    @property
    def values(self) -> dict[str, str]:
        """What advice may name: what was captured, the training's interpreter, and `at`, the line of the
        author's own code."""
        place, line = self.captured("place"), self.captured("code")
        at = f"in {place}" + (f" (`{line}`)" if line else "") if place else "in your code"
        return {**self.diagnosis.captures, "python": self.python, "at": at}

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
