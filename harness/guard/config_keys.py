"""What a config key means to a repair: how the training runs, what is studied, or where things go.

In: the path of a key, as `effects` gives it. Out: a `Meaning`. The tables stand in `config_keys.yaml` (the
`ajet:` tree, key by key) and `foreign_keys.yaml`: of other trees only listed names may be changed.
"""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

from ruamel.yaml import YAML

from harness.guard.config_diff import Path

Role = Literal["running", "limited", "tracker", "science", "place", "unknown"]
PASSED_THROUGH = ("verl", "trinity")
EFFECTIVE_BATCH = "effective batch"


@dataclass(frozen=True)
class Meaning:
    """What a key is for: `kind` in words, `role` for what follows from it. Only `running` may be changed
    freely, a `tracker` only be made quiet, and a `limited` key go from values that match `was` to such that
    match `to` (regular expressions; an absent value is empty)."""

    role: Role
    kind: str
    was: str = ""
    to: str = ""


_GRAVEST: tuple[Role, ...] = ("science", "place", "tracker", "running")
_RUNNING = Meaning("running", "how the training runs")
_TRACKER = Meaning("tracker", "experiment tracker")
_UNKNOWN = Meaning("unknown", "key that the trainer does not know")
_UNLISTED = Meaning("unknown", "key that is not known to be about how the training runs")


def meaning(path: Path, is_ajet: bool) -> Meaning:
    """What the key at `path` is for; `is_ajet` says whether the config has an `ajet:` tree."""
    segments = named_segments(path)
    if not segments:
        return _UNKNOWN
    if is_ajet and segments[0] == "ajet":
        return ajet_meaning(".".join(segments[1:]))
    if is_ajet and segments[0] not in PASSED_THROUGH:
        return Meaning("place", "composition of the config out of other files")
    return _foreign_meaning(segments[1:] if is_ajet else segments)


def named_segments(path: Path) -> tuple[str, ...]:
    """The names of a path in lower case, `_` for `-`; keys with dots or slashes inside taken apart, places in
    lists left out."""
    parts = [part for key in path if not re.fullmatch(r"\[\d+\]", key) for part in re.split(r"[./:]", key)]
    return tuple(_snake(part) for part in parts if part.strip())


def ajet_meaning(key: str) -> Meaning:
    """What a key of the `ajet:` tree (named without `ajet.`) is for."""
    table = _ajet_table()
    if key in table:
        return table[key]
    parent = key
    while parent:
        parent = parent.rpartition(".")[0]
        if f"{parent}.*" in table:
            return table[f"{parent}.*"]
    below = [meaning for name, meaning in table.items() if name.startswith(f"{key}.")]
    return min(below, key=lambda found: _GRAVEST.index(found.role), default=_UNKNOWN)


def nearest_ajet_key(key: str) -> str | None:
    """The known `ajet:` key that an unknown one most probably was meant to be."""
    *_, name = key.split(".")
    by_name: dict[str, list[str]] = {}
    for known in _ajet_table():
        by_name.setdefault(known.removesuffix(".*").rpartition(".")[2], []).append(known.removesuffix(".*"))
    close = difflib.get_close_matches(name, by_name, n=1, cutoff=0.6)
    if not close:
        return None
    return max(by_name[close[0]], key=lambda known: difflib.SequenceMatcher(None, known, key).ratio())


def is_protected(path: Path, protected: Iterable[str]) -> str | None:
    """The protected key that covers `path` (or lies below it), if one does. A name may leave out what stands
    before it, such as `ajet.`."""
    segments = named_segments(path)
    for name in protected:
        wanted = named_segments((name.strip().removesuffix(".*"),))
        if wanted and (_contains(segments, wanted) or _contains(wanted, segments, at_start=True)):
            return name
    return None


def quiet_tracker(value: str) -> bool:
    """Whether a tracker with this value sends nothing anywhere."""
    return value.strip().lower() in _tables("config_keys.yaml")["quiet_trackers"]


