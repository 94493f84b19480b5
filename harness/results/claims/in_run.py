"""Claims about one run: directions, effects, outcomes, and what one seed cannot show.

In: a sentence taken apart, the evidence of the run. Out: claims with their verdicts.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from harness.results.claims import wording
from harness.results.claims.mentions import UNKNOWN
from harness.results.claims.outcomes import ended_at, outcomes, steps_there
from harness.results.claims.reading import Sentence
from harness.results.claims.shapes import extremes, shapes
from harness.results.claims.types import Change, Claim, Evidence, Kind, Verdict
from harness.results.comparing.types import Curve

_GENERIC = re.compile(
    r"\b(?:performance|quality|model|policy|agent|run|training|it|results?|grpo|rl|fine-?tuning|method|approach|behaviou?r|skill|success|learning)\b",
    re.IGNORECASE,
)
_THAN = re.compile(
    r"\b(?:than|outperform\w*|beat(?:s|en)?|compared\s+(?:with|to)|over|against|versus|vs\.?|relative\s+to|superior\s+to|exceed\w*|surpass\w*)\s+(?:\w+\s+){0,3}?"
    r"(?:the\s+|a\s+|an\s+|its\s+|our\s+)?(?P<other>(?:\w+[\s-]){0,2}(?:baseline|sft|ppo|dpo|rloo|reinforce|gpt\S*|state\s+of\s+the\s+art|prior\s+\w+|previous\s+\w+|"
    r"published\s+\w+|reference\s+\w+|other\s+methods?|base\s+model|pretrained\s+model|random\s+\w+|supervised\s+\w+|larger\s+\w+))",
    re.IGNORECASE,
)
_OTHER = re.compile(
    r"\b(?:state[\s-]of[\s-]the[\s-]art|sota|published\s+results?|prior\s+work|previous\s+(?:run|experiment)s?|(?:sft|ppo|dpo|supervised)\s+baseline)\b",
    re.IGNORECASE,
)
_OWN_START = re.compile(
    r"step[\s-]?0|before\s+training|untrained|initial|at\s+the\s+start|start\w*|first\s+validation|\bno\b[^.]*\bbaseline|without\s+(?:a\s+)?baseline|not\b[^.]*\bbaseline",
    re.IGNORECASE,
)


def claims(sentence: Sentence, evidence: Evidence) -> Iterator[Claim]:
    """What the sentence says beside its numbers."""
    yield from _directions(sentence, evidence)
    yield from _significance(sentence, evidence)
    yield from shapes(sentence, evidence)
    yield from extremes(sentence, evidence)
    yield from outcomes(sentence, evidence)
    yield from _generality(sentence)
    yield from _others(sentence)
    yield from _causes(sentence, evidence)
    yield from steps_there(sentence, evidence)
    yield from ended_at(sentence, evidence)


def _claim(text: str, kind: Kind, verdict: Verdict, why: str) -> Claim:
    return Claim(text, kind, verdict, why)


# --- directions ---------------------------------------------------------------------------------------------


def _directions(sentence: Sentence, evidence: Evidence) -> Iterator[Claim]:
    text = sentence.text
    for match in wording.DIRECTION.finditer(text):
        word = match.lastgroup or ""
        if wording.is_considered(text, match.start()):
            continue
        metric = _subject(sentence, match, word, evidence)
        if metric is None:
            continue
        goal = evidence.goals.get(metric, 0)
        wanted = {"up": 1, "down": -1, "better": goal, "worse": -goal}[word]
        if not wanted:
            yield _claim(
                match[0], "difference", "not checkable", f"nobody says whether more {metric} is better"
            )
            continue
        ends = _ends(sentence, match, evidence.curves[metric])
        if ends is None:
            continue
        is_denied = wording.is_denied(text, match.start())
        yield _judge(match[0], word, wanted, is_denied, metric, ends, sentence, evidence)


def _subject(sentence: Sentence, match: re.Match[str], word: str, evidence: Evidence) -> str | None:
    """The metric whose change is spoken of."""
    metrics = sentence.of("metric")
    before = [m for m in metrics if m.end <= match.start()]
    after = [m for m in metrics if m.start >= match.end() and m.start - match.end() < 30]
    words = sentence.text[: match.start()]
    is_near = before and not re.search(r"[;]|\bwhile\b|\bwhereas\b", words[before[-1].end :])
    if re.search(r"\bvalidation\s+(?:\w+\s+){0,2}$", words) and evidence.main in evidence.curves:
        return evidence.main
    mention = before[-1] if is_near else after[0] if after else None
    if mention is not None:
        known = [name for name in mention.ids if name in evidence.curves]
        return evidence.main if evidence.main in known else known[0] if known else None
    if word in ("better", "worse") or _GENERIC.search(words[-40:]):
        has_setting = any(m.start < match.end() for m in sentence.of("setting"))
        if word in ("up", "down") and has_setting:
            return None
        return evidence.main if evidence.main in evidence.curves else None
    return None


def _ends(sentence: Sentence, match: re.Match[str], curve: Curve) -> tuple[float, float, bool] | None:
    """The two values that are compared, and whether they are the first and the last."""
    pairs = [bound for bound in sentence.numbers if bound.pair is not None]
    behind_it = [bound for bound in pairs if 0 < bound.quantity.start - match.end() < 110]
    before_it = [bound for bound in pairs if 0 <= match.start() - bound.quantity.end < 60]
    if near := behind_it[:1] or before_it[-1:]:
        start = sentence.numbers[near[0].pair or 0].quantity.value
        return start, near[0].quantity.value, _is_whole(start, near[0].quantity.value, curve)
    steps = [
        int(name[5:])
        for mention in sentence.of("when")
        for name in sorted(mention.ids)
        if name.startswith("step:")
    ]
    steps = [step for step in steps if step in curve.steps]
    first, last = curve.values[0], curve.values[-1]
    text, behind = sentence.text, sentence.text[match.end() :]
    if than := re.match(r"[^.;]{0,60}\bthan\b(?P<other>[^.;,]*)", behind):
        other = _value_in(than["other"], curve, first)
        one = _value_in(text[: match.end()] + behind[: than.start("other")], curve, last)
        return (other, one, False) if other is not None and one is not None else None
    if len(steps) >= 2:
        return _at(curve, min(steps)), _at(curve, max(steps)), False
    if len(steps) == 1:
        if re.search(r"\b(?:after|since|from|beyond|past)\s+step\b", text, re.IGNORECASE):
            return _at(curve, steps[0]), last, False
        return first, _at(curve, steps[0]), steps[0] == curve.steps[-1]
    return first, last, True


def _is_whole(start: float, end: float, curve: Curve) -> bool:
    return abs(start - curve.values[0]) < 0.006 * max(1.0, abs(start)) and abs(
        end - curve.values[-1]
    ) < 0.006 * max(1.0, abs(end))


def _value_in(words: str, curve: Curve, otherwise: float) -> float | None:
    step = re.findall(r"\bstep\s+(\d+)", words)
    if step:
        return _at(curve, int(step[-1])) if int(step[-1]) in curve.steps else None
    if re.search(r"\b(?:start|before|begin|initial|first|untrained)", words, re.IGNORECASE):
        return curve.values[0]
    if re.search(r"\b(?:end|last|final|after)", words, re.IGNORECASE):
        return curve.values[-1]
    return otherwise


def _at(curve: Curve, step: int) -> float:
    return curve.values[bisect_left(curve.steps, step)]


def _judge(
    said: str,
    word: str,
    wanted: int,
    is_denied: bool,
    metric: str,
    ends: tuple[float, float, bool],
    sentence: Sentence,
    evidence: Evidence,
) -> Claim:
    first, last, is_whole = ends
    change = evidence.changes.get(metric)
    real = last - first if not (is_whole and change) else change.last - change.first
    name = metric.removeprefix("val/")
    is_open = is_whole and change is not None and change.is_tested and not _excludes_zero(change)
    is_numbered = any(bound.pair is not None for bound in sentence.numbers)
    is_hedged = wording.UNDETECTED.search(sentence.text) is not None
    if is_denied:
        went = "rose" if real > 0 else "fell"
        holds = is_open or real * wanted <= 0
        return _claim(
            said,
            "difference",
            "ok" if holds else "wrong",
            "" if holds else f"{name} {went} from {first:.4g} to {last:.4g}",
        )
    if real * wanted <= 0:
        went = "rose" if real > 0 else "fell" if real < 0 else "is the same"
        return _claim(said, "difference", "wrong", f"{name} {went}: {first:.4g} → {last:.4g}")
    if is_open and not is_hedged and not (is_numbered and word in ("up", "down")):
        return _claim(
            said,
            "difference",
            "wrong",
            f"the 95 % interval of the change of {name} includes zero: no change is shown",
        )
    return _claim(said, "difference", "ok", f"{name}: {first:.4g} → {last:.4g}")


def _excludes_zero(change: Change) -> bool:
    return change.low is not None and change.high is not None and (change.low > 0 or change.high < 0)


def _significance(sentence: Sentence, evidence: Evidence) -> Iterator[Claim]:
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
        if change is None or not about & set(tested):
            verdict: Verdict = "ok" if is_denied else "wrong"
            yield _claim(
                match[0],
                "difference",
                verdict,
                ""
                if is_denied
                else "no interval was computed for this: whether it is significant is not known",
            )
        elif _excludes_zero(change) == is_denied:
            state = "excludes" if _excludes_zero(change) else "includes"
            yield _claim(match[0], "difference", "wrong", f"the 95 % interval of the change {state} zero")
        else:
            yield _claim(match[0], "difference", "ok", "")
    if (
        change is not None
        and re.search(r"\b(?:include|contain|span|cross|cover)s?\s+(?:zero|0\b)", text, re.IGNORECASE)
        and not wording.EXCLUDES_ZERO.search(text)
    ):
        holds = not _excludes_zero(change)
        yield _claim(
            "includes zero",
            "difference",
            "ok" if holds else "wrong",
            "" if holds else "the 95 % interval of the change excludes zero",
        )
    yield from _unchanged(sentence, evidence)


def _unchanged(sentence: Sentence, evidence: Evidence) -> Iterator[Claim]:
    for match in wording.UNCHANGED.finditer(sentence.text):
        metrics = [m for m in sentence.of("metric") if UNKNOWN not in m.ids]
        name = next((name for m in metrics for name in m.ids if name in evidence.curves), evidence.main)
        curve, change = evidence.curves.get(name), evidence.changes.get(name)
        if (
            curve is None
            or change is None
            or wording.is_denied(sentence.text, match.start())
            or wording.is_considered(sentence.text, match.start())
        ):
            continue
        span = max(curve.values) - min(curve.values)
        is_flat = span <= 0.05 * max(abs(curve.values[0]), abs(curve.values[-1]), 1e-12)
        holds = is_flat or (change.is_tested and not _excludes_zero(change))
        yield _claim(
            match[0],
            "difference",
            "ok" if holds else "wrong",
            ""
            if holds
            else f"{name.removeprefix('val/')} went from {curve.values[0]:.4g} to {curve.values[-1]:.4g}",
        )


# --- shapes -------------------------------------------------------------------------------------------------


# --- outcomes and limits of one run -------------------------------------------------------------------------


def _generality(sentence: Sentence) -> Iterator[Claim]:
    text = sentence.text
    why = "one run with one seed says nothing about other seeds, models or tasks"
    for match in wording.GENERAL.finditer(text):
        if not wording.is_considered(text, match.start()) and not wording.is_denied(text, match.start()):
            yield _claim(match[0], "generality", "wrong", why)
    for match in wording.LAW.finditer(text):
        if wording.is_considered(text, match.start()) or wording.is_denied(text, match.start()):
            continue
        if not any(bound.pair is not None for bound in sentence.numbers):
            yield _claim(match[0], "generality", "wrong", why)


def _others(sentence: Sentence) -> Iterator[Claim]:
    """Comparisons with something that this run did not measure."""
    text = sentence.text
    for match in (*_THAN.finditer(text), *_OTHER.finditer(text)):
        if (
            not _OWN_START.search(text)
            and not wording.is_considered(text, match.start())
            and not wording.is_denied(text, match.start())
        ):
            yield _claim(match[0], "difference", "wrong", "nothing else was run to compare with")


def _causes(sentence: Sentence, evidence: Evidence) -> Iterator[Claim]:
    for match in wording.CAUSE.finditer(sentence.text):
        if wording.is_considered(sentence.text, match.start()):
            continue
        said = set(re.findall(r"[a-z]{4,}", sentence.text[match.end() :].lower()))
        known = {word for cause in evidence.causes for word in re.findall(r"[a-z]{4,}", cause.lower())}
        if said & known:
            yield _claim(match[0], "cause", "ok", "as diagnosed")
        else:
            yield _claim(match[0], "cause", "not checkable", "nothing that was measured shows this cause")
