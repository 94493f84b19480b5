"""Claims about several runs: which level or point is better, whether a key matters, what was not found.

In: a sentence taken apart, the evidence of the comparison. Out: claims; each is checked against the findings
of the comparison, whose words are the only ones allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from harness.results.claims import wording
from harness.results.claims.reading import Mention, Sentence
from harness.results.claims.spoken_of import contrasts_of, is_about_other, keys_of, levels_of, point_contrasts
from harness.results.claims.types import Claim, Evidence, Verdict
from harness.results.comparing.types import Comparison, Contrast, KeyEffect

_MATTERS = re.compile(
    r"\b(?:matters?|mattered|has\s+an\s+effect|had\s+an\s+effect|makes\s+a\s+difference|made\s+a\s+difference|is\s+(?:the\s+)?(?:most\s+)?(?:important|influential|decisive)|drives|has\s+(?:a\s+)?(?:strong|clear|large)\s+effect|affects?|influences?|dominat\w+)\b",
    re.IGNORECASE,
)
_MOST = re.compile(
    r"\b(?:most\s+(?:important|influential|sensitive)|dominat\w+|largest\s+effect|matters\s+most|strongest\s+effect|bigger\s+effect)\b",
    re.IGNORECASE,
)
_BEST = re.compile(
    r"\b(?P<best>best|highest|top|winner|wins|won|leads)\b|\b(?P<worst>worst|lowest)\b", re.IGNORECASE
)
_ALL_DONE = re.compile(
    r"\b(?:all|every|each\s+of\s+the)\s+(?:\w+\s+){0,2}?(?:runs?|points?|experiments?|seeds?)\s+(?:\w+\s+){0,1}?(?:finished|completed|succeeded|ended|ran|count)\b|\bno\s+(?:run|runs|failures?)\s*(?:failed|crashed|was\s+lost|were\s+lost|occurred)?\b|\bwithout\s+(?:any\s+)?failures?\b",
    re.IGNORECASE,
)
_SEEDWISE = re.compile(
    r"\b(?:in|for|on|with)\s+(?:every|all|each)\s+(?:\w+\s+)?seeds?\b|\bacross\s+(?:all\s+)?seeds\b|\bregardless\s+of\s+(?:the\s+)?seed\b",
    re.IGNORECASE,
)


def claims(sentence: Sentence, evidence: Evidence, before: Sentence | None = None) -> Iterator[Claim]:
    """What the sentence says beside its numbers. One that names no level goes on about those of the one
    before it."""
    comparison = evidence.comparison
    assert comparison is not None
    if before is not None and not (sentence.of("level") or sentence.of("point") or sentence.of("key")):
        carried = [m for m in before.mentions if m.axis.startswith("level") or m.axis in ("point", "key")]
        away = tuple(replace(m, start=m.start - 10_000, end=m.end - 10_000) for m in carried)
        sentence = replace(sentence, mentions=(*away, *sentence.mentions))
    yield from _directions(sentence, comparison, evidence)
    yield from _same(sentence, comparison)
    yield from _undetected(sentence, comparison)
    yield from _significant(sentence, comparison)
    yield from _matters(sentence, comparison)
    yield from _best(sentence, comparison, evidence)
    yield from _complete(sentence, comparison)
    yield from _general(sentence, comparison)
    yield from _causes(sentence)


def _claim(text: str, holds: bool, why: str) -> Claim:
    verdict: Verdict = "ok" if holds else "wrong"
    return Claim(text, "effect", verdict, "" if holds else why)


# --- what is spoken of --------------------------------------------------------------------------------------


# --- claims -------------------------------------------------------------------------------------------------


def _directions(sentence: Sentence, comparison: Comparison, evidence: Evidence) -> Iterator[Claim]:
    text = sentence.text
    goal = 1 if comparison.study.goal == "max" else -1
    for match in wording.DIRECTION.finditer(text):
        word = match.lastgroup or ""
        if wording.is_considered(text, match.start()) or is_about_other(sentence, match.start(), evidence):
            continue
        if _names_change_of_key(sentence, match) or re.search(
            r"\b(?:end|bound|area)\b", text[match.end() : match.end() + 12]
        ):
            continue
        wanted = {"up": 1, "down": -1, "better": goal, "worse": -goal}[word]
        is_denied = wording.is_denied(text, match.start())
        is_described = (
            len(
                [
                    bound
                    for bound in sentence.numbers
                    if bound.parent is None and bound.quantity.form in ("plain", "percent", "points")
                ]
            )
            >= 1
        )
        direct = point_contrasts(sentence, comparison)
        effects = keys_of(sentence, comparison)
        if direct and not sentence.of("level"):
            yield _judge(match[0], direct, wanted, is_denied, is_described, sentence)
            continue
        for effect in effects:
            chosen, sign, untested = contrasts_of(sentence, effect, match.start())
            if untested and not is_denied:
                holds = is_described and _is_held_back(sentence)
                yield _claim(
                    match[0],
                    holds,
                    f"{_listed(chosen)} of {effect.key} were not compared with each other",
                )
            elif chosen:
                if not levels_of(sentence, effect.key) and not is_denied:
                    yield _whole_key(match[0], effect, wanted)
                else:
                    yield _judge(match[0], chosen, wanted * sign, is_denied, is_described, sentence)


def _names_change_of_key(sentence: Sentence, match: re.Match[str]) -> bool:
    """ "raising the learning rate", "a higher lr": the key is what went up, not the metric."""
    behind = [m for m in (*sentence.of("key"), *sentence.of("level")) if 0 <= m.start - match.end() <= 12]
    return bool(behind) and not re.search(
        r"\bthan\b|\bwith\b|\bat\b|\bfor\b|\bin\b|\bunder\b|\bby\b",
        sentence.text[match.end() : behind[0].start],
    )


def _whole_key(said: str, effect: KeyEffect, wanted: int) -> Claim:
    """A claim about a key as a whole, such as "a higher learning rate improves the pass rate"."""
    if effect.matters is not True:
        return _claim(said, False, effect.why_not or f"no effect of {effect.key} was detected")
    ordered = [contrast for contrast in effect.contrasts if _is_above(contrast)]
    expected = "higher" if wanted > 0 else "lower"
    holds = bool(ordered) and all(contrast.finding == expected for contrast in ordered)
    told = "; ".join(_told(contrast) for contrast in effect.contrasts)
    return _claim(said, holds, told)


def _is_above(contrast: Contrast) -> bool:
    """Whether the level lies above the baseline's; levels without an order all do."""
    level, baseline = contrast.level, contrast.baseline
    if isinstance(level, int | float) and isinstance(baseline, int | float):
        return level > baseline
    return True


