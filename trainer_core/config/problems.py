"""What can be wrong with a config, told so that it can be mended: what, where, and how."""

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

Verdict = Literal["ignored", "doubtful", "refused"]


@dataclass(frozen=True)
class Problem:
    """One thing wrong (or, as a warning, not honoured).

    `where` is `file:line`, or `command line`; `key` the dotted path; `value` what stands there.
    """

    message: str
    fix: str
    where: str
    key: str | None = None
    value: Any = None

    def __str__(self) -> str:
        subject = self.key or ""
        if self.key and self.value is not None:
            subject = f"{self.key}: {_shown(self.value)}"
        return " ".join(part for part in (f"{self.where}:", subject, self.message, self.fix) if part)

    def as_json(self) -> dict[str, Any]:
        """The same as a mapping that `json` can write."""
        return asdict(self)


@dataclass(frozen=True)
class Finding:
    """One key of one config that will not be done as told (`ignored`, `refused`), or is hardly what was meant
    (`doubtful`)."""

    key: str
    value: Any
    verdict: Verdict
    why: str
    fix: str

    def __str__(self) -> str:
        return f"{self.key}: {_shown(self.value)}: {self.why}. {self.fix}"


class ConfigError(Exception):
    """A config cannot be used. `problems` holds every reason found."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems

    @classmethod
    def at(cls, where: str, message: str, fix: str) -> "ConfigError":
        """One problem that is not about a key of the schema."""
        return cls(Problem(message, fix, where))


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
