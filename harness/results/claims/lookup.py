"""Whether a number of a sentence stands in the raw files, or follows from numbers that the sentence names.

In: a sentence taken apart, the evidence. Out: for each of its numbers what it was found to be, or why it was
not found.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from harness.results.claims import derived
from harness.results.claims.counting import BAD as REST
from harness.results.claims.counting import COUNTED, alike, noun_fits, status_fits, tries_fit
from harness.results.claims.fitting import PASSING, exact, fits, mismatch, shown, wrong_place
from harness.results.claims.quantity import TIMES, Form
from harness.results.claims.quoting import is_quoted
from harness.results.claims.reading import Bound, Sentence
from harness.results.claims.readings import readings
from harness.results.claims.types import UNKNOWN, Evidence, Number

_PLAIN: Form = "plain"
_POINTS: Form = "points"
_INTERVAL = re.compile(r"\binterval|\bci\b|\bconfidence\b|±", re.IGNORECASE)


@dataclass(frozen=True)
class Found:
    """What a number was found to be; `number` None: derived, quoted, or not found (`why` says which)."""

    bound: Bound
    number: Number | None
    why: str
    is_found: bool


def look_up(
    sentence: Sentence,
    evidence: Evidence,
    earlier: Sequence[Number] = (),
    before: Sentence | None = None,
) -> list[Found]:
    """Every number of the sentence, in the reading that is borne out if there is one. `before`: the sentence
    before, `earlier`: what its numbers were."""
    found: list[Found] = []
    for bound in sentence.numbers:
        found.append(_one(bound, sentence, evidence, found, before))
    named = [*earlier, *(item.number for item in found if item.number is not None)]
    found = [item if item.is_found else _derived(item, sentence, evidence, named) for item in found]
    units: dict[str, float] = {
        bound.quantity.form: bound.quantity.ulp for bound in sentence.numbers if bound.quantity.is_integer
    }
    units |= {"points": 0.01} if any(bound.quantity.form == "points" for bound in sentence.numbers) else {}
    for index, item in enumerate(found):
        if not item.is_found and (other := _other_form(item.bound, units)) is not None:
            tried = _derived(_one(other, sentence, evidence, found, before), sentence, evidence, named)
            found[index] = replace(tried, bound=item.bound) if tried.is_found else item
    return [_told_whole(item, found) for item in found]


def _other_form(bound: Bound, units: Mapping[str, float]) -> Bound | None:
    """ "Six points" may be six points of the sweep, or six percentage points; "30 minutes, the other 10" are
    minutes. `units`: what the sentence's other numbers are in."""
    quantity = bound.quantity
    if quantity.form == "plain" and bound.end:  # of "45 points (interval 28.9 to 61.1)"
        return replace(bound, quantity=replace(quantity, value=quantity.value / 100, ulp=quantity.ulp / 100))
    if quantity.form == "points" and quantity.text.lower().endswith(("point", "points")):
        scale, form = 100.0, _PLAIN
    elif quantity.form == "plain" and (re.match(r"points?\b", quantity.noun) or "points" in units):
        scale, form = 0.01, _POINTS
    elif quantity.form == "plain" and quantity.is_integer and not quantity.noun and "seconds" in units:
        scale, form = units["seconds"], "seconds"
    else:
        return None
    made = replace(quantity, value=quantity.value * scale, ulp=quantity.ulp * scale, form=form, noun="points")
    return replace(bound, quantity=made)


def _one(
    bound: Bound, sentence: Sentence, evidence: Evidence, done: list[Found], before: Sentence | None
) -> Found:
    quantity = bound.quantity
    if quantity.form == "fraction":
        return _fraction(bound, sentence, evidence, before)
    says_interval = _INTERVAL.search(sentence.text) is not None
    known = [
        *evidence.numbers,
        *_at_steps(sentence, before, evidence),
        *_at_steps(before, sentence, evidence),
    ]
    known += _turned_round(bound, sentence, evidence)
    agreeing = [
        number
        for number in known
        if fits(quantity, number, bound, says_interval)
        and quantity.agrees(number.value)
        and (number.unit != "setting" or exact(quantity, number.value))
    ]
    reasons: list[str] = []
    passing: Number | None = None
    for reading in readings(bound, sentence, evidence, before) if agreeing else ():
        candidates = []
        for number in agreeing:
            why = mismatch(reading, number, sentence, evidence, before)
            if why.endswith(PASSING):
                passing = passing or number
            if why:
                reasons.append(why)
            else:
                candidates.append(number)
        if bound.pair is not None:
            candidates = _after(candidates, bound, done, reasons)
        if candidates:
            chosen = min(candidates, key=lambda number: _distance(number, bound))
            return Found(bound, chosen, chosen.label, True)
    if is_quoted(quantity, sentence, evidence, bound):
        return Found(bound, None, "quoted", True)
    return Found(bound, passing, _reason(bound, reasons, evidence), False)


