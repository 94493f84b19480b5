"""Whether a number of a sentence stands in the raw files, or follows from numbers that the sentence names.

In: a sentence taken apart, the evidence. Out: for each of its numbers what it was found to be, or why it was
not found.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from harness.results.claims import derived
from harness.results.claims.counting import COUNTED, alike, noun_fits, status_fits
from harness.results.claims.mentions import UNKNOWN
from harness.results.claims.quantities import Quantity
from harness.results.claims.reading import Bound, Sentence
from harness.results.claims.types import Evidence, Number
from harness.results.wording import format_number

_PLACES = {"first": "first", "last": "last", "highest": "highest", "lowest": "lowest"}
_DEFAULT = frozenset({"first", "last", "recent"})
_SMALL = frozenset(
    [
        "the",
        "and",
        "for",
        "with",
        "from",
        "that",
        "this",
        "was",
        "were",
        "are",
        "its",
        "has",
        "had",
        "not",
        "but",
        "all",
        "than",
        "then",
        "per",
        "each",
        "only",
        "over",
    ]
)
_SAME_WORD = {
    "lr": ("learning", "rate"),
    "coef": ("coefficient", "weight"),
    "num": ("number",),
    "repeat": ("repeats", "samples"),
    "seed": ("seeds",),
    "max": ("maximum",),
    "freq": ("every", "frequency"),
    "n": ("engines",),
    "eps": ("epsilon",),
    "timeout": ("time-out",),
    "bs": ("batch",),
}
_PLANNED = re.compile(
    r"\b(?:question|purpose|plan(?:ned)?|goal|target|expect(?:ed|ation)?|asked|blueprint|hypothesis|requested|limit|allowed|budget)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Found:
    """What a number was found to be; `number` None: derived, quoted, or not found (`why` says which)."""

    bound: Bound
    number: Number | None
    why: str
    is_found: bool


def look_up(sentence: Sentence, evidence: Evidence, earlier: Sequence[Number] = ()) -> list[Found]:
    """Every number of the sentence. `earlier`: what the numbers of the sentence before were."""
    found: list[Found] = []
    for bound in sentence.numbers:
        found.append(_one(bound, sentence, evidence, found))
    named = [*earlier, *(item.number for item in found if item.number is not None)]
    return [item if item.is_found else _derived(item, sentence, evidence, named) for item in found]


def _one(bound: Bound, sentence: Sentence, evidence: Evidence, before: list[Found]) -> Found:
    quantity = bound.quantity
    if quantity.form == "fraction":
        return _fraction(bound, sentence, evidence)
    known = [*evidence.numbers, *_at_steps(sentence, evidence)]
    pool = [number for number in known if _fits(quantity, number, bound)]
    reasons: list[str] = []
    candidates = []
    for number in pool:
        if not quantity.agrees(number.value) or (
            number.unit == "setting" and not _exact(quantity, number.value)
        ):
            continue
        why = _mismatch(bound, number, sentence, evidence)
        if why:
            reasons.append(why)
        else:
            candidates.append(number)
    if bound.pair is not None:
        candidates = _after(candidates, bound, before, reasons)
    if candidates:
        chosen = min(candidates, key=lambda number: _distance(number, bound))
        return Found(bound, chosen, chosen.label, True)
    if _is_quoted(quantity, sentence, evidence, bound):
        return Found(bound, None, "quoted", True)
    return Found(bound, None, _reason(bound, reasons, evidence), False)


def _at_steps(sentence: Sentence, evidence: Evidence) -> list[Number]:
    """The values of the metrics that the sentence names, at the steps that it names."""
    steps = {int(name[5:]) for m in sentence.of("when") for name in m.ids if name.startswith("step:")}
    metrics = {name for m in sentence.of("metric") for name in m.ids} | {evidence.main}
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
    later = [
        number
        for number in candidates
        if not (
            number.steps
            and start.steps
            and number.metric == start.metric
            and number.steps[-1] <= start.steps[0]
        )
        or number.subject != start.subject
        or ("lowest" in start.when and "highest" in number.when)
        or number.end
    ]
    if candidates and not later:
        reasons.append(f"{candidates[0].label} does not come after {start.label}")
    return later


def _distance(number: Number, bound: Bound) -> tuple[int, float]:
    return (0 if number.metric else 1, abs(number.value - bound.quantity.value))


# --- which kinds of numbers a printed one may be ------------------------------------------------------------


def _fits(quantity: Quantity, number: Number, bound: Bound) -> bool:
    if bool(number.end) != bool(bound.end) or (number.end and number.end != bound.end):
        return False
    unit, form = number.unit, quantity.form
    if form == "percent":
        return unit == "rate" or (unit == "number" and bool(number.metric) and abs(number.value) <= 1)
    if form == "points":
        return unit == "difference"
    if form == "seconds":
        return unit == "seconds" or (
            unit == "number" and re.search(r"tim(?:e|ing)|second|latency", number.metric) is not None
        )
    if form == "money":
        return unit == "money"
    if form == "ratio":
        return False
    if quantity.is_word:
        return unit == "count"
    return unit not in ("seconds", "money")


def _exact(quantity: Quantity, value: float) -> bool:
    return abs(quantity.value - value) <= 1e-9 * max(abs(value), abs(quantity.value)) or (
        quantity.bound == "about" and quantity.agrees(value)
    )


def _mismatch(bound: Bound, number: Number, sentence: Sentence, evidence: Evidence) -> str:
    """Why a number of the right size is not the one that the sentence speaks of; "" when it is."""
    quantity, metric = bound.quantity, bound.metric
    if number.unit in ("count", "step"):
        if not noun_fits(quantity, number, sentence) or not status_fits(quantity, number, sentence):
            return f"{_shown(number)} is {number.label}"
        return _wrong_place(bound, number, sentence, evidence)
    if number.unit == "setting":
        return "" if _is_named(number, bound, sentence) else f"{_shown(number)} is {number.label}"
    if number.metric:
        ids = metric.ids if metric is not None else frozenset({evidence.main})
        if metric is None and not _speaks_of_main(number, evidence, quantity):
            return f"{_shown(number)} is {number.label}"
        if metric is not None and number.metric not in ids and quantity.form != "seconds":
            return f"{_shown(number)} is {number.label}, not {metric.text}"
        if quantity.form == "seconds" and not re.search(
            r"\b(?:each|per|every|a)\s+(?:\w+\s+)?step\b|step\s+time", sentence.text
        ):
            return f"{_shown(number)} is {number.label}"
    elif metric is not None and number.unit not in ("seconds", "money"):
        return f"{_shown(number)} is {number.label}, not {metric.text}"
    return _wrong_place(bound, number, sentence, evidence)


def _speaks_of_main(number: Number, evidence: Evidence, quantity: Quantity) -> bool:
    """Where no metric is named: the main one is meant, or the noun behind the number says which."""
    if number.metric == evidence.main:
        return True
    return "seconds" in (number.unit, quantity.form)


def _wrong_place(bound: Bound, number: Number, sentence: Sentence, evidence: Evidence) -> str:
    said = f"{_shown(number)} is {number.label}"
    if bound.attempt is not None and number.attempt is not None:
        attempts = bound.attempt.ids
        last = str(max(evidence.attempts, default=1))
        if str(number.attempt) not in attempts and not (
            attempts & {"last", "final", "only"} and str(number.attempt) == last
        ):
            return f"{said}, not of {bound.attempt.text}"
    if "=" in number.subject or number.subject.startswith("key "):
        spoken = [evidence.subjects.get(name, frozenset()) for m in sentence.of("level") for name in m.ids]
        if spoken and not any(number.subject in group for group in spoken):
            return said
        named = {name for m in sentence.of("key") for name in m.ids}
        return (
            said
            if named
            and not spoken
            and not any(number.subject.removeprefix("key ").startswith(name) for name in named)
            else ""
        )
    if number.subject:
        for subjects in bound.subjects:
            is_seed = number.unit == "count" and not subjects & set(evidence.points)
            if subjects and number.subject not in subjects and not is_seed:
                return said
    if (not number.when and not number.steps) or number.when & {"point", "run"}:
        return ""
    steps = {int(name[5:]) for name in bound.step.ids if name.startswith("step:")} if bound.step else set()
    if steps & set(number.steps):
        return ""
    if bound.step is not None and bound.step is bound.when:
        return f"{said}, not at {bound.step.text}"
    if bound.when is None or bound.when.ids == {"moved"}:
        return (
            ""
            if number.when & _DEFAULT
            else f"{said}, which is neither the first nor the last value; name its step"
        )
    wanted = next(iter(bound.when.ids), "")
    if wanted in number.when or (wanted == "last" and "recent" in number.when):
        return ""
    return f"{said}, which is not the {_PLACES.get(wanted, wanted)} value"


def _is_named(number: Number, bound: Bound, sentence: Sentence) -> bool:
    """Whether the sentence names the setting: most of its words, not all of them inside a metric's name."""
    text = sentence.text.lower()
    metric = bound.metric.text.lower() if bound.metric and bound.metric.end <= bound.quantity.start else ""
    words = [word for word in number.nouns if len(word) > 1]
    there = [
        word
        for word in words
        if any(
            re.search(rf"(?<![a-z]){re.escape(form)}", text)
            for form in (word, word.rstrip("s"), *_SAME_WORD.get(word, ()))
        )
    ]
    new = [word for word in there if word not in metric]
    return bool(new) and 2 * len(there) >= len(words)


