"""What a metric's name says: which way is better, whether it is of a validation, which of several leads.

Names are read by their words (`val/top1_acc` → val, top1, acc) with the table in `names.yaml`. A word that is
not in it says nothing, and then neither does the name: a direction is never assumed.
"""

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

import yaml

from monitors.metrics.row import metric_name

Direction = Literal["min", "max"]

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast as reading with ruamel.yaml
_MEAN = frozenset(("mean", "avg", "average"))
_WORD = re.compile(r"[a-z]+[0-9]*|[0-9]+")


@cache
def _data() -> dict[str, Any]:
    return dict(yaml.load(Path(__file__).with_name("names.yaml").read_text(encoding="utf-8"), Loader=LOADER))


@cache
def words(kind: str) -> frozenset[str]:
    """Return one of the lists of words in `names.yaml`."""
    return frozenset(_data()[kind])


@cache
def splits() -> dict[str, str]:
    """Return the words for data that is not trained on, and what it is called."""
    return {word: split for split, found in _data()["splits"].items() for word in found}


@cache
def _kinds() -> dict[str, tuple[int, Direction]]:
    return {
        word: (rank, kind["better"]) for rank, kind in enumerate(_data()["kinds"]) for word in kind["words"]
    }


def words_of(name: str) -> list[str]:
    """Return the words of a name: `eval/topK_acc@1` → eval, topk, acc, 1."""
    return _WORD.findall(name.lower().replace("'s", " "))


@lru_cache(maxsize=8192)
def kind_of(name: str) -> tuple[int, Direction] | None:
    """Return the rank and the direction of what a name measures; None where it is not known."""
    kinds, parts = _kinds(), words_of(name)
    is_setting = parts[-1:] and parts[-1] in words("settings") and " ".join(parts[-2:]) not in kinds
    if "kl" in parts or is_setting or not words("intended").isdisjoint(parts[:1]):
        return None
    while parts:
        for size in (3, 2, 1):
            if len(parts) >= size and (found := kinds.get(" ".join(parts[-size:]))):
                return found
        if parts[-1] not in words("neutral") and not parts[-1].isdigit():
            break
        parts.pop()
    for part in reversed(re.split(r"[/.]", name.lower())):  # `loss_cls`, `loss/policy`, `rewards/format`
        first = _WORD.findall(part)[:1]
        if first and first[0] in ("loss", "losses", "rewards", "reward", "map", "ap"):
            return None if words("settings").intersection(parts) else kinds[first[0]]
    return None


def direction(name: str) -> Direction | None:
    """Say whether less ("min") or more ("max") of a metric is better; None where its name does not say."""
    kind = kind_of(name)
    return kind[1] if kind else None


@lru_cache(maxsize=8192)
def is_validation(name: str) -> bool:
    """Say whether a metric is measured on data that is not trained on, as far as its name says."""
    parts = words_of(name)
    return not words("validation").isdisjoint(parts[:3]) and parts[-1:] != ["steps"]


def leading(names: Iterable[str], wanted: str = "") -> str | None:
    """Return the metric of these that leads: the one `wanted` names (see `named`), else the most telling one.

    Without any that is named: validation before training, scores before losses. None where no name says what
    it measures.
    """
    known = list(dict.fromkeys(names))
    return named(known, wanted) or min(filter(kind_of, known), key=_how_telling, default=None)


def named(names: Iterable[str], wanted: str) -> str | None:
    """Return the metric of these that a name or a text, such as a purpose, names; None where it names none.

    A name that stands in it counts first, then what it calls by another word ("accuracy" for `val/acc`).
    """
    known = list(dict.fromkeys(names))
    text = wanted.lower()
    spelled = [name for name in known if metric_name(wanted) == name.lower()] or sorted(
        (name for name in known if _stands_in(name, text) and name not in _kinds() and len(name) > 3),
        key=len,
    )
    if spelled:
        return spelled[-1]
    candidates = [name for name in known if kind_of(name)]
    for rank in _ranks_named_in(text):
        alike = [name for name in candidates if _rank(name) == rank]
        trained = [name for name in alike if not is_validation(name)]
        if trained and re.search(r"\btrain(?:ing)?[ _](?:loss|acc\w*|error|reward)", text):
            return trained[0]
        if alike:
            return min(alike, key=_how_telling)
    return None


def _how_telling(name: str) -> tuple[bool, int, int, bool]:
    parts = words_of(name)
    return not is_validation(name), _rank(name), len(parts), _MEAN.isdisjoint(parts)


def _rank(name: str) -> int:
    kind = kind_of(name)
    return kind[0] if kind else len(_kinds())


def _stands_in(name: str, text: str) -> bool:
    return re.search(rf"(?<![\w/@]){re.escape(name.lower())}(?![\w/@])", text) is not None


def _ranks_named_in(text: str) -> list[int]:
    """The ranks of what a text speaks of, in its order."""
    said = re.findall(r"[a-z0-9]+", text)
    found = []
    for start in range(len(said)):
        for size in (3, 2, 1):
            phrase = " ".join(said[start : start + size])
            if phrase not in words("prose") and (kind := _kinds().get(phrase)):
                found.append(kind[0])
                break
    return list(dict.fromkeys(found))


@cache
def vocabulary() -> set[str]:
    """Words that name metrics also without a sign between name and number: `train loss 0.5`, `lr 0.1`."""
    kinds = {part for known in _kinds() for part in re.findall(r"[a-z]+", known)}
    return kinds.union(*map(words, ("neutral", "settings", "validation", "others")))


def names_by_themselves() -> set[str]:
    """Words of which every line without a counter holds one, if it is a row."""
    return {part for known in _kinds() for part in known.split() if len(part) > 1} - words("common")