def _told_whole(item: Found, found: Sequence[Found]) -> Found:
    """A value from the middle of a run is no result, unless the sentence also says where the run ended."""
    if item.is_found or item.number is None or not item.why.endswith(PASSING):
        return item
    metric = item.number.metric
    ends = (other for other in found if other.is_found and other.number is not None)
    if any(other.number.metric == metric and "last" in other.number.when for other in ends if other.number):
        return Found(item.bound, item.number, item.number.label, True)
    return item


def _turned_round(bound: Bound, sentence: Sentence, evidence: Evidence) -> list[Number]:
    """Ends of the intervals of differences as "lowered by 0.083 [0.057, 0.109]" has them: negated."""
    parent = sentence.numbers[bound.parent] if bound.parent is not None else bound
    if bound.end not in ("low", "high") or parent.quantity.is_signed:
        return []
    return [
        replace(number, value=-number.value, end="high" if number.end == "low" else "low")
        for number in evidence.numbers
        if number.unit == "difference" and number.end in ("low", "high")
    ]


def _at_steps(sentence: Sentence | None, other: Sentence | None, evidence: Evidence) -> list[Number]:
    """The values of the metrics that the sentence (or the other one) names, at the steps that it names."""
    if sentence is None:
        return []
    steps = {int(name[5:]) for m in sentence.of("when") for name in m.ids if name.startswith("step:")}
    said = set(re.findall(r"[a-z]{5,}", sentence.text.lower()))
    named = (*sentence.of("metric"), *(other.of("metric") if other is not None else ()))
    metrics = {name for m in named for name in m.ids} | {evidence.main}
    metrics |= {name for name in evidence.curves if said & set(re.findall(r"[a-z]{5,}", name.lower()))}
    found = []
    for metric in sorted(metrics & set(evidence.curves)):
        curve = evidence.curves[metric]
        for step in steps:
            index = bisect_left(curve.steps, step)
            if index < len(curve.steps) and curve.steps[index] == step:
                found.append(
                    Number(curve.values[index], "number", f"{metric} at step {step}", "", metric, (step,))
                )
    return found


def _after(candidates: list[Number], bound: Bound, before: list[Found], reasons: list[str]) -> list[Number]:
    """Of "from A to B", B is later than A, or belongs to something else."""
    start = next(
        (item.number for item in before if bound.pair is not None and item is before[bound.pair]), None
    )
    if start is None:
        return candidates
    later = [number for number in candidates if _may_follow(number, start)]
    if candidates and not later:
        reasons.append(f"{candidates[0].label} does not come after {start.label}")
    return later


def _may_follow(number: Number, start: Number) -> bool:
    if start.unit == "setting":
        return number.unit == "setting" and _key(number) == _key(start)
    if number.unit == "count" and number.subject == start.subject and number.metric != start.metric:
        return False
    is_back = bool(number.steps and start.steps) and number.steps[-1] <= start.steps[0]
    is_range = "lowest" in start.when and "highest" in number.when
    is_same = number.metric == start.metric and number.subject == start.subject
    return not (is_back and is_same) or is_range or bool(number.end)


def _key(number: Number) -> str:
    return number.label.partition(" in ")[0]


def _distance(number: Number, bound: Bound) -> tuple[int, float]:
    return (0 if number.metric else 1, abs(number.value - bound.quantity.value))


