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
    """Why the value cannot be read from the text around it; empty when it can."""


def choose(
    candidates: Sequence[Candidate],
    problems: list[Problem],
    what: str,
    form: str,
    same: Callable[[str], str] = str,
    standard: Container[str] = (),
) -> Candidate | None:
    """The one candidate of the strongest role; None: nothing, the default applies. `problems` grows.

    Two of the same strength are an error; a weaker one that differs is a warning. `what` names the value
    ("path"), `form` shows how to write it; `same` brings values to the form in which they are compared.
    `Default: …` counts, with a warning, when nothing else does and its value is none of the `standard` ones.
    """

    def key(candidate: Candidate) -> str | None:
        return None if candidate.value is None else same(candidate.value)

    usable = [one for one in candidates if one.role < Role.DEFAULT] or [
        one for one in candidates if one.value is not None and not one.unsure and key(one) not in standard
    ]
    if not usable:
        return None
    first = min(usable, key=lambda one: one.role)
    alone = f"write {form} on a line of its own"
    if first.unsure:
        problems.append(Problem(first.line, first.unsure, alone))
        return first
    taken = _show(first.value)
    for other in usable:
        named = _show(other.value)
        if key(other) == key(first):
            continue
        if other.role == first.role:
            message = f"two {what}s: {taken} (line {first.line}) and {named}; which one is meant?"
            problems.append(
                Problem(other.line, message, f"keep one, as {form}; put the other behind `- hint:`")
            )
        elif other.role <= Role.PROSE:
            message = f"{named} is also named; taken is {taken}, which stands as the value"
            fix = f"put it behind `- hint:` if it is not the {what}"
            problems.append(Problem(other.line, message, fix, "warning"))
    if first.role >= Role.DESCRIPTION and first.value is not None:
        where = "in a description" if first.role == Role.DESCRIPTION else "behind `Default:`"
        message = f"the {what} {first.value!r} stands only {where}"
        problems.append(Problem(first.line, message, alone, "warning"))
    return first


def _show(value: str | None) -> str:
    return "NA" if value is None else f"`{value}`"
