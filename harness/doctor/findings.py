"""What an examination finds, each with its fix and the failure that it predicts; what the journal keeps."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from harness.attempt import Diagnosis
from harness.journal.events import Checked

Severity = Literal["problem", "warning", "ok"]


@dataclass(frozen=True)
class Finding:
    """One thing that was examined.

    `severity`: `problem` (the launch would surely fail), `warning` (it may) or `ok`. `text`: what was seen,
    and where. `fix`: what to do, in one sentence. `predicts`: the family (see `diagnosis/signatures`) of the
    failure it would become. `remedies`: names of the built-in repairs that could fix it, and `captures` what
    these need to know. `check`: filled in by the examination.
    """

    severity: Severity
    text: str
    fix: str = ""
    predicts: str = ""
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


def problem(text: str, fix: str, predicts: str = "") -> Finding:
    return Finding("problem", text, fix, predicts)


def warning(text: str, fix: str, predicts: str = "") -> Finding:
    return Finding("warning", text, fix, predicts)


def fine(text: str) -> Finding:
    return Finding("ok", text)


def outcome(findings: Iterable[Finding]) -> Checked:
    """What the journal keeps of a check before a launch."""
    found = list(findings)
    problems = [each for each in found if each.severity == "problem"]
    return Checked(
        can_run=not problems,
        problems=tuple(each.sentence for each in problems),
        warnings=tuple(each.sentence for each in found if each.severity == "warning"),
        causes=tuple(
            Diagnosis(
                each.predicts, None, each.text, confidence=1.0, captures=each.captures, remedies=each.remedies
            )
            for each in problems
        ),
    )
