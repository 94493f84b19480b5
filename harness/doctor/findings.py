"""What an examination finds: findings, each with its fix and the failure that it predicts.

In: what one check saw. Out: `Finding`s for people and programs, and what the journal keeps of them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from harness.attempt import Diagnosis
from harness.journal.events import Checked

if TYPE_CHECKING:
    from harness.doctor.launch import PlannedLaunch

Severity = Literal["problem", "warning", "ok"]


@dataclass(frozen=True)
class Finding:
    """One thing that was examined.

    `severity`: `problem` (the launch would surely fail), `warning` (it may) or `ok`. `text`: what was seen,
    and where. `fix`: what to do, in one sentence. `predicts`: the family (see `diagnosis/signatures`) of the
    failure it would become. `detail`: the numbers behind it. `remedies`: names of the built-in repairs
    that could fix it, and `captures` what these need to know. `check`: filled in by the examination.
    """

    severity: Severity
    text: str
    fix: str = ""
    predicts: str = ""
    detail: str = ""
    remedies: tuple[str, ...] = ()
    captures: Mapping[str, str] = field(default_factory=dict)
    check: str = ""

    @property
    def sentence(self) -> str:
        """The finding and its fix on one line."""
        return f"{self.text} — {self.fix}" if self.fix else self.text

    def fixed_by(self, *remedies: str, **captures: str) -> "Finding":
        """The same, with built-in repairs that could fix it."""
        return replace(self, remedies=remedies, captures=captures)

    def as_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)


def problem(text: str, fix: str, predicts: str = "", detail: str = "") -> Finding:
    """Something that makes the launch fail."""
    return Finding("problem", text, fix, predicts, detail)


def warning(text: str, fix: str, predicts: str = "", detail: str = "") -> Finding:
    """Something that may make the launch fail."""
    return Finding("warning", text, fix, predicts, detail)


def fine(text: str) -> Finding:
    """Something that was looked at and is as it should be."""
    return Finding("ok", text)


@dataclass(frozen=True)
class Check:
    """One thing to examine: a function that yields what it finds, and nothing where it does not apply.

    `limit_s`: how long it may take. `of_machine`: it makes sense without a blueprint.
    """

    name: str
    examine: Callable[["PlannedLaunch"], Iterable[Finding]]
    limit_s: float = 10.0
    of_machine: bool = False


def outcome(findings: Iterable[Finding]) -> Checked:
    """What the journal keeps of a check before a launch."""
    found = list(findings)
    problems = [finding for finding in found if finding.severity == "problem"]
    causes = tuple(
        Diagnosis(
            each.predicts,
            None,
            each.text,
            confidence=1.0,
            captures=dict(each.captures),
            remedies=each.remedies,
        )
        for each in problems
    )
    return Checked(
        can_run=not problems,
        problems=tuple(finding.sentence for finding in problems),
        warnings=tuple(finding.sentence for finding in found if finding.severity == "warning"),
        causes=causes,
    )
