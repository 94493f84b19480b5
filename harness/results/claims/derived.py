"""Numbers that follow from others: differences, ratios, relative changes, means, sums, shares left over.

In: a number that stands in no raw file, the numbers that its sentence names. Out: how it follows from them,
or None. Only a number whose words say what it is derived as is computed: "by 0.575", "a gain of", "mean".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, permutations, product

from harness.results.claims.number_words import count
from harness.results.claims.quantity import Quantity
from harness.results.claims.reading import Bound, Sentence
from harness.results.claims.types import Evidence, Number

_CHANGED = re.compile(
    r"""\b(?:by|gain\w*|chang\w+|improv\w+|increas\w+|decreas\w+|drop\w*|r[io]se[sn]?|f[ae]ll\w*|differ\w*|gap|grew|grow\w*|
    reduc\w+|los[ts]\w*|lost|advantage|lead|effect|delta|jump\w*|more|less|higher|lower|better|worse|above|below|longer|
    shorter|ahead|behind|faster|slower|up|down|fewer|additional|extra|another|apart|spread|range|separat\w+|narrow\w*|
    widen\w*|moved?|climb\w*|lift\w*|rais\w+|added|adds|dip\w*|swing|shift\w*|cut|sav\w+)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_MORE = re.compile(r"\b(?:additional|extra|more|fewer|another|further|differ\w*|amounts?)\b", re.IGNORECASE)
_MEAN = re.compile(r"\b(?:mean|average[ds]?|averaging|on average)\b", re.IGNORECASE)
_SUM = re.compile(r"\b(?:total|together|in all|altogether|sum|combined|overall)\b", re.IGNORECASE)
_REST = re.compile(
    r"\b(?:fail\w*|unsolved|wrong|remain\w*|missed|not (?:solved|passed|made|done|run|reached|trained)|"
    r"still|left|never|without|rest|other)\b",
    re.IGNORECASE,
)
_RELATIVE = re.compile(
    r"\b(?:relative|more|less|higher|lower|faster|slower|increase|decrease|reduction|growth|by|improvement|gain|drop|better|worse|longer|shorter)\b",
    re.IGNORECASE,
)
_PER_STEPS = re.compile(
    r"\b(?:per|each|every|(?:in|with)\s+every)\s+(?:block\s+of\s+)?(?:(?P<count>\d+|ten|twenty|forty|fifty|hundred)\s+)?steps?\b",
    re.IGNORECASE,
)
_LONG = re.compile(
    r"\b(?:long(?:er)?|short(?:er)?|slow(?:er|ed)?|fast(?:er)?|times?|took|takes|hours?|minutes?)\b", re.I
)
_MOST = 14
_ENDS = frozenset({"first", "last", "highest", "lowest", "recent"})
_MEASURED = ("rate", "number", "seconds", "count", "money")


def recompute(bound: Bound, sentence: Sentence, evidence: Evidence, named: Sequence[Number]) -> str | None:
    """How the number follows, or None; a text beginning with "not " says what it should have been."""
    quantity = bound.quantity
    numbers = _anchors(bound, sentence, evidence, named)
    steps = bound.step.ids if bound.step is not None and "when" not in bound.loose else frozenset()
    if len(steps) == 2 and _CHANGED.search(sentence.text) and quantity.form in ("plain", "points", "percent"):
        return _between_steps(bound, sentence, evidence)
    is_change = quantity.is_signed or _CHANGED.search(sentence.text) is not None
    if quantity.form == "ratio":
        at = {int(name[5:]) for m in sentence.of("when") for name in m.ids if name.startswith("step:")}
        if len(at) == 1:
            numbers = [n for n in numbers if not n.steps or "first" in n.when or at & set(n.steps)]
        numbers = [*numbers, *_settings(sentence, evidence), *_durations(sentence, evidence)]
        return _first(numbers, quantity, _ratio, "ratio") or _across(named, quantity)
    if quantity.form == "points":
        return _first(numbers, quantity, _difference, "difference")
    if quantity.form == "percent":
        return _percent(quantity, numbers, is_change, sentence, evidence)
    found = _slope(bound, sentence, evidence)
    if found is None and is_change:
        found = _first(numbers, quantity, _difference, "difference", sentence.text)
    if found is None and quantity.form == "plain" and quantity.is_integer:
        found = _counted(bound, sentence, evidence)
    if found is None and _MEAN.search(sentence.text):
        found = _mean(quantity, numbers)
    if found is None and (quantity.form == "seconds" or _SUM.search(sentence.text)):
        found = _sum(quantity, evidence, numbers)
    return found


def _durations(sentence: Sentence, evidence: Evidence) -> list[Number]:
    """How long runs and attempts took, where the sentence speaks of that."""
    if not _LONG.search(sentence.text):
        return []
    found = {n.value: n for n in evidence.numbers if n.unit == "seconds" and not n.metric}
    return list(found.values())[:_MOST]


