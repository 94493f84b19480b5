"""What a metric's name says: which way is better, whether it is of a validation, which of several leads.

Names are read by their words (`val/top1_acc` → val, top1, acc) with the table in `names.yaml`. A word that is
not in it says nothing, and then neither does the name: a direction is never assumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

import yaml

from monitors.metrics.row import metric_name

Direction = Literal["min", "max"]

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast as reading with ruamel.yaml
_WORD = re.compile(r"[a-z]+[0-9]*|[0-9]+")


@dataclass(frozen=True)
class _Table:
    """`kind_of`: words → rank among the kinds, and the direction."""

    kind_of: dict[str, tuple[int, Direction]]
    neutral: frozenset[str]
    settings: frozenset[str]
    validation: frozenset[str]


@cache
def _table() -> _Table:
    data = yaml.load(Path(__file__).with_name("names.yaml").read_text(encoding="utf-8"), Loader=LOADER)
    kinds = {
        word: (rank, kind["better"]) for rank, kind in enumerate(data["kinds"]) for word in kind["words"]
    }
    return _Table(kinds, *(frozenset(data[key]) for key in ("neutral", "settings", "validation")))


def words_of(name: str) -> list[str]:
    """Return the words of a name: `eval/topK_acc@1` → eval, topk, acc, 1."""
    return _WORD.findall(name.lower().replace("'s", " "))


@lru_cache(maxsize=8192)
def kind_of(name: str) -> tuple[int, Direction] | None:
    """Return the rank and the direction of what a name measures; None where it is not known."""
    table, words = _table(), words_of(name)
    is_setting = words[-1:] and words[-1] in table.settings and " ".join(words[-2:]) not in table.kind_of
    if "kl" in words or is_setting:
        return None
    while words:
        for size in (3, 2, 1):
            if len(words) >= size and (found := table.kind_of.get(" ".join(words[-size:]))):
                return found
        if words[-1] not in table.neutral and not words[-1].isdigit():
            break
        words.pop()
    for part in reversed(re.split(r"[/.]", name.lower())):  # `loss_cls`, `loss/policy`, `rewards/format`
        first = _WORD.findall(part)[:1]
        if first and first[0] in ("loss", "losses", "rewards", "reward", "map", "ap"):
            return None if table.settings.intersection(words) else table.kind_of[first[0]]
    return None


def direction(name: str) -> Direction | None:
    """Say whether less ("min") or more ("max") of a metric is better; None where its name does not say."""
    kind = kind_of(name)
    return kind[1] if kind else None


@lru_cache(maxsize=8192)
def is_validation(name: str) -> bool:
    """Say whether a metric is measured on data that is not trained on, as far as its name says."""
    words = words_of(name)
    return not _table().validation.isdisjoint(words[:3]) and words[-1:] != ["steps"]


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
        (name for name in known if _stands_in(name, text) and name not in _table().kind_of and len(name) > 3),
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


def _how_telling(name: str) -> tuple[bool, int, int]:
    return not is_validation(name), _rank(name), len(words_of(name))


def _rank(name: str) -> int:
    kind = kind_of(name)
    return kind[0] if kind else len(_table().kind_of)


def _stands_in(name: str, text: str) -> bool:
    return re.search(rf"(?<![\w/@]){re.escape(name.lower())}(?![\w/@])", text) is not None


def _ranks_named_in(text: str) -> list[int]:
    """The ranks of what a text speaks of, in its order."""
    words = re.findall(r"[a-z0-9]+", text)
    found = []
    for start in range(len(words)):
        for size in (3, 2, 1):
            if kind := _table().kind_of.get(" ".join(words[start : start + size])):
                found.append(kind[0])
                break
    return list(dict.fromkeys(found))