def _fraction(bound: Bound, sentence: Sentence, evidence: Evidence) -> Found:
    """`34 of 40 tasks`: the total is a count, and the share a rate or a count of the same."""
    quantity = bound.quantity
    noun = quantity.noun
    totals = [
        n
        for n in evidence.numbers
        if n.unit == "count" and n.value == quantity.total and noun_fits(quantity, n, sentence)
    ]
    if not totals:
        return Found(
            bound, None, f"there are not {quantity.total:g} {noun.split(' ')[0] or 'of these'}", False
        )
    reasons: list[str] = []
    for number in evidence.numbers:
        if number.end:
            continue
        is_share = number.unit == "rate" and abs(number.value * (quantity.total or 1) - quantity.value) < 0.01
        is_count = (
            number.unit == "count"
            and number.value == quantity.value
            and number not in totals
            and bool(number.metric or number.nouns & totals[0].nouns)
        )
        if not (is_share or is_count):
            continue
        why = _wrong_place(bound, number, sentence, evidence) if number.metric else ""
        if not why and is_count and not status_fits(quantity, number, sentence):
            why = f"{_shown(number)} is {number.label}"
        if not why:
            return Found(bound, number, number.label, True)
        reasons.append(why)
    return Found(
        bound, None, reasons[0] if reasons else f"{quantity.text} is nowhere in the raw files", False
    )


