"""Claims about one run: directions, effects, outcomes, and what one seed cannot show.

In: a sentence taken apart, the evidence of the run. Out: claims with their verdicts.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from harness.results.claims import wording
from harness.results.claims.failures import failures
from harness.results.claims.outcomes import ended_at, outcomes, steps_there
from harness.results.claims.reading import Sentence
from harness.results.claims.shapes import extremes, shapes
from harness.results.claims.significance import claim, excludes_zero, is_whole, significance
from harness.results.claims.types import Claim, Evidence
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
    yield from significance(sentence, evidence)
    yield from shapes(sentence, evidence)
    yield from extremes(sentence, evidence)
    yield from outcomes(sentence, evidence)
    yield from _generality(sentence)
    yield from _others(sentence)
    yield from _causes(sentence, evidence)
    yield from steps_there(sentence, evidence)
    yield from ended_at(sentence, evidence)
    yield from failures(sentence, evidence)


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
            yield claim(
                match[0], "difference", "not checkable", f"nobody says whether more {metric} is better"
            )
            continue
        ends = _ends(sentence, match, metric, evidence.curves[metric])
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


def _ends(
    sentence: Sentence, match: re.Match[str], metric: str, curve: Curve
) -> tuple[float, float, bool] | None:
    """The two values that are compared, and whether they are the first and the last."""
    pairs = [bound for bound in sentence.numbers if bound.pair is not None]
    behind_it = [bound for bound in pairs if 0 < bound.quantity.start - match.end() < 110]
    before_it = [bound for bound in pairs if 0 <= match.start() - bound.quantity.end < 60]
    if near := behind_it[:1] or before_it[-1:]:
        one, other = sentence.numbers[near[0].pair or 0], near[0]
        if any(bound.means is None or bound.means.metric != metric for bound in (one, other)):
            return None
        start, end = one.quantity.value, other.quantity.value
        return start, end, is_whole(start, end, curve)
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
        beyond = _value_in(than["other"], curve, first)
        here = _value_in(text[: match.end()] + behind[: than.start("other")], curve, last)
        return (beyond, here, False) if beyond is not None and here is not None else None
    if len(steps) >= 2:
        return _at(curve, min(steps)), _at(curve, max(steps)), False
    if len(steps) == 1:
        if re.search(
            r"\b(?:after|since|from|beyond|past|compared\s+(?:with|to)|relative\s+to|than\s+at)\s+step\b",
            text,
            re.IGNORECASE,
        ):
            return _at(curve, steps[0]), last, False
        return first, _at(curve, steps[0]), steps[0] == curve.steps[-1]
    return first, last, True


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
    is_open = is_whole and change is not None and change.is_tested and not excludes_zero(change)
    is_numbered = any(bound.pair is not None for bound in sentence.numbers)
    is_hedged = wording.UNDETECTED.search(sentence.text) is not None
    if is_denied:
        went = "rose" if real > 0 else "fell"
        holds = is_open or real * wanted <= 0
        return claim(
            said,
            "difference",
            "ok" if holds else "wrong",
            "" if holds else f"{name} {went} from {first:.4g} to {last:.4g}",
        )
    if real * wanted <= 0:
        went = "rose" if real > 0 else "fell" if real < 0 else "is the same"
        return claim(said, "difference", "wrong", f"{name} {went}: {first:.4g} → {last:.4g}")
    if is_open and not is_hedged and not (is_numbered and word in ("up", "down")):
        return claim(
            said,
            "difference",
            "wrong",
            f"the 95 % interval of the change of {name} includes zero: no change is shown",
        )
    return claim(said, "difference", "ok", f"{name}: {first:.4g} → {last:.4g}")


# --- outcomes and limits of one run -------------------------------------------------------------------------


def _generality(sentence: Sentence) -> Iterator[Claim]:
    text = sentence.text
    why = "one run with one seed says nothing about other seeds, models or tasks"
    for match in wording.GENERAL.finditer(text):
        if not wording.is_considered(text, match.start()) and not wording.is_denied(text, match.start()):
            yield claim(match[0], "generality", "wrong", why)
    for match in wording.LAW.finditer(text):
        if wording.is_considered(text, match.start()) or wording.is_denied(text, match.start()):
            continue
        if not any(bound.pair is not None for bound in sentence.numbers):
            yield claim(match[0], "generality", "wrong", why)


def _others(sentence: Sentence) -> Iterator[Claim]:
    """Comparisons with something that this run did not measure."""
    text = sentence.text
    for match in (*_THAN.finditer(text), *_OTHER.finditer(text)):
        if (
            not _OWN_START.search(text)
            and not wording.is_considered(text, match.start())
            and not wording.is_denied(text, match.start())
            and not re.search(r"\bkl\b|\bdivergence\b", text[: match.start()], re.IGNORECASE)
        ):
            yield claim(match[0], "difference", "wrong", "nothing else was run to compare with")


def _causes(sentence: Sentence, evidence: Evidence) -> Iterator[Claim]:
    for match in wording.CAUSE.finditer(sentence.text):
        if wording.is_considered(sentence.text, match.start()):
            continue
        said = set(re.findall(r"[a-z]{4,}", sentence.text[match.end() :].lower()))
        known = {word for cause in evidence.causes for word in re.findall(r"[a-z]{4,}", cause.lower())}
        if said & known:
            yield claim(match[0], "cause", "ok", "as diagnosed")
        else:
            yield claim(match[0], "cause", "not checkable", "nothing that was measured shows this cause")