def _fraction(bound: Bound, sentence: Sentence, evidence: Evidence, before: Sentence | None) -> Found:
    """`34 of 40 tasks`: the total is a count, and the share a rate or a count of the same."""
    quantity = bound.quantity
    total = quantity.total or 1.0
    noun = quantity.noun.split(" ")[0]
    if unit := TIMES.get(noun, 1.0 if noun == "steps" else 0.0):
        form: Form = "seconds" if noun in TIMES else "plain"
        parts = [replace(quantity, form=form, value=one * unit, ulp=unit) for one in (quantity.value, total)]
        tried = [_one(replace(bound, quantity=part), sentence, evidence, [], before) for part in parts]
        tried = [item if item.is_found else _derived(item, sentence, evidence, ()) for item in tried]
        return replace(next((item for item in tried if not item.is_found), tried[0]), bound=bound)
    for other in sentence.numbers:
        is_beside = re.fullmatch(r"\s*\(", sentence.text[other.quantity.end : quantity.start])
        if (
            is_beside
            and other.quantity.form == "percent"
            and not other.quantity.agrees(quantity.value / total)
        ):
            return Found(bound, None, f"{quantity.text} is not {other.quantity.text}", False)
    totals = [n for n in evidence.numbers if n.unit == "count" and n.value == total]
    if any(alike(word, one) for word in quantity.noun.split() for one in COUNTED):
        totals = [n for n in totals if noun_fits(quantity, n, sentence, before.text if before else "")]
    is_product = any(
        one.value * other.value == total
        for one, other in combinations(
            [n for n in evidence.numbers if n.metric.endswith(("total_tasks", "pass_n"))], 2
        )
    )
    if not totals and not is_product and "every" not in quantity.text:
        noun = quantity.noun.split(" ")[0] or "of these"
        return Found(bound, None, f"there are not {total:g} {noun}", False)
    return _share(bound, totals, sentence, evidence, before)


def _share(
    bound: Bound, totals: list[Number], sentence: Sentence, evidence: Evidence, before: Sentence | None
) -> Found:
    """The 34 of `34 of 40 tasks`; `totals`: what the 40 may be."""
    quantity = bound.quantity
    total = quantity.total or 1.0
    nouns = frozenset().union(*(n.nouns for n in totals))
    says_rest = re.search(REST, sentence.text, re.IGNORECASE) is not None
    reasons: list[str] = []
    for number in evidence.numbers:
        is_share = (
            number.unit == "rate"
            and not re.search(r"\b(?:run|seed)s?\b", quantity.noun)
            and abs(number.value * total - quantity.value) < (0.01 if totals else 0.5)
        )
        is_count = (
            number.unit == "count" and bool(number.metric or number.nouns & nouns) and number not in totals
        )
        is_rest = is_count and says_rest and number.value == total - quantity.value
        is_rest = is_rest and ("run" not in number.nouns or "failed" in number.nouns)
        if number.end or not (is_share or is_rest or (is_count and number.value == quantity.value)):
            continue
        if not tries_fit(quantity, number, sentence):
            reasons.append(f"{shown(number)} is {number.label}")
            continue
        whys = [
            wrong_place(one, number, sentence, evidence)
            for one in readings(bound, sentence, evidence, before)
        ]
        why = min(whys, key=len)
        if not why and is_count and not is_rest and not status_fits(quantity, number, sentence):
            why = f"{shown(number)} is {number.label}"
        if not why:
            return Found(bound, number, number.label, True)
        reasons.append(why)
    return Found(
        bound, None, reasons[0] if reasons else f"{quantity.text} is nowhere in the raw files", False
    )


def _derived(item: Found, sentence: Sentence, evidence: Evidence, named: Sequence[Number]) -> Found:
    why = derived.recompute(item.bound, sentence, evidence, named)
    if why is None:
        return item
    return Found(item.bound, None, why, not why.startswith("not "))


def _reason(bound: Bound, reasons: list[str], evidence: Evidence) -> str:
    if bound.metric is not None and UNKNOWN in bound.metric.ids:
        return f"nothing called {bound.metric.text} was measured"
    if reasons:
        return reasons[0]
    metric = bound.metric
    about = [
        n
        for n in evidence.numbers
        if metric is not None and n.metric in metric.ids and not n.end and n.when & {"first", "last"}
    ]
    there = "; ".join(f"{n.label} is {shown(n)}" for n in about[:2])
    return f"{bound.quantity.text} is nowhere in the raw files" + (f": {there}" if there else "")
