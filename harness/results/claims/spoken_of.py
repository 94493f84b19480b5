"""Which keys and contrasts of a comparison a sentence speaks of.

In: a sentence taken apart, the comparison. Out: its `KeyEffect`s and `Contrast`s.
"""

from __future__ import annotations

import re
from dataclasses import replace

from harness.results.claims.reading import Mention, Sentence
from harness.results.claims.types import Evidence
from harness.results.comparing.types import Comparison, Contrast, KeyEffect

_CLAUSE = re.compile(r"[;:]|,\s|\b(?:and|but|while|whereas|although)\b", re.IGNORECASE)


def clause_at(sentence: Sentence, start: int) -> Sentence:
    """The sentence with only what the clause around `start` names, where that names a level, point or key."""
    cuts = [match.start() for match in _CLAUSE.finditer(sentence.text) if not _joins(sentence, match)]
    first = max((cut for cut in cuts if cut <= start), default=-20_000)
    last = min((cut for cut in cuts if cut > start), default=len(sentence.text))
    inside = tuple(m for m in sentence.mentions if first <= m.start < last)
    clause = replace(sentence, mentions=inside)
    return clause if clause.of("level") or clause.of("point") or clause.of("key") else sentence


def _joins(sentence: Sentence, cut: re.Match[str]) -> bool:
    """Whether what stands there joins two levels, as in "between 0.01 and 0.001"."""
    ahead = [
        m
        for m in sentence.mentions
        if m.end <= cut.start() and not sentence.text[m.end : cut.start()].strip()
    ]
    behind = [
        m
        for m in sentence.mentions
        if m.start >= cut.end() and not sentence.text[cut.end() : m.start].strip()
    ]
    return any(m.axis == other.axis for m in ahead for other in behind)


def spoken_of(sentence: Sentence) -> list[Mention]:
    """The levels, points and keys that a sentence names."""
    return [m for m in sentence.mentions if m.axis.startswith("level") or m.axis in ("point", "key")]


def with_topic(sentence: Sentence, before: Sentence | None) -> Sentence:
    """A sentence that names no level, point or key goes on about those of the ones before it."""
    if before is None or spoken_of(sentence):
        return sentence
    away = (replace(m, start=m.start - 10_000, end=m.end - 10_000) for m in spoken_of(before))
    return replace(sentence, mentions=(*away, *sentence.mentions))


def keys_of(sentence: Sentence, comparison: Comparison) -> list[KeyEffect]:
    named = {name for mention in sentence.of("key") for name in mention.ids}
    named |= {name.partition("=")[0] for mention in sentence.of("level") for name in mention.ids}
    named |= {contrast.key for contrast in point_contrasts(sentence, comparison)}
    found = [effect for effect in comparison.keys if effect.key in named]
    if not found and len(comparison.keys) == 1:
        return list(comparison.keys)
    return found


def point_contrasts(sentence: Sentence, comparison: Comparison) -> list[Contrast]:
    """Contrasts whose own side is a point that the sentence names."""
    points = {name for mention in sentence.of("point") for name in mention.ids if name not in ("baseline",)}
    points = {comparison.best or "" if name == "best" else name for name in points}
    if not points:
        return []
    return [
        contrast
        for effect in comparison.keys
        for contrast in effect.contrasts
        if points & set(contrast.points[0]) and not points & set(contrast.points[1]) - points
    ]


def levels_of(sentence: Sentence, key: str) -> list[Mention]:
    return list(sentence.of(f"level of {key}"))


def contrasts_of(
    sentence: Sentence, effect: KeyEffect, start: int | None = None
) -> tuple[list[Contrast], int, bool]:
    """The contrasts spoken of; +1 where the level comes first, −1 where the baseline does; whether the
    sentence compares two levels that were not compared with each other."""
    named = [
        name.partition("=")[2] for mention in levels_of(sentence, effect.key) for name in sorted(mention.ids)
    ]
    named = list(dict.fromkeys(named))
    by_level = {str(contrast.level): contrast for contrast in effect.contrasts}
    base = {str(contrast.baseline) for contrast in effect.contrasts}
    others = [name for name in named if name not in base]
    if len(others) > 1 and not (set(named) & base):
        return [by_level[name] for name in others if name in by_level], 1, True
    sign = -1 if start is not None and others and _base_is_first(sentence, effect, base, start) else 1
    if others:
        return [by_level[name] for name in others if name in by_level], sign, False
    return list(effect.contrasts), 1, False


def _base_is_first(sentence: Sentence, effect: KeyEffect, base: set[str], start: int) -> bool:
    """Whether the baseline stands before the word at `start` and the other level behind it."""
    places = [(m.start, name.partition("=")[2]) for m in levels_of(sentence, effect.key) for name in m.ids]
    ahead = {name for place, name in places if place < start}
    behind = {name for place, name in places if place > start}
    return bool(ahead) and ahead <= base and bool(behind - base)


def is_about_other(sentence: Sentence, start: int, evidence: Evidence) -> bool:
    """Whether the nearest metric before the word is one the findings say nothing of, such as cost."""
    near = [m for m in sentence.of("metric") if m.end <= start and start - m.end < 50] or [
        m for m in sentence.of("metric") if 0 <= m.start - start < 40
    ]
    return bool(near) and not (near[-1].ids & {evidence.main})
