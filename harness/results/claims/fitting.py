"""Whether a number of the evidence may be the one that a text prints: its kind, its metric, its place.

In: a printed number in one reading, a number of the evidence. Out: "" where it may, else why it may not.
"""

from __future__ import annotations

import re

from harness.results.claims.counting import COUNTED, alike, noun_fits, status_fits, tries_fit
from harness.results.claims.counts_of_comparison import TOGETHER
from harness.results.claims.quantity import Quantity
from harness.results.claims.reading import Bound, Mention, Sentence
from harness.results.claims.types import Evidence, Number
from harness.wording import number_text

_PLACES = {"first": "first", "last": "last", "highest": "highest", "lowest": "lowest"}
_DEFAULT = frozenset({"first", "last", "recent"})
PASSING = ", which is neither the first nor the last value; name its step"
_SAME_WORD = {
    "lr": ("learning", "rate"),
    "coef": ("coefficient", "weight"),
    "num": ("number",),
    "repeat": ("repeats", "samples", "rollouts", "responses", "generations"),
    "seed": ("seeds",),
    "max": ("maximum",),
    "freq": ("every", "frequency"),
    "n": ("engines",),
    "eps": ("epsilon",),
    "timeout": ("time-out",),
    "bs": ("batch",),
}
_COMMON = frozenset(
    {
        "rate",
        "loss",
        "max",
        "min",
        "kl",
        "n",
        "reward",
        "train",
        "val",
        "type",
        "mode",
        "size",
        "step",
        "total",
    }
)
_MEAN_OF = re.compile(r"\b(?:mean|average)\b(?:(?!\bseed)[^\d]|\de-?\d){0,30}$", re.IGNORECASE)
_EXTREME_SEED = re.compile(
    r"\b(?P<place>best|highest|worst|lowest)\s+(?:seed|run)\b[^,;]{0,25}$", re.IGNORECASE
)


def fits(quantity: Quantity, number: Number, bound: Bound, says_interval: bool) -> bool:
    if number.end and number.end != bound.end and (bound.end or not says_interval):
        return False
    if bound.end and not number.end and says_interval and number.unit != "count":
        return False
    unit, form = number.unit, quantity.form
    if form == "percent":
        if re.search(r"\bsteps\b", quantity.noun):
            return False  # a share of the steps
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
        return unit in ("count", "setting")
    return unit not in ("seconds", "money")


def exact(quantity: Quantity, value: float) -> bool:
    return abs(quantity.value - value) <= 1e-9 * max(abs(value), abs(quantity.value)) or (
        quantity.bound == "about" and quantity.agrees(value)
    )


def mismatch(
    bound: Bound, number: Number, sentence: Sentence, evidence: Evidence, before: Sentence | None
) -> str:
    """Why a number of the right size is not the one that the sentence speaks of; "" when it is."""
    quantity, metric = bound.quantity, bound.metric
    if not tries_fit(quantity, number, sentence):
        return f"{shown(number)} is {number.label}"
    if number.unit in ("count", "step"):
        words = before.text if before is not None else ""
        if not noun_fits(quantity, number, sentence, words) or not status_fits(quantity, number, sentence):
            return f"{shown(number)} is {number.label}"
        return wrong_place(bound, number, sentence, evidence)
    if number.unit == "setting":
        return "" if _is_named(number, bound, sentence, evidence) else f"{shown(number)} is {number.label}"
    if number.metric:
        ids = metric.ids if metric is not None else frozenset({evidence.main})
        if metric is None and not _speaks_of(number, evidence, quantity, sentence, before):
            return f"{shown(number)} is {number.label}"
        if metric is not None and number.metric not in ids and quantity.form != "seconds":
            return f"{shown(number)} is {number.label}, not {metric.text}"
        if quantity.form == "seconds" and not re.search(
            r"\b(?:each|per|every|a)\s+(?:\w+\s+)?step\b|step\s+time|\bs\s+each\b|\bs\s+per\b",
            sentence.text,
            re.IGNORECASE,
        ):
            return f"{shown(number)} is {number.label}"
    elif metric is not None and number.unit not in ("seconds", "money"):
        return f"{shown(number)} is {number.label}, not {metric.text}"
    return wrong_place(bound, number, sentence, evidence)


def _speaks_of(
    number: Number, evidence: Evidence, quantity: Quantity, sentence: Sentence, before: Sentence | None
) -> bool:
    """Where no metric is named: the main one is meant, or one of whose name the sentence has a word."""
    if number.metric == evidence.main or "seconds" in (number.unit, quantity.form):
        return True
    if (
        before is not None
        and not sentence.of("metric")
        and any(number.metric in m.ids for m in before.mentions)
    ):
        return True
    said = re.findall(r"[a-z]{5,}", sentence.text.lower())
    return any(alike(word, part) for part in re.findall(r"[a-z]{5,}", number.metric.lower()) for word in said)


def wrong_place(bound: Bound, number: Number, sentence: Sentence, evidence: Evidence) -> str:
    """Why a number is not of the attempt, level, point, seed or time that is said; "" when it is."""
    said = f"{shown(number)} is {number.label}"
    if not _is_of_attempt(bound, number, evidence):
        return f"{said}, not of {bound.attempt.text}" if bound.attempt is not None else said
    if "=" in number.subject or number.subject.startswith("key "):
        return "" if _is_of_level(number, sentence, evidence) else said
    if "run" in number.when and (why := _not_that_run(bound, number, sentence, evidence)):
        return f"{said}{why}"
    return (
        said if not _is_of_point(bound, number, sentence, evidence) else _wrong_time(bound, number, evidence)
    )


