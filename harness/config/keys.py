"""What config keys mean: science, resource, path or cosmetic; and settings by one name, whatever a trainer
calls them.

In: the path of a key (see `readings`). Out: a `Meaning`, or the `Parameter` that it is. The tables:
`keys.yaml`, and `trainer_keys.json`, which the bundled trainer's schema writes. Of other trainers only listed
keys are free."""

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path as FilePath
from typing import Any, Literal

from harness.config.readings import Path
from harness.config.values import Scalar
from harness.installation import own_table, own_text

Role = Literal["science", "resource", "path", "cosmetic", "unknown"]
PASSED_THROUGH = ("verl", "trinity")
"""Parts of an `ajet:` config that other programs read."""
EFFECTIVE_BATCH = "effective batch"
TRACKER = "experiment tracker"
_GRAVEST: tuple[Role, ...] = ("science", "path", "cosmetic", "resource")


@dataclass(frozen=True)
class Meaning:
    """What a key is for: `about` in words, `role` for what follows from it. `science` is what is studied,
    `path` names files, folders, code, addresses and secrets; both are the author's. `resource` (how the
    training runs) and `cosmetic` (what is shown and kept) may be changed, where `was` and `to` say so only
    from values that match the one to such that match the other (regular expressions; an absent value is
    empty)."""

    role: Role
    about: str
    was: str = ".*"
    to: str = ".*"

    @property
    def may_change(self) -> bool:
        """True if a repair may set some other value."""
        return self.role in ("resource", "cosmetic")

    @property
    def is_free(self) -> bool:
        """True if a repair may set any value."""
        return self.may_change and self.was == self.to == ".*"

    def allows(self, old: str, new: str) -> bool:
        """True if a repair may go from one value to the other, as texts."""
        fits = re.fullmatch(self.was, old, re.DOTALL) and re.fullmatch(
            self.to, new.strip().lower(), re.DOTALL
        )
        return self.may_change and bool(fits)


@dataclass(frozen=True)
class Parameter:
    """A setting that several trainers have. `names`: pattern of the last part of its keys; `keys`: how the
    known trees (`ajet`, `verl`, `huggingface`) write it; `defaults`, `needs`: by tree; `factor`: see
    `keys.yaml`."""

    name: str
    names: str
    unit: str = ""
    factor: int = 0
    keys: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Scalar] = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)

    def is_at(self, path: Path | str) -> bool:
        """True if the key at `path` is this setting."""
        return re.fullmatch(self.names, last_name((path,) if isinstance(path, str) else path)) is not None

    @property
    def is_judged(self) -> bool:
        """True if an edit is judged by what it comes to, not by the role of its key."""
        return bool(self.factor) or self.name == "engine_length"

    @property
    def spellings(self) -> tuple[str, ...]:
        """Its keys in all known trees."""
        return tuple(dict.fromkeys(self.keys.values()))


_RUNNING = Meaning("resource", "how the training runs")
_WRITING = Meaning("cosmetic", "what is logged and saved")
_UNKNOWN = Meaning("unknown", "key that the trainer does not know")
_UNLISTED = Meaning("unknown", "key that is not known to be about how the training runs")


def meaning(path: Path, is_ajet: bool) -> Meaning:
    """What the key at `path` is for; `is_ajet`: the config has an `ajet:` tree."""
    segments = named_segments(path)
    if not segments:
        return _UNKNOWN
    if is_ajet and segments[0] == "ajet":
        return _own_meaning(".".join(segments))
    if is_ajet and segments[0] not in PASSED_THROUGH:
        return Meaning("path", "composition of the config out of other files")
    return _foreign_meaning(segments[1:] if is_ajet else segments)


def about(key: str) -> str:
    """What a varied key (dotted, `arg:--flag`, `env:NAME`) concerns: `effective batch`, `validation`, …"""
    path = (key.partition(":")[2].lstrip("-+"),) if ":" in key else tuple(key.split("."))
    return meaning(path, is_ajet=path[0] == "ajet").about


