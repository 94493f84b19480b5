"""Claims about a run that rest on all of its values: significant, unchanged, never above.

In: a sentence taken apart, the evidence of the run. Out: claims with their verdicts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from harness.results.claims import wording
from harness.results.claims.reading import Sentence
from harness.results.claims.types import UNKNOWN, Change, Claim, Evidence, Kind, Verdict
from harness.results.comparing.types import Curve


def claim(text: str, kind: Kind, verdict: Verdict, why: str) -> Claim:
    return Claim(text, kind, verdict, why)


def is_whole(start: float, end: float, curve: Curve) -> bool:
    return abs(start - curve.values[0]) < 0.006 * max(1.0, abs(start)) and abs(
        end - curve.values[-1]
    ) < 0.006 * max(1.0, abs(end))


def excludes_zero(change: Change) -> bool:
    return change.low is not None and change.high is not None and (change.low > 0 or change.high < 0)


def significance(sentence: Sentence, evidence: Evidence) -> Iterator[Claim]:
    text = sentence.text
    tested = {name: change for name, change in evidence.changes.items() if change.is_tested}
    change = next(iter(tested.values()), None)
    for match in (*wording.SIGNIFICANT.finditer(text), *wording.EXCLUDES_ZERO.finditer(text)):
        if wording.is_considered(text, match.start()) or re.search(
            r"\bsignificant (?:digits|figures|bug|part|time)", text
        ):
            continue
        metrics = [m for m in sentence.of("metric") if m.end <= match.start()] or list(sentence.of("metric"))
        about = metrics[-1].ids if metrics else frozenset(tested)
        is_denied = wording.is_denied(text, match.start())
        if change is None or not about & set(tested) or _is_other(sentence, tested, evidence):
            verdict: Verdict = "ok" if is_denied else "wrong"
            yield claim(
                match[0],
                "difference",
                verdict,
                ""
                if is_denied
                else "no interval was computed for this: whether it is significant is not known",
            )
        elif excludes_zero(change) == is_denied:
            state = "excludes" if excludes_zero(change) else "includes"
            yield claim(match[0], "difference", "wrong", f"the 95 % interval of the change {state} zero")
        else:
            yield claim(match[0], "difference", "ok", "")
    if (
        change is not None
        and re.search(r"\b(?:include|contain|span|cross|cover)s?\s+(?:zero|0\b)", text, re.IGNORECASE)
        and not wording.EXCLUDES_ZERO.search(text)
    ):
        holds = not excludes_zero(change)
        yield claim(
            "includes zero",
            "difference",
            "ok" if holds else "wrong",
            "" if holds else "the 95 % interval of the change excludes zero",
        )
    yield from _unchanged(sentence, evidence)
    for match in wording.UNDETECTED.finditer(text):
        is_about = (change is not None and not sentence.of("when")) or any(
            b.pair is not None for b in sentence.numbers
        )
        if (
            change is None
            or not is_about
            or not excludes_zero(change)
            or _is_other(sentence, tested, evidence)
        ):
            continue
        if not wording.is_considered(text, match.start()) and not wording.is_denied(text, match.start()):
            yield claim(match[0], "difference", "wrong", "the 95 % interval of the change excludes zero")
    yield from _bounds(sentence, evidence)


def _is_other(sentence: Sentence, tested: Mapping[str, Change], evidence: Evidence) -> bool:
    """Whether a sentence speaks of other metrics, or of other values than the first and the last."""
    named = {name for m in sentence.of("metric") for name in m.ids}
    pairs = [bound for bound in sentence.numbers if bound.pair is not None]
    values = [(sentence.numbers[b.pair or 0].quantity.value, b.quantity.value) for b in pairs]
    curve = evidence.curves[evidence.main]
    return bool(named and not named & set(tested)) or any(not is_whole(*pair, curve) for pair in values)


_THROUGHOUT = re.compile(
    r"\b(?:stay\w*|remain\w*|kept|keeps|never|throughout|always|at\s+all\s+times)\b", re.IGNORECASE
)


def _bounds(sentence: Sentence, evidence: Evidence) -> Iterator[Claim]:
    """ "KL stayed below 0.05" is said of every value."""
    for bound in sentence.numbers:
        said = bound.quantity
        name = next(iter(bound.metric.ids), "") if bound.metric is not None else evidence.main
        curve = evidence.curves.get(name)
        if curve is None or said.bound not in ("above", "below") or not _THROUGHOUT.search(sentence.text):
            continue
        is_denied = re.search(r"\bnever\b|\bnot\b", sentence.text) is not None
        is_upper = (said.bound == "below") != is_denied
        extreme = max(curve.values) if is_upper else min(curve.values)
        slack = 1e-9 * max(1.0, abs(said.value))
        if extreme > said.value + slack if is_upper else extreme < said.value - slack:
            told = "highest" if is_upper else "lowest"
            yield claim(said.text, "difference", "wrong", f"the {told} value of {name} is {extreme:.4g}")


def _unchanged(sentence: Sentence, evidence: Evidence) -> Iterator[Claim]:
    for match in wording.UNCHANGED.finditer(sentence.text):
        ahead = sentence.text[: match.start()]
        metrics = [m for m in sentence.of("metric") if UNKNOWN not in m.ids and m.end <= match.start()]
        name = next((name for m in metrics[-1:] for name in m.ids if name in evidence.curves), evidence.main)
        if metrics and re.search(r"\bvalidation\b", ahead[metrics[-1].end :]):
            name = evidence.main
        curve, change = evidence.curves.get(name), evidence.changes.get(name)
        if (
            curve is None
            or change is None
            or wording.is_denied(sentence.text, match.start())
            or wording.is_considered(sentence.text, match.start())
            or re.search(r"\b(?:first|until|up\s+to|between|then|before|after|last)\b", sentence.text)
        ):
            continue
        span = max(curve.values) - min(curve.values)
        is_flat = span <= 0.05 * max(abs(curve.values[0]), abs(curve.values[-1]), 1e-12)
        holds = is_flat or (change.is_tested and not excludes_zero(change))
        yield claim(
            match[0],
            "difference",
            "ok" if holds else "wrong",
            ""
            if holds
            else f"{name.removeprefix('val/')} went from {curve.values[0]:.4g} to {curve.values[-1]:.4g}",
        )
