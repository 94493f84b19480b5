"""The two time limits of `[exp_max_time]`: how long the experiment may take, and how long until its first
step."""

import re

from harness.blueprint import durations
from harness.blueprint.choice import Candidate, choose
from harness.blueprint.document import Item, Section
from harness.blueprint.labels import Role, is_nothing
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


def read_limits(section: Section, problems: list[Problem]) -> tuple[float | None, float | None, bool]:
    """Both limits of a section in seconds, in English, Chinese or as a clock (`01:30:00`); None where it does
    not say. The third is True when it names no length at all, nor NA or `Default: …`."""
    whole: list[Candidate] = []
    first: list[Candidate] = []
    before = len(problems)
    for item in section.items:
        if item.strength <= Role.DEFAULT:
            problems += _collect(item, whole, first)
    longest = choose(whole, problems, "maximum time", _FORM, _same, {repr(DEFAULT_MAX_TIME_S)})
    earliest = choose(first, problems, "first-step time", _FIRST_FORM, _same, {repr(DEFAULT_FIRST_STEP_S)})
    max_time = _seconds(longest, "the maximum time", _FORM, problems)
    first_step = _seconds(earliest, "the first-step time", _FIRST_FORM, problems)
    if max_time and first_step and first_step > max_time and earliest:
        message = "the first-step time is longer than the maximum time, so it never applies"
        problems.append(Problem(earliest.line, message, "shorten it, or leave it out", "warning"))
    return max_time, first_step, not whole and len(problems) == before


def _same(text: str) -> str:
    return repr(durations.find(text)[0].seconds)


def _collect(item: Item, whole: list[Candidate], first: list[Candidate]) -> list[Problem]:
    """Sort the lengths of one item into the two limits by the clause each stands in."""
    text = durations.normalise(item.text if not item.title else f"{item.text} ")
    if is_nothing(item.value):
        (first if _FIRST_STEP.search(item.label) else whole).append(Candidate(None, item.line, item.strength))
        return []
    lengths = durations.find(text)
    if durations.is_open(text) and item.strength < Role.DESCRIPTION:
        message = f"{_short(item.text)!r} leaves the length open"
        return [Problem(item.line, message, f"write one length, as {_FORM}")]
    if not lengths:
        return _without_length(item)
    problems = []
    about_first, position = False, 0
    for length, following in zip(lengths, [*(each.start for each in lengths[1:]), len(text)], strict=True):
        after = _CLAUSE.split(text[length.end : following])[0]
        about_first = _is_about_first(text[position : length.start], after, about_first)
        if about_first and re.search(r",|\band\b", length.text):
            message = f"is {length.text!r} one length, or the maximum and the first-step time?"
            problems.append(Problem(item.line, message, f"write {_FORM} and {_FIRST_FORM}"))
        line = item.line + text.count("\n", 0, length.start)
        (first if about_first else whole).append(Candidate(length.text, line, item.strength))
        position = length.end
    return problems


def _is_about_first(before: str, after: str, so_far: bool) -> bool:
    """True if a length is for the first step: by the last word on it before, else the one behind."""
    *earlier, near = _CLAUSE.split(before)
    for text in (near, after, *reversed(earlier)):
        mention, whole = (
            max((found.end() for found in pattern.finditer(text)), default=0)
            for pattern in (_FIRST_STEP, _WHOLE)
        )
        if mention or whole:
            return mention > whole
    return so_far


def _without_length(item: Item) -> list[Problem]:
    if item.strength >= Role.DESCRIPTION:
        return []
    said = _short(item.value or item.text)
    value = durations.normalise(item.value)
    few = len(value.split()) <= 3
    has_number = re.search(r"\d", value) or durations.HALF.search(value)
    if has_number and ((item.label and item.strength <= Role.CONTENT) or few):
        return [Problem(item.line, f"{said!r} has no unit", f"write hours, minutes or days, as {_FORM}")]
    if not item.title and value and item.strength == Role.STATED and (item.label or few):
        return [Problem(item.line, f"{said!r} is no length of time", f"write one length, as {_FORM}")]
    return []


def _seconds(chosen: Candidate | None, what: str, form: str, problems: list[Problem]) -> float | None:
    """What was chosen, if it can be a limit."""
    if chosen is None or chosen.value is None:
        return None
    line, seconds = chosen.line, durations.find(chosen.value)[0].seconds
    if seconds <= 0:
        message = f"{what} is {seconds:g} seconds"
        problems.append(Problem(line, message, f"write a length above zero, as {form}"))
    elif seconds > LONGEST_S:
        message = f"{what} is {seconds / 86400:g} days, more than a year"
        problems.append(Problem(line, message, f"write a shorter one, as {form}"))
    else:
        return seconds
    return None


def _short(text: str) -> str:
    first = text.strip().split("\n")[0]
    return first if len(first) <= 60 else f"{first[:57]}..."