def is_length(key: str) -> bool:
    """True if a varied key changes how many steps a run trains."""
    return about(key) in ("amount of training", "effective batch")


def named_segments(path: Path) -> tuple[str, ...]:
    """The names of a path, dotted keys taken apart, in lower case, `_` for `-`; places in lists left out."""
    parts = [part for key in path if not re.fullmatch(r"\[\d+\]", key) for part in re.split(r"[./:]", key)]
    spaced = (re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z])", "_", part.strip()) for part in parts)
    return tuple(re.sub(r"[\s-]+", "_", part).lower() for part in spaced if part)


def last_name(path: Path) -> str:
    """The last of them, "" where there is none."""
    return (named_segments(path) or ("",))[-1]


def is_protected(path: Path, protected: Iterable[str]) -> str | None:
    """The protected key that covers `path` (or lies below it), if one does. A name may leave out what stands
    before it, such as `ajet.`."""
    segments = named_segments(path)
    for name in protected:
        wanted = named_segments((name.strip().removesuffix(".*"),))
        if wanted and (_contains(segments, wanted) or _contains(wanted, segments, at_start=True)):
            return name
    return None


# --- parameters and the bundled trainer's keys --------------------------------------------------------------


@cache
def parameters() -> Mapping[str, Parameter]:
    """All by name; the trainer's own defaults are those of its schema where a repair may change the key."""
    found = {}
    for name, row in _table()["parameters"].items():
        own = own_keys().get(row.get("keys", {}).get("ajet", ""))
        is_ours = own is not None and own["role"] in ("resource", "cosmetic")
        defaults = {**({"ajet": own["default"]} if own and is_ours else {}), **row.get("defaults", {})}
        found[name] = Parameter(name, **{**row, "defaults": defaults})
    return found


def parameter(name: str) -> Parameter:
    """The setting of this name. Raises KeyError."""
    return parameters()[name]


@cache
def defaults(tree: str) -> Mapping[str, tuple[Scalar, str]]:
    """What a known tree takes for keys that are absent: key to its value and the key that must be true for it
    to count ("" for none)."""
    return {
        each.keys[tree]: (each.defaults[tree], each.needs.get(tree, ""))
        for each in parameters().values()
        if tree in each.defaults and tree in each.keys
    }


def short_names() -> Mapping[str, str]:
    """What people may write for keys of the bundled trainer, such as `lr`."""
    return dict(_table()["short_names"])


def smoke_limit(name: str, value: Any, steps: int) -> Scalar:
    """What a key of this name and value is set to in a smoke run of so many steps; None where it stays."""
    table, last = _table()["smoke_limits"], last_name((name,)).lstrip("_")
    if value is True and re.fullmatch(table["switched_off"], last):
        return False
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    for row in table["names"]:
        most = steps if row["most"] == "steps" else row["most"]
        if re.fullmatch(row["names"], last) and (value > most or value == -1):
            return int(most)
    return None


def smoke_limits_of(tree: str, steps: int) -> dict[str, Scalar]:
    """What a smoke run of so many steps sets for this tree, also where it is absent."""
    rows = _table()["smoke_limits"]["trees"][tree]
    return {key: steps if value == "steps" else value for key, value in rows.items()}


def is_read_by_local(key: str) -> bool:
    """True if backbone `local` of the bundled trainer heeds this key of its config."""
    if key.partition(".")[0] in PASSED_THROUGH:
        return False
    return bool(own_keys().get(key, {}).get("local", True))


def nearest_own_key(key: str) -> str | None:
    """The key of the bundled trainer that an unknown one below `ajet.` most probably was meant to be; None
    where two are equally near."""
    by_name: dict[str, list[str]] = {}
    for known in own_keys():
        by_name.setdefault(known.rpartition(".")[2], []).append(known)
    close = difflib.get_close_matches(key.rpartition(".")[2], by_name, n=1, cutoff=0.6)
    if not close or not key.startswith("ajet."):
        return None
    near = {known: difflib.SequenceMatcher(None, known, key).ratio() for known in by_name[close[0]]}
    nearest = [known for known, ratio in near.items() if ratio == max(near.values())]
    return nearest[0] if len(nearest) == 1 else None


