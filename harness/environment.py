"""The variables that a run, or a sweep, was started with: every later launch has the same.

In: the variables of the shell at hand. Out: `environment.json` (mode 0600): the variables, and of secrets
only name, length and keyed digest. A later launch takes secrets from its own shell, by name, and what belongs
to the login of the moment; nothing else. What is missing or another secret is named. The digests also tell
reports which words are secrets when no variable holds them any more (`known_secrets`).
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.atomic_write import write_atomically
from harness.codec import decode, encode
from harness.redaction import Memory, Secrets, is_secret, parts, secret_values
from monitors.launch import environment_of_caller

LEASED = "HARNESS_LEASED"
"""Variable with the names of those that keep a job to its part of a machine: each job has its own."""
AS_BEFORE, ANOTHER, MISSING = "as at the start", "another one", "not set"
_OF_A_LOGIN = re.compile(
    r"SSH_(?:AUTH_SOCK|AGENT_PID|CLIENT|CONNECTION)|GPG_AGENT_INFO|X?AUTHORITY|XDG_SESSION_\w+|DISPLAY"
    r"|WAYLAND_DISPLAY|WINDOWID|DBUS_SESSION_BUS_ADDRESS|INVOCATION_ID|JOURNAL_STREAM"
)
_FILES = ("attempts/environment.json", "snapshot/environment.json")


@dataclass(frozen=True)
class Digest:
    """What is kept of a secret. `also`: the same of its parts, and of other values that later launches had.
    A value that is too short or too common to be known again has no digest."""

    length: int = 0
    digest: str = ""
    also: tuple[tuple[int, str], ...] = ()

    @property
    def all(self) -> Iterator[tuple[int, str]]:
        yield from ((self.length, self.digest), *self.also) if self.digest else self.also


@dataclass(frozen=True)
class KeptEnvironment:
    """What is kept. `launches`: of each later attempt, by number, how its secrets differed from the first.
    `since`: the attempt from which on it was kept, 0 for all; earlier versions kept nothing."""

    variables: Mapping[str, str]
    secrets: Mapping[str, Digest]
    salt: str
    launches: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    since: int = 0

    @classmethod
    def of(
        cls, caller: Mapping[str, str], private: frozenset[str] = frozenset(), salt: str = ""
    ) -> KeptEnvironment:
        """`private`: names of variables that are secrets whatever they hold; `salt`: by default a new one."""
        own = {name: value for name, value in caller.items() if not _OF_A_LOGIN.fullmatch(name)}
        hidden = {name: value for name, value in own.items() if name in private or is_secret(name, value)}
        memory = Memory(salt or secrets.token_hex(16), frozenset())
        known = {name: _digest(memory, value) for name, value in hidden.items()}
        return cls({name: own[name] for name in own if name not in hidden}, known, memory.salt)

    @classmethod
    def read(cls, path: Path) -> KeptEnvironment | None:
        """None where there is none. Raises OSError, ValueError."""
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(kept["secrets"], list):  # of a sweep by an earlier version: names alone
                kept |= {"secrets": {name: {} for name in kept["secrets"]}, "salt": ""}
            return decode(cls, kept)
        except FileNotFoundError:
            return None
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is no environment as it was kept: {error!r}") from error

    def write(self, path: Path) -> None:
        write_atomically(path, json.dumps(encode(self), indent=2) + "\n", mode=0o600)

    @property
    def names(self) -> dict[str, list[str]]:
        return {"variables": sorted(self.variables), "secrets": sorted(self.secrets)}

    @property
    def memory(self) -> Memory:
        return Memory(self.salt, frozenset(each for kept in self.secrets.values() for each in kept.all))

    def now(self, caller: Mapping[str, str]) -> dict[str, str]:
        """The variables of a launch from a shell that has those of `caller`."""
        leased = {LEASED, *caller.get(LEASED, "").split()}
        taken = {
            name: value
            for name, value in caller.items()
            if name in self.secrets or name in leased or _OF_A_LOGIN.fullmatch(name)
        }
        return {**self.variables, **taken}

    def missing(self, caller: Mapping[str, str]) -> list[str]:
        return [name for name in self.secrets if name not in caller]

    def differences(self, caller: Mapping[str, str]) -> dict[str, str]:
        """How the secrets of this shell differ from those of the first launch, by name."""
        found = dict.fromkeys(self.missing(caller), MISSING)
        for name, kept in self.secrets.items():
            other = _digest(self.memory, caller.get(name, ""))
            if name in caller and (kept.length, kept.digest) != (other.length, other.digest):
                found[name] = ANOTHER
        return found

    def launched(
        self, number: int, caller: Mapping[str, str], hidden: frozenset[str] = frozenset()
    ) -> KeptEnvironment:
        """The same, with how this attempt differs, and with the digests of secrets that are new; `hidden`
        ones are not given to it."""
        found, kept = self.differences(caller), dict(self.secrets)
        for name in (name for name, what in found.items() if what == ANOTHER):
            also = dict.fromkeys((*kept[name].also, *_digest(self.memory, caller[name]).all))
            kept[name] = replace(kept[name], also=tuple(also))
        told = {name: what for name, what in found.items() if name not in hidden}
        others = {attempt: said for attempt, said in self.launches.items() if attempt != str(number)}
        return replace(self, secrets=kept, launches={**others, **({str(number): told} if told else {})})


def _digest(memory: Memory, value: str) -> Digest:
    """Only what is masked in texts is digested."""
    whole, *others = (value.strip(), *parts(value))
    known = [memory.digest(each) for each in others]
    if whole not in others:
        return Digest(also=tuple(known))
    own = memory.digest(whole)
    return Digest(*own, tuple(each for each in known if each != own))


# --- of a run -----------------------------------------------------------------------------------------------


def begin(folder: Path, hidden: frozenset[str], attempt: int = 0) -> KeptEnvironment:
    """What the run in this folder was started with; kept now if nothing is. `hidden`: variables that no
    training is given; `attempt`: the one that is about to be launched."""
    path = folder / _FILES[0]
    kept = KeptEnvironment.read(path)
    if kept is None:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        kept = replace(KeptEnvironment.of(environment_of_caller(), hidden), since=attempt)
        kept.write(path)
    return kept


def of_training(folder: Path | None, hidden: frozenset[str]) -> dict[str, str]:
    """The variables that a launch of the run in this folder has now, apart from what repairs set; without a
    folder, or before anything is kept, this shell's."""
    kept, now = KeptEnvironment.read(folder / _FILES[0]) if folder else None, environment_of_caller()
    return {name: value for name, value in (kept.now(now) if kept else now).items() if name not in hidden}


