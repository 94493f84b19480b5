"""A sweep as a language model proposes it: its tools, what it may not decide, and what becomes of its words.

In: a `ProposeSweep` call, which anything may stand in, and what the person has fixed. Out: a `SweepSpec`,
with the person's words in the place of the model's; SweepError for the rest. How a model comes to it stands
in `proposing`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.agent.actions import Action, Scalar
from harness.author.calls import ListKeys, Look, Sentence
from harness.config import keys as config_keys
from harness.config.keys import short_names
from harness.guard import science, variables
from harness.results.comparing.types import Goal
from harness.sweep.spec import SweepSpec, spec_from_options
from harness.sweep.types import Design, SweepError, SweepPlan
from harness.sweep.values import as_text, did_you_mean, is_same, kind_of

KeyName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=160,
        description="A config key with all its dots, `arg:--flag` of the launch command, or `env:NAME`.",
    ),
]
_PLACEHOLDER = "proposed=0,1"  # stands for what the model varies while the person's own words are read
_OTHER_CONFIG = {"conf", "config", "cfg", "yaml"}
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9][\w.+-]*(?:/[A-Za-z0-9][\w.+-]*)*", re.ASCII)
_LONGEST_VALUE = 120


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ProposedKey(_Part):
    """One key that is varied."""

    key: KeyName
    values: Annotated[
        list[Scalar], Field(min_length=2, max_length=8, description="The values, the baseline among them.")
    ]
    baseline: Annotated[
        Scalar,
        Field(description="The value that the others are compared with; leave out for the blueprint's own."),
    ] = None


class ExpectedEffect(_Part):
    """What is expected of one value of a key, against the baseline."""

    key: KeyName
    level: Annotated[Scalar, Field(description="One of the key's values other than the baseline.")]
    effect: Annotated[
        Literal["higher", "lower", "none"], Field(description="Of the metric itself, whatever the goal is.")
    ]
    why: Sentence


class ProposeSweep(Action):
    """Propose the sweep that answers the question. It is checked at once; what is wrong comes back to be
    corrected. When nothing is wrong, the person is shown the plan and decides whether it runs."""

    doing: ClassVar[str] = "proposing a sweep"
    kind: Literal["propose_sweep"] = "propose_sweep"
    vary: Annotated[list[ProposedKey], Field(min_length=1, max_length=6)]
    design: Annotated[
        Design,
        Field(
            description="grid: all combinations, which shows how keys act together; one-at-a-time: the "
            "baseline and every other value alone, the cheapest; random: some of a grid that is too large."
        ),
    ]
    samples: Annotated[
        int | None, Field(ge=2, description="Points of a random design; leave out for the others.")
    ] = None
    seeds: Annotated[int, Field(ge=1, le=20, description="Runs per point, each with another seed.")]
    metric: Annotated[
        str, Field(min_length=1, max_length=160, description="What is compared, by its exact name.")
    ]
    goal: Annotated[Goal, Field(description="Which way the metric is better.")]
    set: Annotated[
        dict[str, Scalar],
        Field(
            default_factory=dict,
            max_length=20,
            description="Settings other than the blueprint's, in all points alike.",
        ),
    ]
    expect: Annotated[
        list[ExpectedEffect],
        Field(max_length=42, description="One for every value of every key other than its baseline."),
    ]
    hypothesis: Annotated[
        str, Field(min_length=1, max_length=1200, description="What you think the answer is, and why.")
    ]
    change_mind: Annotated[
        str, Field(min_length=1, max_length=1200, description="Which results would show that you are wrong.")
    ]
    cautions: Annotated[
        list[Sentence],
        Field(
            default_factory=list,
            max_length=8,
            description="What the sweep will not be able to tell, and what to look at.",
        ),
    ]


class Decline(Action):
    """Say that no sweep over this blueprint can answer the question, and what would. Nothing runs then."""

    doing: ClassVar[str] = "declining"
    kind: Literal["decline"] = "decline"
    why: Annotated[str, Field(min_length=1, max_length=1200)]


OFFERED: tuple[type[Action], ...] = (Look, ListKeys, ProposeSweep, Decline)
"""The tools, in the order in which they are told."""


@dataclass(frozen=True)
class Proposal:
    """A sweep that could start as it is, and what was thought when it was made."""

    spec: SweepSpec
    plan: SweepPlan
    hypothesis: str
    change_mind: str
    cautions: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "author": self.plan.author,
            "question": self.plan.question,
            "hypothesis": self.hypothesis,
            "change_mind": self.change_mind,
            "cautions": list(self.cautions),
            "plan": self.plan.as_json(),
        }


def spec_of(call: ProposeSweep, question: str, blueprint: Path, given: Mapping[str, Any]) -> SweepSpec:
    """The sweep that a call means. `given`: options of `spec_from_options` that the person has fixed; they
    hold whatever the model says. Raises SweepError for what is wrong, or not the model's to decide."""
    own = fixed(blueprint, given)
    vary = {_dotted(item.key): _levels(item) for item in call.vary}
    if len(vary) < len(call.vary):
        raise SweepError("a key is varied twice: put all its values into one list")
    settings = {_dotted(key): value for key, value in call.set.items()}
    for item in call.vary:
        _refuse(_dotted(item.key), item.values)
    for key, value in settings.items():
        _refuse(key, [value])
    expect = [{**item.model_dump(), "key": _dotted(item.key)} for item in call.expect]
    made = {
        "blueprint": blueprint,
        "question": question,
        "design": call.design,
        **({"samples": call.samples} if call.samples is not None and call.design == "random" else {}),
        "seeds": call.seeds,
        "metric": call.metric,
        "goal": call.goal,
        "expect": expect,
        **own,
        "vary": {**vary, **own.get("vary", {})},
        "set": {**settings, **own.get("set", {})},
    }
    try:
        spec = SweepSpec.model_validate(made)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        said = (
            f"{'.'.join(map(str, item['loc']))}: {item['msg'].removeprefix('Value error, ')}"
            for item in problems
        )
        raise SweepError("; ".join(list(said)[:6])) from error
    _refuse_without_expectation(spec)
    return spec