# --- derived and quoted -------------------------------------------------------------------------------------


def _derived(item: Found, sentence: Sentence, evidence: Evidence, named: Sequence[Number]) -> Found:
    why = derived.recompute(item.bound, sentence, evidence, named)
    if why is None:
        return item
    return Found(item.bound, None, why, not why.startswith("not "))


def _is_quoted(quantity: Quantity, sentence: Sentence, evidence: Evidence, bound: Bound) -> bool:
    """Whether a text of a person or a log has this number beside the same words."""
    if quantity.form != "plain" or (bound.metric is not None and not _PLANNED.search(sentence.text)):
        return False
    if any(alike(word, one) for word in re.findall(r"[a-z]+", quantity.noun)[:2] for one in COUNTED):
        return False
    around = sentence.text[max(0, quantity.start - 60) : quantity.end + 60].lower()
    said = set(re.findall(r"[a-z]{4,}", around)) - _SMALL - {quantity.text.lower()}
    for text in evidence.quoted:
        for match in re.finditer(rf"(?<![\w.]){re.escape(quantity.text.strip())}(?![\w]|\.\d)", text):
            there = set(re.findall(r"[a-z]{4,}", text[max(0, match.start() - 40) : match.end() + 40].lower()))
            if said & there:
                return True
    return False


# --- reasons ------------------------------------------------------------------------------------------------


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
    there = "; ".join(f"{n.label} is {_shown(n)}" for n in about[:2])
    return f"{bound.quantity.text} is nowhere in the raw files" + (f": {there}" if there else "")


def _shown(number: Number) -> str:
    unit = number.unit if number.unit in ("rate", "seconds", "difference", "count") else "number"
    return format_number(number.value, unit)