def _is_of_attempt(bound: Bound, number: Number, evidence: Evidence) -> bool:
    if bound.attempt is None:
        return True
    if number.attempt is None:
        is_whole = number.unit == "seconds" and number.label != "the time limit"
        return not is_whole or "attempt" in bound.loose or len(evidence.attempts) < 2
    is_last = number.attempt == max(evidence.attempts, default=1)
    attempts = bound.attempt.ids
    return str(number.attempt) in attempts or (is_last and bool(attempts & {"last", "final", "only"}))


def _is_of_level(number: Number, sentence: Sentence, evidence: Evidence) -> bool:
    """Of numbers that belong to levels or keys: whether they are the ones that the sentence names."""
    spoken = [evidence.subjects.get(name, frozenset()) for m in sentence.of("level") for name in m.ids]
    if spoken:
        return all(any(part in group for group in spoken) for part in number.subject.split(TOGETHER))
    if number.unit == "count" and "run" in number.nouns:
        return False
    named = {name for m in sentence.of("key") for name in m.ids}
    return not named or any(number.subject.removeprefix("key ").startswith(name) for name in named)


def _not_that_run(bound: Bound, number: Number, sentence: Sentence, evidence: Evidence) -> str:
    """Why the value of a single run is not what is spoken of: a mean, or the best seed of a point."""
    ahead = sentence.text[: bound.quantity.start]
    if _MEAN_OF.search(ahead):
        return ", not a mean"
    wanted = _EXTREME_SEED.search(ahead)
    if wanted is None:
        return ""
    groups = (evidence.subjects[name] for name in evidence.points)
    group = next((runs for runs in groups if number.subject in runs), frozenset())
    values = [n.value for n in evidence.numbers if "run" in n.when and n.subject in group]
    place = _extreme(wanted["place"].lower(), evidence.goals.get(number.metric, 1))
    if not values or number.value == (max if place == "highest" else min)(values):
        return ""
    return f", which is not the {wanted['place']}"


def _is_of_point(bound: Bound, number: Number, sentence: Sentence, evidence: Evidence) -> bool:
    if number.unit == "count" and number.subject in evidence.points and "run" in number.nouns:
        points = [m for m in sentence.of("point") if not m.ids & {"baseline", "best"}]
        if points and not any(number.subject in _group(evidence, m) for m in points):
            return False
    for subjects in bound.subjects if number.subject else ():
        if "point" in number.when and not subjects & set(evidence.points):
            continue  # a mean is of no seed
        is_seed = number.unit == "count" and not subjects & set(evidence.points)
        if subjects and number.subject not in subjects and not is_seed:
            return False
    return True


def _wrong_time(bound: Bound, number: Number, evidence: Evidence) -> str:
    said = f"{shown(number)} is {number.label}"
    if (not number.when and not number.steps) or number.when & {"point", "run"}:
        return ""
    steps = {int(name[5:]) for name in bound.step.ids if name.startswith("step:")} if bound.step else set()
    if steps & set(number.steps):
        return ""
    if bound.step is not None and bound.step is bound.when:
        return f"{said}, not at {bound.step.text}"
    if bound.when is None or bound.when.ids == {"moved"}:
        return "" if number.when & _DEFAULT else f"{said}{PASSING}"
    if bound.when.ids == {"between"}:
        return ""
    wanted = _extreme(next(iter(bound.when.ids), ""), evidence.goals.get(number.metric, 1))
    if wanted in number.when or (wanted == "last" and "recent" in number.when):
        return ""
    return f"{said}, which is not the {_PLACES.get(wanted, wanted)} value"


def _group(evidence: Evidence, mention: Mention) -> frozenset[str]:
    """The point of a point or run that is named."""
    own = frozenset().union(*(evidence.subjects.get(name, frozenset()) for name in mention.ids))
    return frozenset(name for name in evidence.points if own & evidence.subjects[name])


def _extreme(place: str, goal: int) -> str:
    """The best of a metric is its highest value, or its lowest where lower is better."""
    if place not in ("best", "worst"):
        return place
    return "highest" if (place == "best") == (goal >= 0) else "lowest"


def _is_named(number: Number, bound: Bound, sentence: Sentence, evidence: Evidence) -> bool:
    """Whether the sentence may speak of the setting: it names it right before the number, or has a word of
    it, or says nothing of what the number is."""
    start = bound.quantity.start
    key = number.label.partition(" in ")[0]
    if key.rpartition(".")[2] == "seed" and bound.quantity.noun.startswith("seed"):
        return False  # "3 seeds" are not seed 3
    ahead = [m for m in sentence.of("setting") if m.end <= start and start - m.end < 25]
    if ahead and not re.search(r"[,;\d]", sentence.text[ahead[-1].end : start]):
        return key in ahead[-1].ids
    metric = bound.metric.text.lower() if bound.metric and bound.metric.end <= start else ""
    if any(word not in metric and word not in _COMMON for word in _words_there(number, sentence.text)):
        return True
    noun = bound.quantity.noun.split(" ")[0]
    is_other = any(alike(word, one) for word in bound.quantity.noun.split() for one in COUNTED) or any(
        alike(noun, word)
        for other in evidence.numbers
        if other.unit == "setting"
        for word in other.nouns
        if noun
    )
    is_firm = bound.metric is not None and "metric" not in bound.loose
    return bool(noun) and not is_other and not is_firm


def _words_there(number: Number, text: str) -> list[str]:
    text = text.lower()
    return [
        word
        for word in number.nouns
        if len(word) > 1
        and any(
            re.search(rf"(?<![a-z]){re.escape(form)}", text)
            for form in (word, word.rstrip("s"), *_SAME_WORD.get(word, ()))
        )
    ]


def shown(number: Number) -> str:
    unit = number.unit if number.unit in ("rate", "seconds", "difference", "count") else "number"
    return number_text(number.value, unit)
