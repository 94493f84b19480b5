"""Claims about several runs: which level or point is better, whether a key matters, what was not found.

In: a sentence taken apart, the evidence of the comparison. Out: claims; each is checked against the findings
of the comparison, whose words are the only ones allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.results.claims import wording
from harness.results.claims.failures import failures
from harness.results.claims.in_all_runs import best, causes, claim, complete, general
from harness.results.claims.reading import Sentence
from harness.results.claims.spoken_of import (
    clause_at,
    contrasts_of,
    is_about_other,
    keys_of,
    levels_of,
    point_contrasts,
    with_topic,
)
from harness.results.claims.types import Claim, Evidence
from harness.results.comparing.types import Comparison, Contrast, KeyEffect

_MATTERS = re.compile(
    r"\b(?:matters?|mattered|ha(?:s|d|ve)\s+an?\s+(?:\w+\s+)?effect|makes\s+a\s+difference|made\s+a\s+difference|is\s+(?:the\s+)?(?:most\s+)?(?:important|influential|decisive)|drives|has\s+(?:a\s+)?(?:strong|clear|large)\s+effect|affects?|influences?|dominat\w+)\b",
    re.IGNORECASE,
)
_MOST = re.compile(
    r"\b(?:most\s+(?:important|influential|sensitive)|dominat\w+|largest\s+effect|matters\s+most|strongest\s+effect|bigger\s+effect)\b",
    re.IGNORECASE,
)
_ALL_KEYS = re.compile(
    r"\b(?:both|all|every|each|either)\s+(?:\w+\s+)?(?:changes?|keys?|settings?|variations?|alternatives?|levels?|knobs?|modifications?)\b",
    re.IGNORECASE,
)


_HEDGED = re.compile(
    r"\b(?:one|single)[\s-]seed\b|nominally|numerically|in\s+(?:the\s+sample|this\s+(?:pair|sample|single))|"
    r"\bn\s*=\s*1\b|\bthese\s+two\s+runs|\bthe\s+one\s+run|"
    r"\b(?:could|may|might)\s+(?:well\s+)?be\s+(?:\w+\s+){0,2}?(?:noise|chance)\b|\bby\s+chance\b",
    re.IGNORECASE,
)
_NO_TEST = re.compile(
    r"\bno\s+test\b|\bnot\s+(?:be\s+)?tested\b|\b(?:one|a\s+single|1)\s+(?:seed|run)\s+(?:per|on|each|at|for)\b",
    re.IGNORECASE,
)


def claims(sentence: Sentence, evidence: Evidence, before: Sentence | None = None) -> Iterator[Claim]:
    """What the sentence says beside its numbers. One that names no level goes on about those of the one
    before it."""
    comparison = evidence.comparison
    assert comparison is not None
    has_no_test = before is not None and _NO_TEST.search(before.text) is not None
    sentence = with_topic(sentence, before)
    yield from _directions(sentence, comparison, evidence, has_no_test)
    yield from _same(sentence, comparison)
    yield from _undetected(sentence, comparison)
    yield from _significant(sentence, comparison)
    yield from _matters(sentence, comparison)
    yield from best(sentence, comparison, evidence)
    yield from complete(sentence, comparison)
    yield from general(sentence, comparison)
    yield from causes(sentence)
    yield from failures(sentence, evidence)


# --- claims -------------------------------------------------------------------------------------------------


def _directions(
    sentence: Sentence, comparison: Comparison, evidence: Evidence, has_no_test: bool
) -> Iterator[Claim]:
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
        is_described = any(
            bound.parent is None and bound.quantity.form in ("plain", "percent", "points")
            for bound in sentence.numbers
        )
        is_hedged = has_no_test or _HEDGED.search(text) is not None or _is_held_back(sentence)
        is_only_sample = is_described and is_hedged
        direct = point_contrasts(sentence, comparison)
        effects = keys_of(sentence, comparison)
        if not effects and not direct and _ALL_KEYS.search(text[: match.start()]):
            every = [contrast for effect in comparison.keys for contrast in effect.contrasts]
            yield _judge(match[0], every, wanted, is_denied, is_only_sample, sentence)
            continue
        if direct and not sentence.of("level"):
            yield _judge(match[0], direct, wanted, is_denied, is_only_sample, sentence)
            continue
        for effect in effects:
            chosen, sign, untested = contrasts_of(sentence, effect, match.start())
            if untested and not is_denied:
                holds = is_described and _is_held_back(sentence)
                yield claim(
                    match[0],
                    holds,
                    f"{_listed(chosen)} of {effect.key} were not compared with each other",
                )
            elif chosen:
                if not levels_of(sentence, effect.key) and not is_denied:
                    yield _whole_key(match[0], effect, wanted)
                else:
                    yield _judge(match[0], chosen, wanted * sign, is_denied, is_only_sample, sentence)


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
        return claim(said, False, effect.why_not or f"no effect of {effect.key} was detected")
    ordered = [contrast for contrast in effect.contrasts if _is_above(contrast)]
    expected = "higher" if wanted > 0 else "lower"
    holds = bool(ordered) and all(contrast.finding == expected for contrast in ordered)
    told = "; ".join(_told(contrast) for contrast in effect.contrasts)
    return claim(said, holds, told)


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
    is_only_sample: bool,
    sentence: Sentence,
) -> Claim:
    expected = "higher" if wanted > 0 else "lower"
    told = "; ".join(_told(contrast) for contrast in contrasts[:3])
    if is_denied:
        found = [contrast for contrast in contrasts if contrast.finding == expected]
        holds = not found if sentence.of("level") or sentence.of("point") else len(found) < len(contrasts)
        return claim(said, holds, told)
    if all(contrast.finding == expected for contrast in contrasts):
        return claim(said, True, "")
    signs_fit = all(
        contrast.difference is not None and contrast.difference * wanted > 0 for contrast in contrasts
    )
    if is_only_sample and signs_fit:
        return claim(said, True, "")
    return claim(said, False, told)


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
            or re.search(r"\b(?:rather\s+than|not|no)\s+(?:\w+\s+){0,3}(?:that|of)\b", text[: match.start()])
            or wording.UNDETECTED.search(text[match.start() : match.end() + 30])
        ):
            continue
        if re.match(
            r"\s+(?:\d+\s+|two\s+|three\s+)?(?:validation|tasks|seeds?|code|snapshot|data|environment|model|number|config|steps|budget|blueprint|machine|settings)",
            rest,
        ):
            continue
        if keys_of(sentence, comparison) or sentence.of("point"):
            yield claim(match[0], False, why)


def _undetected(sentence: Sentence, comparison: Comparison) -> Iterator[Claim]:
    for match in wording.UNDETECTED.finditer(sentence.text):
        if wording.is_considered(sentence.text, match.start()) or re.search(
            r"\bnot\s+$", sentence.text[: match.start()]
        ):
            continue
        contrasts: list[Contrast] = []
        clause = clause_at(sentence, match.start())
        for effect in keys_of(clause, comparison):
            contrasts += contrasts_of(clause, effect)[0]
        found = [contrast for contrast in contrasts if contrast.finding in ("higher", "lower")]
        if contrasts:
            yield claim(
                match[0],
                len(found) < len(contrasts) if not clause.of("level") else not found,
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
        yield claim(match[0], holds, "; ".join(map(_told, contrasts[:3])) or "no such contrast was tested")


def _matters(sentence: Sentence, comparison: Comparison) -> Iterator[Claim]:
    text = sentence.text
    for match in _MATTERS.finditer(text):
        if wording.is_considered(text, match.start()) or wording.is_denied(text, match.start()):
            continue
        effects = keys_of(sentence, comparison)
        if not sentence.of("key") and _ALL_KEYS.search(text[: match.start()]):
            effects = list(comparison.keys)
        before = {
            name for mention in sentence.of("key") if mention.end <= match.start() for name in mention.ids
        }
        effects = [effect for effect in effects if effect.key in before] or effects
        for effect in effects:
            yield claim(
                match[0], effect.matters is True, effect.why_not or f"no effect of {effect.key} was detected"
            )
        if _MOST.search(match[0]) and effects and comparison.keys:
            shares = {effect.key: effect.share or 0.0 for effect in comparison.keys}
            top = max(shares, key=lambda key: shares[key])
            yield claim(match[0], effects[0].key == top, f"{top} has the largest share of the variance")
