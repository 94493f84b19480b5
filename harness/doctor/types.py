"""What an examination finds: findings, each with its mend and the failure that it predicts.

In: what one check saw. Out: `Finding`s for people and programs, and what the journal keeps of them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from harness.doctor.launch import PlannedLaunch

Severity = Literal["problem", "warning", "ok"]
Depth = Literal["launch", "full"]


@dataclass(frozen=True)
class Finding:
    """One thing that was examined."""

    severity: Severity
    """`problem`: the launch would surely fail. `warning`: it may. `ok`: it was looked at and is fine."""
    text: str
    """What was seen, with the place it was seen at."""
    mend: str = ""
    """What to do, in one sentence; empty for `ok`."""
    predicts: str = ""
    """The family (`diagnosis/signatures/families.yaml`) of the failure it would become; empty for none."""
    detail: str = ""
    """More for who wants it, such as the numbers behind the sentence."""
    remedies: tuple[str, ...] = ()
    """Names of the built-in repairs (`diagnosis/remedies/`) that could mend it, in order."""
    captures: Mapping[str, str] = field(default_factory=dict)
    """What these need to know, by the names that diagnosis uses, such as `module` and `port`."""
    check: str = ""
    """Name of the check; the examination fills it in."""

    @property
    def sentence(self) -> str:
        """The finding and its mend on one line."""
        return f"{self.text} — {self.mend}" if self.mend else self.text

    def mended_by(self, *remedies: str, **captures: str) -> "Finding":
        """The same, with built-in repairs that could mend it."""
        return replace(self, remedies=remedies, captures=captures)

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)


def problem(text: str, mend: str, predicts: str = "", detail: str = "") -> Finding:
    """Something that makes the launch fail."""
    return Finding("problem", text, mend, predicts, detail)


def warning(text: str, mend: str, predicts: str = "", detail: str = "") -> Finding:
    """Something that may make the launch fail."""
    return Finding("warning", text, mend, predicts, detail)


def fine(text: str) -> Finding:
    """Something that was looked at and is as it should be."""
    return Finding("ok", text)


Examine = Callable[["PlannedLaunch"], Iterable[Finding]]


@dataclass(frozen=True)
class Check:
    """One thing to examine: a function that yields what it finds, and nothing where it does not apply.

    `limit_s`: how long it may take. `of_machine`: it makes sense without a blueprint. `depth`: `full` checks
    are too slow for every launch.
    """

    name: str
    examine: Examine
    limit_s: float = 10.0
    of_machine: bool = False
    depth: Depth = "launch"


def outcome(findings: Iterable[Finding]) -> dict[str, Any]:
    """What the journal keeps of a check before a launch: `can_run`, `problems`, `warnings` (sentences), and
    `causes`: for each problem what a diagnosis would say of the failure (family, cause, captures, remedies).
    """
    found = list(findings)
    problems = [finding for finding in found if finding.severity == "problem"]
    causes = [
        {
            "family": each.predicts,
            "cause": each.text,
            "captures": dict(each.captures),
            "remedies": list(each.remedies),
        }
        for each in problems
    ]
    return {
        "can_run": not problems,
        "problems": [finding.sentence for finding in problems],
        "warnings": [finding.sentence for finding in found if finding.severity == "warning"],
        "causes": causes,
    }