def _contains(longer: Sequence[str], shorter: Sequence[str], at_start: bool = False) -> bool:
    starts = (0,) if at_start else range(len(longer) - len(shorter) + 1)
    return any(tuple(longer[start : start + len(shorter)]) == tuple(shorter) for start in starts)


def _snake(name: str) -> str:
    """`perDevice-Batch` → `per_device_batch`."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", name.strip())
    return re.sub(r"[\s-]+", "_", name).lower()


@cache
def _tables(file: str) -> Mapping[str, Any]:
    text = (resources.files("harness.guard") / file).read_text(encoding="utf-8")
    return YAML(typ="safe", pure=True).load(text)


def _foreign() -> Mapping[str, Any]:
    return _tables("foreign_keys.yaml")


@cache
def _ajet_table() -> Mapping[str, Meaning]:
    ajet = _tables("config_keys.yaml")["ajet"]
    table = dict.fromkeys(ajet["running"], _RUNNING) | dict.fromkeys(ajet["tracker"], _TRACKER)
    roles: tuple[tuple[str, Role], ...] = (("fixed", "science"), ("places", "place"))
    for group, role in roles:
        for kind, keys in ajet[group].items():
            table |= dict.fromkeys(keys, Meaning(role, kind))
    return table


@dataclass(frozen=True)
class _Family:
    """One row of the `places` or `science` of foreign trees."""

    kind: str
    words: frozenset[str]
    names: tuple[re.Pattern[str], ...]
    segments: frozenset[str]
    sections: frozenset[str]
    open_sections: frozenset[str]
    paths: frozenset[str]

    def covers(self, segments: Sequence[str]) -> bool:
        *above, name = segments
        return (
            bool(self.words & set(name.split("_")))
            or _matches(name, self.names)
            or bool(self.segments & set(segments))
            or bool((self.sections | self.open_sections) & set(above))
            or ".".join(segments) in self.paths
        )


@cache
def _families(group: str) -> tuple[_Family, ...]:
    return tuple(
        _Family(
            row["kind"],
            frozenset(row.get("words", ())),
            tuple(re.compile(name) for name in row.get("names", ())),
            *(frozenset(row.get(part, ())) for part in ("segments", "sections", "open_sections", "paths")),
        )
        for row in _foreign()[group]
    )


@cache
def _patterns(group: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(name) for name in _foreign()[group])


@cache
def _limited() -> tuple[tuple[re.Pattern[str], Meaning], ...]:
    rows = _foreign()["limited"]
    return tuple(
        (re.compile(row["names"]), Meaning("limited", _RUNNING.kind, row["was"], row["to"])) for row in rows
    )


def _matches(name: str, patterns: Iterable[re.Pattern[str]]) -> bool:
    return any(pattern.fullmatch(name) for pattern in patterns)


def _foreign_meaning(segments: Sequence[str]) -> Meaning:
    """In the order that `foreign_keys.yaml` tells; what comes first there holds against what comes later."""
    if not segments:
        return _UNKNOWN
    *above, name = segments
    place = next((family for family in _families("places") if family.covers(segments)), None)
    if place is not None and place.segments & set(segments):
        return Meaning("place", place.kind)
    if _matches(".".join(segments), _patterns("running_paths")):
        return _RUNNING
    section = next((family for family in _families("science") if family.sections & set(above)), None)
    plain = next((meaning for pattern, meaning in _limited() if pattern.fullmatch(name)), None)
    if plain is None and _matches(name, _patterns("running_exactly")):
        plain = _RUNNING
    if place is not None and (section is not None or plain is None):
        return Meaning("place", place.kind)
    if section is not None:
        return _RUNNING if _matches(name, _patterns("anywhere")) else Meaning("science", section.kind)
    return plain or _meaning_of_name(segments)


def _meaning_of_name(segments: Sequence[str]) -> Meaning:
    name = segments[-1]
    if _matches(name, (*_patterns("anywhere"), *_patterns("running"))):
        return _RUNNING
    if set(_foreign()["trackers"]) & set(segments) or _matches(name, _patterns("tracker_names")):
        return _TRACKER
    science = next((family for family in _families("science") if family.covers(segments)), None)
    return Meaning("science", science.kind) if science is not None else _UNLISTED
