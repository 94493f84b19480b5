"""One value out of several that a section may hold, by a rule that is said whenever it is needed."""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from harness.blueprint.labels import Role
from harness.blueprint.types import Problem


@dataclass(frozen=True)
class Candidate:
    """Something in a section that may be its value."""

    value: str | None
    """None: the section says NA."""
    line: int
    role: Role
    unsure: str = ""
    """Why the value cannot be told from the text around it; empty when it can."""


@dataclass(frozen=True)
class Choice:
    """What was chosen. `chosen` None: nothing, the default applies."""

    chosen: Candidate | None
    problems: tuple[Problem, ...]


def choose(
    candidates: Sequence[Candidate],
    what: str,
    form: str,
    same: Callable[[str], str] = str,
    standard: Container[str] = (),
) -> Choice:
    """The one candidate of the strongest role.

    Two of the same strength are an error; a weaker one that differs is a warning. `what` names the value
    ("path"), `form` shows how to write it; `same` brings values to the form in which they are compared.
    `Default: …` counts, with a warning, when nothing else does and its value is none of the `standard` ones.
    """
    usable = [candidate for candidate in candidates if candidate.role < Role.DEFAULT]
    usable = usable or [candidate for candidate in candidates if _is_own_default(candidate, standard, same)]
    if not usable:
        return Choice(None, ())
    strongest = min(candidate.role for candidate in usable)
    first = next(candidate for candidate in usable if candidate.role == strongest)
    problems = []
    compared = same(first.value) if first.value is not None else None
    for other in usable:
        if other is first or (same(other.value) if other.value is not None else None) == compared:
            continue
        if other.role == strongest:
            problems.append(_two(first, other, what, form))
        elif other.role <= Role.PROSE:
            problems.append(_mention(first, other, what))
    if first.unsure:
        problems = [Problem(first.line, first.unsure, f"write {form} on a line of its own")]
    elif strongest >= Role.DESCRIPTION and first.value is not None:
        where = "in a description" if strongest == Role.DESCRIPTION else "behind `Default:`"
        message = f"the {what} {first.value!r} stands only {where}"
        problems.append(Problem(first.line, message, f"write {form} on a line of its own", "warning"))
    return Choice(first, tuple(problems))


def _is_own_default(candidate: Candidate, standard: Container[str], same: Callable[[str], str]) -> bool:
    """Whether `Default: …` gives a value of its own."""
    return candidate.value is not None and not candidate.unsure and same(candidate.value) not in standard


def _two(first: Candidate, other: Candidate, what: str, form: str) -> Problem:
    message = (
        f"two {what}s: {_show(first.value)} (line {first.line}) and {_show(other.value)}; which one is meant?"
    )
    return Problem(other.line, message, f"keep one, as {form}; put the other behind `- hint:`")


def _mention(first: Candidate, other: Candidate, what: str) -> Problem:
    message = f"{_show(other.value)} is also named; taken is {_show(first.value)}, which stands as the value"
    return Problem(other.line, message, f"put it behind `- hint:` if it is not the {what}", "warning")


def _show(value: str | None) -> str:
    return "NA" if value is None else f"`{value}`"