def _across(named: Sequence[Number], quantity: Quantity) -> str | None:
    """ "The validation loss (1.10) is nearly five times the training loss (0.23)"."""
    for one, other in permutations([n for n in named[-4:] if n.unit in ("rate", "number")], 2):
        if other.value and quantity.agrees(one.value / other.value):
            return f"ratio of {one.label} and {other.label}"
    return None


def _slope(bound: Bound, sentence: Sentence, evidence: Evidence) -> str | None:
    """ "0.01 per step", "0.04 for every ten steps": over the whole run, or between any two measurements."""
    match = _PER_STEPS.search(sentence.text, bound.quantity.start)
    if match is None:
        return None
    size = float(count(match["count"] or "one") or 1)
    ids = bound.metric.ids if bound.metric is not None else {evidence.main}
    for name in sorted(ids & set(evidence.curves)):
        curve = evidence.curves[name]
        points = [(curve.steps[index], curve.values[index]) for index in (0, len(curve.steps) // 2, -1)]
        for (one, low), (other, high) in combinations(points, 2):
            if other > one and bound.quantity.agrees(size * (high - low) / (other - one)):
                return f"slope of {name} from step {one} to step {other}"
    return None


def _between_steps(bound: Bound, sentence: Sentence, evidence: Evidence) -> str | None:
    """The change of a metric between the two steps that the number stands beside."""
    steps = sorted(int(name[5:]) for name in bound.step.ids) if bound.step is not None else []
    ids = bound.metric.ids if bound.metric is not None else {evidence.main}
    for name in sorted(ids & set(evidence.curves)):
        curve = dict(zip(evidence.curves[name].steps, evidence.curves[name].values, strict=True))
        if set(steps) <= set(curve) and bound.quantity.agrees(curve[steps[1]] - curve[steps[0]]):
            return f"change of {name} from step {steps[0]} to step {steps[1]}"
    return None


def _anchors(bound: Bound, sentence: Sentence, evidence: Evidence, named: Sequence[Number]) -> list[Number]:
    """What a number may follow from: the numbers that its sentence and the one before name, and the ends of
    the metrics that it may be about."""
    is_firm = bound.metric is not None and "metric" not in bound.loose
    said = bound.metric.ids if is_firm and bound.metric is not None else frozenset()
    metrics = said or frozenset(name for m in sentence.of("metric") for name in m.ids) or {evidence.main}
    if bound.quantity.is_integer and _MORE.search(sentence.text):
        metrics |= {n.metric for n in evidence.numbers if n.unit == "count" and "task" in n.nouns}
    steps = {int(name[5:]) for m in sentence.of("when") for name in m.ids if name.startswith("step:")}
    found = [n for n in named if not said or n.metric in said or not n.metric or n.unit == "count"][-_MOST:]
    for number in evidence.numbers:
        if number.metric not in metrics or number.end or (number.unit == "count" and not number.steps):
            continue
        if "point" in number.when:
            names = [name for axis in ("level", "point") for m in sentence.of(axis) for name in m.ids]
            wanted = frozenset().union(*(evidence.subjects.get(name, frozenset()) for name in names))
            is_near = (
                not wanted or number.subject in wanted or number.subject in evidence.subjects["baseline"]
            )
        else:
            is_near = bool(number.when & _ENDS or steps & set(number.steps)) and not number.subject
        if is_near:
            found.append(number)
    return [n for n in dict.fromkeys(found) if not n.end and n.unit in _MEASURED]


def _settings(sentence: Sentence, evidence: Evidence) -> list[Number]:
    """Values of the settings and levels that a sentence names: "halving the number of engines"."""
    keys = {name for m in (*sentence.of("setting"), *sentence.of("key")) for name in m.ids}
    keys |= {m.axis.removeprefix("level of ") for m in sentence.of("level")}
    words = {word.rstrip("s") for word in re.findall(r"[a-z]{3,}", sentence.text.lower())}
    found = [
        n
        for n in evidence.numbers
        if n.unit == "setting"
        and (n.label.partition(" in ")[0] in keys or words & {noun for noun in n.nouns if len(noun) > 3})
    ]
    for key in evidence.comparison.study.keys if evidence.comparison is not None else ():
        if key.name in keys:
            numeric = [level for level in key.levels if isinstance(level, int | float)]
            found += [
                Number(float(level), "setting", f"{key.name} {level}", metric=key.name) for level in numeric
            ]
    return [replace(number, metric=number.label.partition(" in ")[0].partition(" ")[0]) for number in found]


def _first(
    numbers: Sequence[Number],
    quantity: Quantity,
    compute: Callable[[float, float], float | None],
    name: str,
    text: str = "more",
) -> str | None:
    for one, other in permutations(numbers, 2):
        if one.unit == "count" and not (quantity.is_signed or _MORE.search(text)):
            continue
        is_across = one.unit == other.unit == "rate" and one.steps == other.steps and name == "difference"
        if one.unit == other.unit and (one.metric == other.metric or is_across):
            value = compute(one.value, other.value)
            if value is not None and quantity.agrees(value):
                return f"{name} of {one.label} and {other.label}"
    return None


def _ratio(one: float, other: float) -> float | None:
    return one / other if other else None


def _difference(one: float, other: float) -> float | None:
    return one - other


def _percent(
    quantity: Quantity, numbers: Sequence[Number], is_change: bool, sentence: Sentence, evidence: Evidence
) -> str | None:
    if re.match(r"(?:of\s+)?(?:the\s+|its\s+|all\s+)?(?:\w+\s+)?steps", quantity.noun):
        return _share_of_steps(quantity, sentence, evidence)
    if is_change or _RELATIVE.search(sentence.text):
        found = _first(
            numbers,
            quantity,
            lambda one, other: (one - other) / abs(other) if other else None,
            "relative change",
        )
        if found:
            return found
        absolute = _first([n for n in numbers if n.unit == "rate"], quantity, _difference, "difference")
        if absolute and is_change:
            return f"not {quantity.text}: the change is {100 * quantity.value:g} percentage points"
    if _REST.search(sentence.text):
        rest = next((n for n in numbers if n.unit == "rate" and quantity.agrees(1 - n.value)), None)
        return f"one minus {rest.label}" if rest else None
    return None


def _share_of_steps(quantity: Quantity, sentence: Sentence, evidence: Evidence) -> str | None:
    totals = [n.value for n in evidence.numbers if n.unit == "setting" and re.search(r"step|iter", n.label)]
    totals += [bound.quantity.value for bound in sentence.numbers if bound.quantity.is_integer]
    shares = [evidence.last_step / total for total in totals if evidence.last_step and total > 0]
    return "share of the steps" if any(quantity.agrees(share) for share in shares) else None


def _counted(bound: Bound, sentence: Sentence, evidence: Evidence) -> str | None:
    """Counts from counts: those left over of all."""
    totals = [n for n in evidence.numbers if n.metric.endswith(("total_tasks", "total_episodes"))]
    steps = {int(name[5:]) for m in sentence.of("when") for name in m.ids if name.startswith("step:")}
    if _REST.search(sentence.text) and evidence.last_step is not None:
        for number in evidence.numbers:
            is_total = number.unit == "setting" and re.search(
                r"steps?$|iters?$", number.label.partition(" in ")[0]
            )
            if is_total and number.value - evidence.last_step == bound.quantity.value:
                return f"{number.label} without those made"
    place = next(iter(bound.when.ids), "") if bound.when is not None else ""
    for total, number in product(totals, evidence.numbers) if _REST.search(sentence.text) else ():
        is_part = number.unit == "count" and number.steps == total.steps and number.metric != total.metric
        is_firm = place in ("first", "last") and "when" not in bound.loose
        is_there = place in number.when if is_firm else bool(number.when or steps & set(number.steps))
        if is_part and is_there and total.value - number.value == bound.quantity.value:
            return f"{total.label} without {number.label}"
    return None


def _mean(quantity: Quantity, numbers: Sequence[Number]) -> str | None:
    for group in _groups(numbers):
        if len(group) > 1 and quantity.agrees(sum(n.value for n in group) / len(group)):
            return f"mean of {', '.join(n.label for n in group[:4])}"
    return None


def _sum(quantity: Quantity, evidence: Evidence, numbers: Sequence[Number]) -> str | None:
    durations = [
        n
        for n in evidence.numbers
        if n.unit == "seconds" and (n.label.endswith("duration") or n.label.startswith("duration of"))
    ]
    for group in (*_groups(numbers), durations):
        if len(group) > 1 and quantity.agrees(sum(n.value for n in group)):
            return f"sum of {', '.join(n.label for n in group[:4])}"
    if quantity.form == "seconds" and evidence.comparison is None:
        each = [n for n in evidence.numbers if n.unit == "seconds" or re.search(r"tim(?:e|ing)", n.metric)]
        for number in {n.value: n for n in each}.values():
            times = next(
                (n for n in numbers if n.unit == "count" and quantity.agrees(n.value * number.value)), None
            )
            if times is not None:
                return f"{times.value:g} times {number.label}"
    return None


def _groups(numbers: Sequence[Number]) -> Iterator[list[Number]]:
    for key in dict.fromkeys((n.metric, n.unit) for n in numbers):
        yield [n for n in numbers if (n.metric, n.unit) == key]