def fixed(blueprint: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a `SweepSpec` that the person has given as options. Raises SweepError."""
    varied = list(given.get("vary", ()))
    spec = spec_from_options(blueprint, **{**given, "vary": varied or [_PLACEHOLDER]})
    fields = spec.model_fields_set - {"blueprint", "vary"}
    found = spec.model_dump(include=set(fields))
    if varied:
        found["vary"] = {key: list(levels.values) for key, levels in spec.vary.items()}
    return found


def _dotted(key: str) -> str:
    """A config key written out where a short name of `harness new` was used."""
    return short_names().get(key, key)


def _levels(item: ProposedKey) -> dict[str, Any]:
    stated = {"baseline": item.baseline} if "baseline" in item.model_fields_set else {}
    return {"values": list(item.values), **stated}


def _refuse(key: str, values: Sequence[Scalar]) -> None:
    """Raises SweepError for a key or a value that is not a model's to choose."""
    why = next((why for value in values for why in _reasons(key, value)), None)
    if why is not None:
        raise SweepError(f"{why} (a person can still vary it, in a sweep.yaml)")


def _reasons(key: str, value: Scalar) -> Iterator[str]:
    """Why a model may not give this key this value."""
    kind, name = kind_of(key), key.partition(":")[2] or key
    segments = config_keys.named_segments((name.lstrip("-+"),))
    if segments and segments[-1] in ("seed", "random_seed", "data_seed"):
        yield f"{key} is where the seeds go: leave it out, and say how many with `seeds`"
    if kind == "env":
        why = variables.refuse(name, as_text(value))
        if why is not None:
            yield why
    elif key.startswith("ajet."):
        why = science.refuse_settings({key: value})
        if why is not None:
            yield why
    else:
        yield from _foreign_reasons(key, segments, value)


def _foreign_reasons(key: str, segments: tuple[str, ...], value: Scalar) -> Iterator[str]:
    found = config_keys.meaning(segments, is_ajet=False)
    if found.role == "path" or found.about == config_keys.TRACKER:
        yield f"{key} concerns the {found.about}: only the author sets it; leave it out"
    if set(segments) & _OTHER_CONFIG:
        yield f"{key} names another config: only the author sets it; leave it out"
    if isinstance(value, str) and (len(value) > _LONGEST_VALUE or not _PLAIN_VALUE.fullmatch(value)):
        yield (
            f"the value {value[:80]!r} for {key} is refused: only numbers, switches, names and relative "
            "paths are proposed"
        )


def _refuse_without_expectation(spec: SweepSpec) -> None:
    """Raises SweepError unless all levels but one of each key have an expectation."""
    for key, varied in spec.vary.items():
        expected = [item.level for item in spec.expect if item.key == key]
        silent = [value for value in varied.values if not any(is_same(value, level) for level in expected)]
        if len(silent) > 1:
            raise SweepError(
                f"expect: every value of {key} but its baseline needs one, before anything runs; these have "
                f"none: {', '.join(map(as_text, silent))}"
            )


def check_metric(metric: str, known: tuple[str, ...]) -> None:
    """Raises SweepError for a metric that runs of this blueprint do not have; () : nobody knows which."""
    if known and metric not in known:
        raise SweepError(
            f"metric: earlier runs of this blueprint have no {metric!r}{did_you_mean(metric, known)}; they "
            f"have {', '.join(known[:20])}"
        )