def _judge(
    said: str,
    contrasts: list[Contrast],
    wanted: int,
    is_denied: bool,
    is_described: bool,
    sentence: Sentence,
) -> Claim:
    expected = "higher" if wanted > 0 else "lower"
    told = "; ".join(_told(contrast) for contrast in contrasts[:3])
    if is_denied:
        return _claim(said, not any(contrast.finding == expected for contrast in contrasts), told)
    if all(contrast.finding == expected for contrast in contrasts):
        return _claim(said, True, "")
    is_hedged = wording.UNDETECTED.search(sentence.text) or re.search(
        r"\b(?:one|single)[\s-]seed\b|not\s+tested|nominally|numerically|in\s+the\s+sample",
        sentence.text,
        re.IGNORECASE,
    )
    signs_fit = all(
        contrast.difference is not None and contrast.difference * wanted > 0 for contrast in contrasts
    )
    if is_hedged and signs_fit and is_described:
        return _claim(said, True, "")
    return _claim(said, False, told)


def _listed(contrasts: list[Contrast]) -> str:
    return f"levels {' and '.join(str(contrast.level) for contrast in contrasts)}"


def _is_held_back(sentence: Sentence) -> bool:
    """Whether the sentence itself says that nothing was detected or tested."""
    return wording.UNDETECTED.search(sentence.text) is not None or "not tested" in sentence.text.lower()


def _told(contrast: Contrast) -> str:
    words = f"{contrast.key} {contrast.level} against {contrast.baseline}: {contrast.finding}"
    if contrast.why_not:
        return f"{words} ({contrast.why_not})"
    if contrast.low is not None and contrast.high is not None:
        return f"{words}, 95 % interval of the difference [{contrast.low:.3f}, {contrast.high:.3f}]".replace(
            "-", "−"
        )
    return words


def _same(sentence: Sentence, comparison: Comparison) -> Iterator[Claim]:
    why = "that none was found does not show that there is none: say which one would have been detected"
    text = sentence.text
    for match in wording.SAME.finditer(text):
        rest = text[match.end() : match.end() + 24].lower()
        if (
            wording.is_denied(text, match.start())
            or wording.is_considered(text, match.start())
            or wording.UNDETECTED.search(text[match.start() : match.end() + 30])
        ):
            continue
        if re.match(
            r"\s+(?:\d+\s+|two\s+|three\s+)?(?:validation|tasks|seeds?|code|snapshot|data|environment|model|number|config|steps|budget|blueprint|machine|settings)",
            rest,
        ):
            continue
        if keys_of(sentence, comparison) or sentence.of("point"):
            yield _claim(match[0], False, why)


def _undetected(sentence: Sentence, comparison: Comparison) -> Iterator[Claim]:
    for match in wording.UNDETECTED.finditer(sentence.text):
        if wording.is_considered(sentence.text, match.start()) or re.search(
            r"\bnot\s+$", sentence.text[: match.start()]
        ):
            continue
        contrasts: list[Contrast] = []
        for effect in keys_of(sentence, comparison):
            contrasts += contrasts_of(sentence, effect)[0]
        found = [contrast for contrast in contrasts if contrast.finding in ("higher", "lower")]
        if contrasts:
            yield _claim(
                match[0],
                len(found) < len(contrasts) if not sentence.of("level") else not found,
                "; ".join(map(_told, found)),
            )


