"""Levels of the keys of a comparison, where a sentence names them by their numbers, and its baseline.

In: a sentence and what else it mentions. Out: `Mention`s.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from harness.results.claims.binding import is_step
from harness.results.claims.reading import Mention, Sentence
from harness.results.claims.types import Evidence
from harness.results.comparing.types import Key

_LEVEL_BEFORE = re.compile(
    r"(?:[=:]|\b(?:of|at|for|with|using|under|vs\.?|versus|against|than|and|or|to|from|between|over|is|was|level|levels|coefficient|weight|,))"
    r"[\s(`'\"]*$",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.@#])[\-−]?\d+(?:\.\d+)?(?:[eE][+\-−]?\d+)?(?![\w%]|\.\d|\s?%)")


def takes_numbers(mention: Mention) -> bool:
    if mention.axis == "when":
        return is_step(mention) or mention.ids == {"recent"} or mention.text.lower().endswith("steps")
    return mention.axis in ("attempt", "metric", "point", "seed") or mention.axis.startswith("level")


def levels(text: str, evidence: Evidence, known: Sequence[Mention], before: Sentence | None) -> list[Mention]:
    """Numbers that are levels of a key, where the sentence (or the one before) is about that key."""
    if evidence.comparison is None:
        return []
    found: list[Mention] = []
    busy = [(m.start, m.end) for m in known if takes_numbers(m) and m.axis != "metric"]
    for key in evidence.comparison.study.keys:
        numeric = [
            level for level in key.levels if isinstance(level, int | float) and not isinstance(level, bool)
        ]
        if not numeric:
            continue
        for match in _NUMBER.finditer(text):
            level = next((x for x in numeric if _same(match[0], x)), None)
            if level is None or any(start < match.end() and match.start() < end for start, end in busy):
                continue
            if _is_level(text, match, key, evidence, known, before):
                name = f"{key.name}={level}"
                found.append(
                    Mention(match.start(), match.end(), f"level of {key.name}", frozenset({name}), match[0])
                )
    return found


def baselines(mentions: list[Mention], evidence: Evidence) -> list[Mention]:
    """In a comparison no word means "at the start"; "baseline" is a level where levels are spoken of, and
    only says once more what stands beside it in "the baseline of 1e-6"."""
    if evidence.comparison is None:
        return mentions
    kept = [m for m in mentions if m.axis != "when" or is_step(m)]
    keys = {key.name: key for key in evidence.comparison.study.keys}
    spoken = {m.axis.removeprefix("level of ") for m in kept if m.axis.startswith("level of ")}
    named = spoken or (set(keys) if len(keys) == 1 else set())
    found = []
    for mention in kept:
        if mention.ids != {"baseline"} or len(named) != 1:
            found.append(mention)
            continue
        key = keys[next(iter(named))]
        level = f"{key.name}={key.baseline}"
        beside = [m for m in kept if level in m.ids and -60 < m.start - mention.end < 40]
        if not beside:
            found.append(replace(mention, axis=f"level of {key.name}", ids=frozenset({level})))
    return found


def _same(printed: str, level: float) -> bool:
    value = float(printed.replace("−", "-"))
    return abs(value - level) <= 1e-9 * max(abs(value), abs(level))


def _is_level(
    text: str,
    match: re.Match[str],
    key: Key,
    evidence: Evidence,
    known: Sequence[Mention],
    before: Sentence | None,
) -> bool:
    keys = [mention for mention in known if mention.axis == "key" and key.name in mention.ids]
    ahead = text[: match.start()]
    near = [
        m
        for m in keys
        if m.end <= match.start()
        and re.fullmatch(r"[\s=:`'\"(]*(?:of|at|to|from|is|was|value)?[\s`]*", text[m.end : match.start()])
    ]
    behind = [m for m in keys if m.start >= match.end() and not text[match.end() : m.start].strip(" `-")]
    is_odd = "e" in match[0].lower() or 0 < abs(float(match[0].replace("−", "-"))) < 0.005
    if near or behind or (is_odd and not re.search(r"\bp\s*(?:of|was|is|=|<)\s*$", ahead)):
        return True
    if not _LEVEL_BEFORE.search(ahead) and ahead.strip(" `*("):
        return False
    is_known = bool(keys) or (before is not None and any(key.name in m.ids for m in before.of("key")))
    one_key = evidence.comparison is not None and len(evidence.comparison.study.keys) == 1
    spelled = re.search(
        r"\b(?:at|for|with|using|under|vs\.?|versus|against|than|level|between)[\s(`'\"]*$",
        ahead,
        re.IGNORECASE,
    )
    is_own = "." in match[0] and _is_of_one_key(match[0], evidence)
    return (is_known or bool((one_key or is_own) and spelled)) and _value_is_unlikely(ahead)


def _is_of_one_key(printed: str, evidence: Evidence) -> bool:
    keys = evidence.comparison.study.keys if evidence.comparison is not None else ()
    levels = [(key.name, level) for key in keys for level in key.levels if isinstance(level, int | float)]
    return len({name for name, level in levels if _same(printed, level)}) == 1


def _value_is_unlikely(ahead: str) -> bool:
    return not re.search(
        r"(?:rate|reward|kl|loss|score|mean|average|value|p)\s+(?:of|was|is|=)\s*$", ahead, re.IGNORECASE
    )
