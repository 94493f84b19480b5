"""Numbers that follow from others: differences, ratios, relative changes, means, sums, shares left over.

In: a number that stands in no raw file, the numbers that its sentence names. Out: how it follows from them,
or None. Only a number whose words say what it is derived as is computed: "by 0.575", "a gain of", "mean".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations

from harness.results.claims.quantities import Quantity
from harness.results.claims.reading import Bound, Sentence
from harness.results.claims.types import Evidence, Number

_CHANGE = re.compile(
    r"(?:\bby|\b(?:gains?|changes?|improvements?|increases?|decreases?|drops?|rises?|falls?|differences?|gap|growth|reductions?|"
    r"losses|advantage|lead|effect|delta|jump)\s*(?:of|is|was|:|=)?(?:\s+(?:only|just))?|[+±−-])\s*(?:about|around|roughly|nearly|"
    r"almost|approximately|some|~|only|just|an?|more than|over|another)?\s*[+−-]?$",
    re.IGNORECASE,
)
_CHANGE_WORD = re.compile(
    r"\b(?:gain|chang|improve|increas|decreas|drop|r[io]se|f[ae]ll|differ|grew|growth)\w*", re.IGNORECASE
)
_MORE = re.compile(
    r"\s*\(?(?:absolute\s+)?(?:more|less|higher|lower|better|worse|above|below|longer|shorter|ahead|faster|slower|up|down|"
    r"gain|improvement|increase|decrease|drop|rise|gap|difference|change|fewer|points?)\b",
    re.IGNORECASE,
)
_MEAN = re.compile(r"\b(?:mean|average[ds]?|averaging|on average)\b", re.IGNORECASE)
_SUM = re.compile(r"\b(?:total|together|in all|altogether|sum|combined|overall)\b", re.IGNORECASE)
_REST = re.compile(
    r"\b(?:fail\w*|unsolved|wrong|remain\w*|missed|not (?:solved|passed)|still|left)\b", re.IGNORECASE
)
_RELATIVE = re.compile(
    r"\b(?:relative|more|less|higher|lower|faster|slower|increase|decrease|reduction|growth|by|improvement|gain|drop|better|worse|longer|shorter)\b",
    re.IGNORECASE,
)
_MOST = 14


def recompute(bound: Bound, sentence: Sentence, evidence: Evidence, named: Sequence[Number]) -> str | None:
    """How the number follows, or None; a text beginning with "not " says what it should have been."""
    quantity = bound.quantity
    numbers = _anchors(bound, evidence, named)
    between = _between_steps(bound, sentence, evidence)
    if between is not None:
        return between
    ahead, behind = sentence.text[: quantity.start], sentence.text[quantity.end :]
    is_change = bool(_CHANGE.search(ahead) or _MORE.match(behind) or quantity.is_signed)
    if quantity.form == "ratio":
        return _first(numbers, quantity, _ratio, "ratio")
    if quantity.form == "points":
        return _first(numbers, quantity, _difference, "difference")
    if quantity.form == "percent":
        return _percent(quantity, numbers, is_change, sentence)
    if quantity.form in ("plain", "money", "seconds") and is_change:
        found = _first(numbers, quantity, _difference, "difference")
        if found:
            return found
    if quantity.form == "plain" and _MEAN.search(sentence.text):
        found = _mean(quantity, numbers)
        if found:
            return found
    if quantity.form in ("seconds", "money", "plain") and _SUM.search(sentence.text):
        return _sum(quantity, evidence, numbers)
    return _spread(quantity, sentence, numbers)


def _between_steps(bound: Bound, sentence: Sentence, evidence: Evidence) -> str | None:
    """The change of a metric between the two steps that the number stands beside."""
    steps = sorted(int(name[5:]) for name in bound.step.ids) if bound.step is not None else []
    ids = bound.metric.ids if bound.metric is not None else {evidence.main}
    if len(steps) != 2 or not _CHANGE_WORD.search(sentence.text):
        return None
    for name in sorted(ids & set(evidence.curves)):
        curve = dict(zip(evidence.curves[name].steps, evidence.curves[name].values, strict=True))
        if set(steps) <= set(curve) and bound.quantity.agrees(curve[steps[1]] - curve[steps[0]]):
            return f"change of {name} from step {steps[0]} to step {steps[1]}"
    return None


def _anchors(bound: Bound, evidence: Evidence, named: Sequence[Number]) -> list[Number]:
    """The numbers that the sentence names of the same metric, else the first and last of it."""
    ids = bound.metric.ids if bound.metric is not None else None
    found = [
        n
        for n in named
        if not n.end and (ids is None or n.metric in ids or (not n.metric and n.unit == "seconds"))
    ]
    found = list(dict.fromkeys(found))[-_MOST:]
    if bound.subjects or evidence.comparison is not None:
        wanted = frozenset().union(*bound.subjects) if bound.subjects else frozenset()
        metric = ids or {evidence.main}
        found += [
            n
            for n in evidence.numbers
            if n.subject
            and not n.end
            and n.metric in metric
            and (not wanted or n.subject in wanted)
            and "point" in n.when
        ]
    if len(found) < 2:
        metric = ids or {evidence.main}
        found += [
            n
            for n in evidence.numbers
            if n.metric in metric and not n.end and n.unit != "count" and n.when & {"first", "last", "recent"}
        ]
    return [n for n in dict.fromkeys(found) if n.unit in ("rate", "number", "seconds", "count", "money")][
        :_MOST
    ]


def _first(
    numbers: Sequence[Number], quantity: Quantity, compute: Callable[[float, float], float | None], name: str
) -> str | None:
    for one, other in permutations(numbers, 2):
        if one.unit == other.unit and one.metric == other.metric:
            value = compute(one.value, other.value)
            if value is not None and quantity.agrees(value):
                return f"{name} of {one.label} and {other.label}"
    return None


def _ratio(one: float, other: float) -> float | None:
    return one / other if other else None


def _difference(one: float, other: float) -> float | None:
    return one - other


def _percent(
    quantity: Quantity, numbers: Sequence[Number], is_change: bool, sentence: Sentence
) -> str | None:
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


def _mean(quantity: Quantity, numbers: Sequence[Number]) -> str | None:
    for group in _groups(numbers):
        if len(group) > 1 and quantity.agrees(sum(n.value for n in group) / len(group)):
            return f"mean of {', '.join(n.label for n in group[:4])}"
    return None


def _sum(quantity: Quantity, evidence: Evidence, numbers: Sequence[Number]) -> str | None:
    durations = [n for n in evidence.numbers if n.unit == "seconds" and n.label.endswith("duration")]
    for group in (*_groups(numbers), durations):
        if len(group) > 1 and quantity.agrees(sum(n.value for n in group)):
            return f"sum of {', '.join(n.label for n in group[:4])}"
    return None


def _spread(quantity: Quantity, sentence: Sentence, numbers: Sequence[Number]) -> str | None:
    if not re.search(r"\b(?:differ\w*|apart|spread|range|gap|separate)\b", sentence.text, re.IGNORECASE):
        return None
    return _first(numbers, quantity, _difference, "difference")


def _groups(numbers: Sequence[Number]) -> Iterator[list[Number]]:
    for key in dict.fromkeys((n.metric, n.unit) for n in numbers):
        yield [n for n in numbers if (n.metric, n.unit) == key]
