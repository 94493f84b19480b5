"""The words of the claims checker: what may be said (evidence), and what was said (claims).

Nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from harness.results.comparing.types import Comparison, Curve

UNKNOWN = "unknown"
"""The id of a metric that a text names and nobody measured."""
Unit = Literal["rate", "number", "difference", "count", "seconds", "step", "setting", "money"]
Kind = Literal["number", "difference", "effect", "outcome", "generality", "cause"]
Verdict = Literal["ok", "wrong", "not checkable"]


@dataclass(frozen=True)
class Number:
    """One number that may be said.

    `metric`: what it is a value of, "" for none. `steps`: the step or steps it belongs to. `when`: its places
    in its series ("first", "last", "highest", "lowest", "recent"). `subject`: point, run or level it belongs
    to, "" for the whole. `nouns`: what a count counts, or the words that name a setting.
    """

    value: float
    unit: Unit
    label: str
    place: str = ""
    metric: str = ""
    steps: tuple[int, ...] = ()
    when: frozenset[str] = frozenset()
    attempt: int | None = None
    subject: str = ""
    nouns: frozenset[str] = frozenset()
    end: Literal["", "low", "high", "half"] = ""
    """Which end of the 95 % interval of `label` it is, or half its width; "" for the number itself."""


@dataclass(frozen=True)
class Term:
    """How a text may name a thing. `names`: in lower case, spaces for separators; the longest one wins.

    `ids`: what it may mean. `axis`: "metric", "key", "point", "seed", or "level of KEY".
    """

    names: tuple[str, ...]
    ids: frozenset[str]
    axis: str = "metric"


@dataclass(frozen=True)
class Change:
    """How a metric changed over a run. `low`, `high`: 95 % interval of the change, None without one."""

    first: float
    last: float
    low: float | None = None
    high: float | None = None
    is_tested: bool = False
    """Whether an interval could be expected: a change over validation tasks."""


@dataclass(frozen=True)
class Duty:
    """Something a narrative has to name. `what`: in words; `patterns`: regular expressions, one of which must
    be found."""

    what: str
    patterns: tuple[str, ...]


@dataclass(frozen=True)
class Evidence:
    """Everything that a text about a run, or about a comparison of runs, may say.

    `curves`: metric to its finite values over the steps. `changes`: metric to its change over the run.
    `goals`: metric to +1 where higher is better, −1 where lower is. `main`: the metric that is meant where
    none is named. `quoted`: texts of people and logs, whose numbers may be quoted. `names`: of points and
    runs. `outcome`: of the run, "" for a comparison. `attempts`: number to how it ended ("ok" or "failed").
    `causes`: what diagnoses say. `exchanged`: old and new value of each setting that
    a repair changed. `last_step`: None where no step was made. `has_nan`: whether a metric has
    values that are no numbers. `comparison`: None for a run. `points`: their names. `subjects`: what belongs
    to a level, a seed or a point: its name to the subjects of numbers.
    """

    numbers: tuple[Number, ...]
    terms: tuple[Term, ...] = ()
    curves: Mapping[str, Curve] = field(default_factory=dict)
    changes: Mapping[str, Change] = field(default_factory=dict)
    goals: Mapping[str, int] = field(default_factory=dict)
    main: str = ""
    quoted: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    outcome: str = ""
    attempts: Mapping[int, str] = field(default_factory=dict)
    causes: tuple[str, ...] = ()
    exchanged: tuple[tuple[float, float], ...] = ()
    last_step: int | None = None
    has_nan: bool = False
    duties: tuple[Duty, ...] = ()
    comparison: Comparison | None = None
    points: tuple[str, ...] = ()
    subjects: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """One thing a sentence says. `span`: of the sentence, in the plain text of its block `block`."""

    text: str
    kind: Kind
    verdict: Verdict
    why: str
    sentence: str = ""
    block: int = 0
    span: tuple[int, int] = (0, 0)

    @property
    def ok(self) -> bool:
        return self.verdict == "ok"

    @property
    def reason(self) -> str:
        """Why, with the words that it is about."""
        return self.why if self.why.startswith(self.text) else f"{self.text}: {self.why}"


@dataclass(frozen=True)
class Omission:
    """Something the text should have named and did not."""

    what: str

    @property
    def text(self) -> str:
        return f"does not mention that {self.what}"


@dataclass(frozen=True)
class Checked:
    """What came of a text."""

    claims: tuple[Claim, ...]
    omissions: tuple[Omission, ...] = ()

    @property
    def wrong(self) -> tuple[Claim, ...]:
        """Claims that the raw files do not bear out."""
        return tuple(claim for claim in self.claims if claim.verdict == "wrong")

    @property
    def unsure(self) -> tuple[Claim, ...]:
        """Claims that nothing measured can settle."""
        return tuple(claim for claim in self.claims if claim.verdict == "not checkable")

    @property
    def ok(self) -> bool:
        return not self.wrong and not self.omissions
