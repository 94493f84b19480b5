"""The two time limits of `[exp_max_time]`: how long the experiment may take, and how long until its first
step."""

import re
from dataclasses import dataclass

from harness.blueprint import durations
from harness.blueprint.choice import Candidate, choose
from harness.blueprint.document import Item, Section
from harness.blueprint.inline import is_nothing
from harness.blueprint.labels import Role
from harness.blueprint.types import DEFAULT_FIRST_STEP_S, DEFAULT_MAX_TIME_S, Problem

LONGEST_S = 366 * 86400.0
_FIRST_STEP = re.compile(
    r"first[\s_-]*(?:training[\s_-]*|optimi[sz]er[\s_-]*)?step|首步|首个\s*step|首个步|第一\s*个?\s*(?:训练)?\s*(?:步|step)",
    re.IGNORECASE,
)
_WHOLE = re.compile(
    r"max|total|overall|whole|entire|altogether|each experiment|terminat|最长|最大|总|整个|一共|终止",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[,;，；。\n()（）]|\.\s|\band\b|\bwith\b")
_FORM = "`- time: 12 hours`"
_FIRST_FORM = "`- first step: 20 minutes`"


@dataclass(frozen=True)
class Limits:
    """Seconds; None where the section does not say."""

    max_time_s: float | None
    first_step_s: float | None
    problems: tuple[Problem, ...]
    silent: bool
    """True when the section says nothing about the maximum time, NA, or `Default: …`."""


def read_limits(section: Section) -> Limits:
    """Both limits of a section, in English, Chinese or as a clock (`01:30:00`)."""
    whole: list[Candidate] = []
    first: list[Candidate] = []
    problems: list[Problem] = []
    for item in section.items:
        role = item.role or Role.STATED
        if role <= Role.DEFAULT:
            problems += _collect(item, role, whole, first)
    longest = choose(whole, "maximum time", _FORM, _same, {repr(DEFAULT_MAX_TIME_S)})
    earliest = choose(first, "first-step time", _FIRST_FORM, _same, {repr(DEFAULT_FIRST_STEP_S)})
    problems += [*longest.problems, *earliest.problems]
    max_time, max_problem = _seconds(longest.chosen, "the maximum time", _FORM)
    first_step, first_problem = _seconds(earliest.chosen, "the first-step time", _FIRST_FORM)
    problems += [*max_problem, *first_problem]
    if max_time and first_step and first_step > max_time and earliest.chosen:
        message = "the first-step time is longer than the maximum time, so it never applies"
        problems.append(Problem(earliest.chosen.line, message, "shorten it, or leave it out", "warning"))
    return Limits(max_time, first_step, tuple(problems), not whole and not problems)


def _same(text: str) -> str:
    return repr(durations.find(text)[0].seconds)


def _collect(item: Item, role: Role, whole: list[Candidate], first: list[Candidate]) -> list[Problem]:
    """Sort the lengths of one item into the two limits by the clause each stands in."""
    text = durations.normalise(item.text if not item.title else f"{item.text} ")
    if is_nothing(item.value):
        (first if _FIRST_STEP.search(item.label) else whole).append(Candidate(None, item.line, role))
        return []
    lengths = durations.find(text)
    if durations.is_open(text) and role < Role.DESCRIPTION:
        return [
            Problem(
                item.line, f"{_short(item.text)!r} leaves the length open", f"write one length, as {_FORM}"
            )
        ]
    if not lengths:
        return _without_length(item, role, text)
    problems = []
    about_first = False
    position = 0
    for number, length in enumerate(lengths):
        following = lengths[number + 1].start if number + 1 < len(lengths) else len(text)
        before = text[position : length.start]
        after = _CLAUSE.split(text[length.end : following])[0]
        about_first = _is_about_first(before, after, about_first)
        if about_first and re.search(r",|\band\b", length.text):
            message = f"is {length.text!r} one length, or the maximum and the first-step time?"
            problems.append(Problem(item.line, message, f"write {_FORM} and {_FIRST_FORM}"))
        (first if about_first else whole).append(
            Candidate(length.text, _line(item, text, length.start), role)
        )
        position = length.end
    return problems


def _is_about_first(before: str, after: str, so_far: bool) -> bool:
    """Whether a length belongs to the first step: the last word on it before the length, else the one
    behind it."""
    *earlier, near = _CLAUSE.split(before)
    for text in (near, after, *reversed(earlier)):
        mention, whole = _last(_FIRST_STEP, text), _last(_WHOLE, text)
        if mention or whole:
            return mention > whole
    return so_far


def _last(pattern: re.Pattern[str], text: str) -> int:
    return max((found.end() for found in pattern.finditer(text)), default=0)


def _without_length(item: Item, role: Role, text: str) -> list[Problem]:
    if role >= Role.DESCRIPTION:
        return []
    said = _short(item.value or item.text)
    if durations.is_endless(text):
        return [
            Problem(
                item.line, f"{said!r}: a run without a limit is not possible", f"write a limit, as {_FORM}"
            )
        ]
    value = durations.normalise(item.value)
    if durations.is_numeric(value) and ((item.label and role <= Role.CONTENT) or len(value.split()) <= 3):
        return [Problem(item.line, f"{said!r} has no unit", f"write hours, minutes or days, as {_FORM}")]
    if not item.title and value and role == Role.STATED and (item.label or len(value.split()) <= 3):
        return [Problem(item.line, f"{said!r} is no length of time", f"write one length, as {_FORM}")]
    return []


def _seconds(chosen: Candidate | None, what: str, form: str) -> tuple[float | None, list[Problem]]:
    if chosen is None or chosen.value is None:
        return None, []
    seconds = durations.find(chosen.value)[0].seconds
    if seconds <= 0:
        return None, [
            Problem(chosen.line, f"{what} is {seconds:g} seconds", f"write a length above zero, as {form}")
        ]
    if seconds > LONGEST_S:
        message = f"{what} is {seconds / 86400:g} days, more than a year"
        return None, [Problem(chosen.line, message, f"write a shorter one, as {form}")]
    return seconds, []


def _line(item: Item, text: str, position: int) -> int:
    return item.line + text.count("\n", 0, position)


def _short(text: str) -> str:
    first = text.strip().split("\n")[0]
    return first if len(first) <= 60 else f"{first[:57]}..."