def _own_meaning(key: str) -> Meaning:
    """What a key below `ajet.` is for: a section is as grave as the gravest key in it, what stands in a free
    mapping is like the mapping."""
    known = own_keys()
    if key in known:
        role, about = known[key]["role"], known[key]["about"]
        return _tracker() if about == TRACKER else Meaning(role, about)
    parts = key.split(".")
    for end in range(len(parts) - 1, 1, -1):
        above = known.get(".".join(parts[:end]))
        if above is not None and isinstance(above["default"], dict):
            return Meaning(above["role"], above["about"])
    below = [Meaning(row["role"], row["about"]) for name, row in known.items() if name.startswith(f"{key}.")]
    return min(below, key=lambda found: _GRAVEST.index(found.role), default=_UNKNOWN)


def _tracker() -> Meaning:
    """A tracker may be made quiet only."""
    return Meaning("cosmetic", TRACKER, to=_table()["quiet_trackers"])


# --- other trainers -----------------------------------------------------------------------------------------


def _foreign_meaning(segments: Sequence[str]) -> Meaning:
    """In the order that `keys.yaml` gives; what comes first there holds against what comes later."""
    if not segments:
        return _UNKNOWN
    *above, name = segments
    path = next((row for row in _table()["path"] if _covers(row, segments)), None)
    if path is not None and not {*segments}.isdisjoint(path.get("segments", ())):
        return Meaning("path", path["kind"])
    if _is(".".join(segments), "resource_paths"):
        return _RUNNING
    sciences = _table()["science"]
    section = next((row for row in sciences if not {*above}.isdisjoint(row.get("sections", ()))), None)
    limited = next((row for row in _table()["limited"] if re.fullmatch(row["names"], name)), None)
    is_plain = limited is not None or _is(name, "resource_exactly")
    if path is not None and (section is not None or not is_plain):
        return Meaning("path", path["kind"])
    if section is not None:
        return _RUNNING if _is(name, "anywhere") else Meaning("science", section["kind"])
    if limited is not None:
        return Meaning("resource", _RUNNING.about, limited["was"], limited["to"])
    if is_plain or _is(name, "anywhere") or _is(name, "resource"):
        return _RUNNING
    if _is(name, "cosmetic"):
        return _WRITING
    if not {*segments}.isdisjoint(_table()["trackers"]) or _is(name, "tracker_names"):
        return _tracker()
    science = next((row for row in sciences if _covers(row, segments)), None)
    return Meaning("science", science["kind"]) if science is not None else _UNLISTED


def _covers(row: Mapping[str, Any], segments: Sequence[str]) -> bool:
    """True if a row of `path` or `science` is about this key."""
    *above, name = segments
    found = {
        "words": {*name.split("_")},
        "segments": {*segments},
        "sections": {*above},
        "open_sections": {*above},
        "paths": {".".join(segments)},
    }
    return any(not found[part].isdisjoint(row[part]) for part in found if part in row) or any(
        re.fullmatch(each, name) for each in row.get("names", ())
    )


def _is(name: str, group: str) -> bool:
    """True if one of the patterns of this group of `keys.yaml` is that of the name."""
    return _pattern(group).fullmatch(name) is not None


@cache
def _pattern(group: str) -> re.Pattern[str]:
    return re.compile("|".join(_table()[group]))


def _contains(longer: Sequence[str], shorter: Sequence[str], at_start: bool = False) -> bool:
    starts = (0,) if at_start else range(len(longer) - len(shorter) + 1)
    return any(tuple(longer[start : start + len(shorter)]) == tuple(shorter) for start in starts)


@cache
def _table() -> dict[str, Any]:
    return dict(own_table(FilePath(__file__).with_name("keys.yaml")))


@cache
def own_keys() -> dict[str, dict[str, Any]]:
    """Every key of the bundled trainer that holds a value, with what its schema says of it."""
    text = own_text(FilePath(__file__).with_name("trainer_keys.json"))
    return dict(json.loads(text))