def missing(folder: Path, hidden: frozenset[str]) -> list[str]:
    """The secrets that the run in this folder was started with and this shell has not."""
    kept = KeptEnvironment.read(folder / _FILES[0])
    return [name for name in kept.missing(environment_of_caller()) if name not in hidden] if kept else []


def launched(folder: Path, number: int, hidden: frozenset[str]) -> None:
    """Keep how the secrets of this attempt, which is about to be launched, differ from those at the start."""
    kept = begin(folder, hidden, number)
    again = kept.launched(number, environment_of_caller(), hidden)
    if again != kept:
        again.write(folder / _FILES[0])


def differences(folder: Path, number: int) -> list[tuple[str, str, str]]:
    """How the secrets of an attempt differ from those of the one before: name, before, now."""
    kept = KeptEnvironment.read(folder / _FILES[0])
    if kept is not None and kept.since == number > 1:
        return [("shell variables", "not known", "those of this shell")]
    before, now = (kept.launches.get(str(each), {}) if kept else {} for each in (number - 1, number))
    changed = (name for name in sorted({*before, *now}) if before.get(name) != now.get(name))
    return [(name, before.get(name, AS_BEFORE), now.get(name, AS_BEFORE)) for name in changed]


# --- what must not leave ------------------------------------------------------------------------------------


def remembered(*folders: Path) -> Secrets:
    """The secrets that the launches of the runs and sweeps in these folders had."""
    memories: dict[str, Memory] = {}
    for path in (folder / name for folder in folders for name in _FILES):
        try:
            kept = KeptEnvironment.read(path)
        except (OSError, ValueError):  # whatever it holds, it stops no report
            continue
        memories |= {kept.salt: kept.memory} if kept is not None else {}
    return Secrets((), tuple(memories.values()))


def secret_in(text: str, folder: Path) -> str:
    """Which secret that is known here stands in the text, in words and without its value; "" for none."""
    variables = [name for name, value in os.environ.items() if is_secret(name, value)]
    named = (name for name in variables if any(part in text for part in parts(os.environ[name])))
    if name := next(named, ""):
        return f"the value of {name}"
    return "a secret of this run" if known_secrets(folder).masked(text) != text else ""


def known_secrets(*folders: Path, more: Iterable[str] = ()) -> Secrets:
    """What is masked in everything that leaves: the secrets of our own environment, those that the runs and
    sweeps in these folders had, and `more`."""
    return Secrets((*secret_values(os.environ), *more), remembered(*folders).memories)
