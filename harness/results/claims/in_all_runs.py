"""Claims about a comparison as a whole: the best point, all runs, every seed, in general.

In: a sentence taken apart, the comparison. Out: claims with their verdicts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

from harness.results.claims import wording
from harness.results.claims.reading import Mention, Sentence
from harness.results.claims.spoken_of import (
    contrasts_of,
    is_about_other,
    keys_of,
)
from harness.results.claims.types import Claim, Evidence, Verdict
from harness.results.comparing.types import Comparison

_BEST = re.compile(
    r"\b(?:(?P<best>best|top|winner|wins|won|leads)|(?P<worst>worst)|(?P<highest>highest)|(?P<lowest>lowest))\b",
    re.IGNORECASE,
)
_ALL_DONE = re.compile(
    r"\b(?:all|every|each\s+of\s+the)\s+(?:\w+\s+){0,2}?(?:runs?|points?|experiments?|seeds?)\s+(?:\w+\s+){0,1}?(?:finished|completed|succeeded|ended|ran|count)\b|\bno\s+(?:run|runs|failures?)\s*(?:failed|crashed|was\s+lost|were\s+lost|occurred)?\b|\bwithout\s+(?:any\s+)?failures?\b",
    re.IGNORECASE,
)
_SEEDWISE = re.compile(
    r"\b(?:in|for|on|with)\s+(?:every|all|each)\s+(?:\w+\s+)?seeds?\b|\bacross\s+(?:all\s+)?seeds\b|\bregardless\s+of\s+(?:the\s+)?seed\b",
    re.IGNORECASE,
)


def claim(text: str, holds: bool, why: str) -> Claim:
    verdict: Verdict = "ok" if holds else "wrong"
    return Claim(text, "effect", verdict, "" if holds else why)


def best(sentence: Sentence, comparison: Comparison, evidence: Evidence) -> Iterator[Claim]:
    text = sentence.text
    for match in _BEST.finditer(text):
        if (
            wording.is_considered(text, match.start())
            or wording.is_denied(text, match.start())
            or is_about_other(sentence, match.start(), evidence)
        ):
            continue
        goal = 1 if comparison.study.goal == "max" else -1
        means = {
            point.point.name: goal * point.value.mean
            for point in comparison.points
            if point.value is not None
        }
        if not means:
            continue
        which = match.lastgroup or "best"
        lowest = which == "worst" or which == ("lowest" if goal > 0 else "highest")
        top = (min if lowest else max)(means, key=lambda name: means[name])
        if not lowest and comparison.best is not None:
            top = comparison.best
        named = [
            m
            for m in sentence.mentions
            if (m.axis == "point" and not m.ids & {"baseline", "best"}) or m.axis.startswith("level")
        ]
        clause = [
            m
            for m in named
            if abs(m.start - match.start()) < 80
            and not re.search(
                r"[;.]|\bagainst\b|\bthan\b|\bwhile\b",
                text[min(m.end, match.end()) : max(m.start, match.start())],
            )
        ]
        if re.search(r"\bseed\b", text[match.start() : match.end() + 25], re.IGNORECASE) or not clause:
            continue
        subjects = [
            evidence.subjects.get(name, frozenset())
            for m in _one_per_axis(clause, match.start())
            for name in m.ids
        ]
        yield claim(
            match[0],
            all(top in group for group in subjects),
            f"the {which} mean is that of {top}",
        )


def _one_per_axis(mentions: list[Mention], start: int) -> list[Mention]:
    nearest: dict[str, Mention] = {}
    for mention in sorted(mentions, key=lambda mention: abs(mention.start - start), reverse=True):
        nearest[mention.axis] = mention
    return list(nearest.values())


def complete(sentence: Sentence, comparison: Comparison) -> Iterator[Claim]:
    absent = [run.run.name for run in comparison.runs if run.value is None] + list(comparison.study.not_run)
    for match in _ALL_DONE.finditer(sentence.text):
        but = re.search(r"\b(?:but|except|apart from|save)\b", sentence.text)
        if (
            but is None
            and not wording.is_denied(sentence.text, match.start())
            and not wording.is_considered(sentence.text, match.start())
        ):
            yield claim(match[0], not absent, f"these do not count: {', '.join(dict.fromkeys(absent))}")


def general(sentence: Sentence, comparison: Comparison) -> Iterator[Claim]:
    text = sentence.text
    for match in wording.GENERAL.finditer(text):
        if wording.is_considered(text, match.start()) or wording.is_denied(text, match.start()):
            continue
        if "seeds" in match[0].lower() and not comparison.is_single_seed:
            continue  # the seeds were run
        yield claim(
            match[0],
            False,
            "the runs say nothing beyond this blueprint"
            if not comparison.is_single_seed
            else "one seed says nothing about other seeds",
        )
    if comparison.is_single_seed:
        for match in (*wording.LAW.finditer(text), *_SEEDWISE.finditer(text)):
            if not wording.is_considered(text, match.start()) and not wording.is_denied(text, match.start()):
                yield claim(match[0], False, "every point has one seed: nothing can be said of other seeds")
    else:
        yield from _seedwise(sentence, comparison)


def _seedwise(sentence: Sentence, comparison: Comparison) -> Iterator[Claim]:
    """ "In every seed": the runs with the same seed are compared one by one."""
    match = _SEEDWISE.search(sentence.text)
    if (
        match is None
        or wording.is_denied(sentence.text, match.start())
        or not wording.DIRECTION.search(sentence.text)
    ):
        return
    value = {(run.run.point, run.run.seed): run.value for run in comparison.runs}
    for effect in keys_of(sentence, comparison):
        for contrast in contrasts_of(sentence, effect)[0]:
            seeds = sorted({run.run.seed or 0 for run in comparison.runs})
            sides = product(contrast.points[0], contrast.points[1], seeds)
            pairs = [(value.get((one, seed)), value.get((other, seed))) for one, other, seed in sides]
            signs = {(a > b) - (a < b) for a, b in pairs if a is not None and b is not None}
            complete = all(a is not None and b is not None for a, b in pairs)
            yield claim(
                match[0],
                len(signs) == 1 and complete,
                "it is not so in every seed, or not every seed has both runs",
            )


def causes(sentence: Sentence) -> Iterator[Claim]:
    for match in wording.CAUSE.finditer(sentence.text):
        if not wording.is_considered(sentence.text, match.start()):
            yield Claim(match[0], "cause", "not checkable", "nothing that was measured shows this cause")