def _significant(sentence: Sentence, comparison: Comparison) -> Iterator[Claim]:
    text = sentence.text
    for match in (*wording.SIGNIFICANT.finditer(text), *wording.EXCLUDES_ZERO.finditer(text)):
        if wording.is_considered(text, match.start()) or wording.is_denied(text, match.start()):
            continue
        contrasts = point_contrasts(sentence, comparison) if not sentence.of("level") else []
        for effect in keys_of(sentence, comparison) if not contrasts else ():
            contrasts += contrasts_of(sentence, effect)[0]
        holds = bool(contrasts) and all(contrast.finding in ("higher", "lower") for contrast in contrasts)
        if not holds and not sentence.of("level") and sentence.of("key"):
            holds = all(effect.matters is True for effect in keys_of(sentence, comparison))
        yield _claim(match[0], holds, "; ".join(map(_told, contrasts[:3])) or "no such contrast was tested")


def _matters(sentence: Sentence, comparison: Comparison) -> Iterator[Claim]:
    text = sentence.text
    for match in _MATTERS.finditer(text):
        if wording.is_considered(text, match.start()) or wording.is_denied(text, match.start()):
            continue
        effects = keys_of(sentence, comparison)
        before = {
            name for mention in sentence.of("key") if mention.end <= match.start() for name in mention.ids
        }
        effects = [effect for effect in effects if effect.key in before] or effects
        for effect in effects:
            yield _claim(
                match[0], effect.matters is True, effect.why_not or f"no effect of {effect.key} was detected"
            )
        if _MOST.search(match[0]) and effects and comparison.keys:
            shares = {effect.key: effect.share or 0.0 for effect in comparison.keys}
            top = max(shares, key=lambda key: shares[key])
            yield _claim(match[0], effects[0].key == top, f"{top} has the largest share of the variance")


def _best(sentence: Sentence, comparison: Comparison, evidence: Evidence) -> Iterator[Claim]:
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
        lowest = bool(match["worst"])
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
        yield _claim(
            match[0],
            all(top in group for group in subjects),
            f"the {'lowest' if lowest else 'best'} mean is that of {top}",
        )


def _one_per_axis(mentions: list[Mention], start: int) -> list[Mention]:
    nearest: dict[str, Mention] = {}
    for mention in sorted(mentions, key=lambda mention: abs(mention.start - start), reverse=True):
        nearest[mention.axis] = mention
    return list(nearest.values())


def _complete(sentence: Sentence, comparison: Comparison) -> Iterator[Claim]:
    absent = [run.run.name for run in comparison.runs if run.value is None] + list(comparison.study.not_run)
    for match in _ALL_DONE.finditer(sentence.text):
        but = re.search(r"\b(?:but|except|apart from|save)\b", sentence.text)
        if (
            but is None
            and not wording.is_denied(sentence.text, match.start())
            and not wording.is_considered(sentence.text, match.start())
        ):
            yield _claim(match[0], not absent, f"these do not count: {', '.join(dict.fromkeys(absent))}")


def _general(sentence: Sentence, comparison: Comparison) -> Iterator[Claim]:
    text = sentence.text
    for match in wording.GENERAL.finditer(text):
        if wording.is_considered(text, match.start()) or wording.is_denied(text, match.start()):
            continue
        yield _claim(
            match[0],
            False,
            "the runs say nothing beyond this blueprint"
            if not comparison.is_single_seed
            else "one seed says nothing about other seeds",
        )
    if comparison.is_single_seed:
        for match in (*wording.LAW.finditer(text), *_SEEDWISE.finditer(text)):
            if not wording.is_considered(text, match.start()) and not wording.is_denied(text, match.start()):
                yield _claim(match[0], False, "every point has one seed: nothing can be said of other seeds")
    else:
        yield from _seedwise(sentence, comparison)


def _seedwise(sentence: Sentence, comparison: Comparison) -> Iterator[Claim]:
    """ "In every seed": the runs with the same seed are compared one by one."""
    match = _SEEDWISE.search(sentence.text)
    if (
        match is None
        or wording.is_denied(sentence.text, match.start())
        or wording.GENERAL.search(sentence.text)
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
            yield _claim(
                match[0],
                len(signs) == 1 and complete,
                "it is not so in every seed, or not every seed has both runs",
            )


def _causes(sentence: Sentence) -> Iterator[Claim]:
    for match in wording.CAUSE.finditer(sentence.text):
        if not wording.is_considered(sentence.text, match.start()):
            yield Claim(match[0], "cause", "not checkable", "nothing that was measured shows this cause")
