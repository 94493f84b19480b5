"""What a model writes: a section of findings, each a small typed object, and one free interpretation.

The pydantic models are the schema of the model's tool; what the kinds of findings are, its prompt says
(`templates/prompts`). A finding names what it is about; which way a number went, and whether it may be called
a difference, the program decides when it looks the facts up.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.config.values import Scalar

SectionName = Literal["findings", "what_happened", "limitations", "next_steps"]
SECTIONS: tuple[SectionName, ...] = ("findings", "what_happened", "limitations", "next_steps")
Language = Literal["en", "zh"]
Id = Annotated[str, Field(min_length=1, max_length=300)]
Place = Annotated[
    int | float | Literal["first", "last"],
    Field(description="A step that the metric is listed with, or first, last."),
]
MOST_FINDINGS = 16
LONGEST_INTERPRETATION = 4000


class _Finding(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        serialize_by_alias=True,
        json_schema_extra=lambda schema: schema.pop("description", None),
    )


class ValueFinding(_Finding):
    """One number as it stands: {"kind": "value", "fact": "key/pass_rate_end"}."""

    kind: Literal["value"]
    fact: Annotated[Id, Field(description="An id from the list of facts.")]


class ChangeFinding(_Finding):
    """How a metric of this run went from one step to a later one: {"kind": "change", "metric":
    "val/task_pass_rate@1", "from": "first", "to": "last"}. Direction and certainty are filled in."""

    kind: Literal["change"]
    metric: Id
    from_: Annotated[Place, Field(alias="from")] = "first"
    to: Place = "last"


class BestFinding(_Finding):
    """The best measurement of a metric, or the best point of a sweep: {"kind": "best", "metric":
    "val/task_pass_rate@1"}."""

    kind: Literal["best"]
    metric: Id


class CompareFinding(_Finding):
    """Two facts of the same measure, or two points of a sweep, side by side: {"kind": "compare", "a":
    "attempt/1/duration", "b": "attempt/2/duration"}."""

    kind: Literal["compare"]
    a: Id
    b: Id


class ContrastFinding(_Finding):
    """In a sweep: a level of a key against its baseline:
    {"kind": "contrast", "key": "lr", "level": 0.001}."""

    kind: Literal["contrast"]
    key: Id
    level: Scalar


class AttemptFinding(_Finding):
    """What an attempt of this run did: {"kind": "attempt", "attempt": 2}; or why it failed, and what was
    changed after it: {"kind": "failure", "attempt": 1}."""

    kind: Literal["attempt", "failure"]
    attempt: Annotated[int, Field(ge=1)]


class RunFinding(_Finding):
    """In a sweep: what came of a run: {"kind": "run", "name": "p02-s1"}."""

    kind: Literal["run"]
    name: Id


Finding = Annotated[
    ValueFinding
    | ChangeFinding
    | BestFinding
    | CompareFinding
    | ContrastFinding
    | AttemptFinding
    | RunFinding,
    Field(discriminator="kind"),
]


class Section(BaseModel):
    """One section as a model writes it and the journal keeps it."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    section: SectionName
    findings: Annotated[
        tuple[Finding, ...],
        Field(
            max_length=MOST_FINDINGS,
            description="In reading order; each becomes a sentence.",
        ),
    ] = ()
    interpretation: Annotated[
        str,
        Field(
            max_length=LONGEST_INTERPRETATION,
            description="What it may mean, in plain text without digits: numbers and names stand as [[id]]; "
            "a line that begins with '- ' is a list item.",
        ),
    ] = ""
    language: Annotated[Language, Field(description="That of the plan.")] = "en"

    @property
    def is_empty(self) -> bool:
        return not self.findings and not self.interpretation.strip()

    def as_json(self) -> dict[str, Any]:
        """The section as the journal keeps it."""
        return self.model_dump(mode="json", include=set(Section.model_fields))
