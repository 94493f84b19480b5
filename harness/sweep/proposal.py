"""A language model proposes a sweep for a question, before anything runs.

In: the question, a blueprint, a model, and what the person has fixed. Out: `Proposed`: a sweep that was
checked as one of a person's would be, or why there is none. What the model fills in is the schema of
`sweep.yaml` itself, as far as it is a model's to decide. It sees the blueprint, its config with secrets
masked, what earlier runs measured, the limits, and how small a difference so many seeds can find; all of it
is data to it. Nothing is written, and nothing runs.
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar

from pydantic import Field

from harness import templating
from harness.actions import Action
from harness.agent import excerpts
from harness.agent.excerpts import NotShownError
from harness.agent.trainer_keys import TrainerKeys
from harness.author.calls import ListKeys, Look, Sentence
from harness.author.lookups import look
from harness.blueprint import Blueprint
from harness.codec import encode
from harness.command.launch_command import bare
from harness.config import as_text, keys, same_value
from harness.config.edit import Scalar
from harness.earlier_runs import Estimate, known_metrics
from harness.errors import UserError
from harness.guard import science, variables
from harness.providers.conversation import LONGEST_TEXT, Account, Answer, Ended, framed, talk
from harness.providers.model import Model
from harness.sweep.design import detectable
from harness.sweep.plan import SweepError, SweepPlan
from harness.sweep.points import config_text
from harness.sweep.spec import Ablation, SweepSpec, kind_of
from harness.sweep.spec_text import checked
from harness.wording import did_you_mean

MOST_RUNS = 60
LONGEST_BLUEPRINT = 12_000
LONGEST_CONFIG = 16_000
_SEEDS = (2, 3, 4, 5, 8, 12)
_MOST_PROBLEMS = 6
_ASKED_FOR = ("seeds", "metric", "design", "goal")
_SEED_NAMES = ("seed", "random_seed", "data_seed")
_OTHER_CONFIG = {"conf", "config", "cfg", "yaml"}
_PLAIN_VALUE = re.compile(r"(?=.{1,120}$)[A-Za-z0-9][\w.+-]*(?:/[A-Za-z0-9][\w.+-]*)*", re.ASCII)
_Paragraph = Annotated[str, Field(min_length=1, max_length=1200)]


class ProposeSweep(Action, kind="propose_sweep"):
    """Propose the sweep that answers the question. It is checked at once; what is wrong comes back to be
    corrected. When nothing is wrong, the person is shown the plan and decides whether it runs."""

    doing: ClassVar[str] = "proposing a sweep"
    sweep: Annotated[
        Ablation,
        Field(
            description="The sweep. Give vary, design, seeds (with seed_key for a command without "
            "config), metric, goal, and in expect one {key, level, effect, why} for every value of every "
            "key but its baseline."
        ),
    ]
    hypothesis: Annotated[_Paragraph, Field(description="What you think the answer is, and why.")]
    change_mind: Annotated[_Paragraph, Field(description="Which results would show that you are wrong.")]
    cautions: Annotated[
        list[Sentence],
        Field(
            default_factory=list,
            max_length=8,
            description="What the sweep will not be able to tell, and what to look at.",
        ),
    ]


class Decline(Action, kind="decline"):
    """Say that no sweep over this blueprint can answer the question, and what would. Nothing runs then."""

    doing: ClassVar[str] = "declining"
    why: _Paragraph


@dataclass(frozen=True)
class Proposal:
    """A sweep that could start as it is, and what was thought when it was made."""

    spec: SweepSpec
    plan: SweepPlan
    hypothesis: str
    change_mind: str
    cautions: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        words = {name: getattr(self, name) for name in ("hypothesis", "change_mind", "cautions")}
        plan = self.plan
        return {"author": plan.author, "question": plan.question, **words, "plan": encode(plan)}


@dataclass
class Proposing:
    """The errand of proposing a sweep that answers a question.

    `planned`: makes the plan of a spec and checks it, raises SweepError; `author`: the model's name, for the
    plan; `given`: fields of `SweepSpec` that the person has fixed, which hold whatever the model says;
    `takes`: what one run takes, None if unknown; `most_runs`: of all points and seeds together.
    """

    question: str
    blueprint: Blueprint
    planned: Callable[[SweepSpec], SweepPlan]
    author: str
    given: Mapping[str, Any] = field(default_factory=dict)
    takes: Estimate | None = None
    most_runs: int = MOST_RUNS
    proposal: Proposal | None = None
    declined: str = ""
    handover: str = "decline"
    most_calls: int = 15
    offered: Sequence[type[Action]] = (Look, ListKeys, ProposeSweep, Decline)

    async def propose(
        self,
        model: Model,
        account: Account,
        interrupted: asyncio.Event,
        say: Callable[[str], None] = lambda line: None,
    ) -> Ended:
        """Let the model propose; `proposal` is what came of it, or the end's trouble says why there is none.
        Raises SweepError for what is wrong in `given`, and for a config that cannot be read."""
        checked({"vary": {"any": [0, 1]}, **self.given, "blueprint": self.blueprint.path})  # before a call
        ended = await talk(self, model, account, interrupted, say)
        if self.declined:
            return Ended(f"the model declined: {self.declined}")
        return ended

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        return known_metrics(self.blueprint)

    @property
    def is_done(self) -> bool:
        return self.proposal is not None or bool(self.declined)

    def system(self) -> str:
        return templating.render("prompts/sweep_propose.md.j2")

    def opening(self) -> str:
        blueprint, config = self.blueprint, config_text(self.blueprint)
        return templating.render(
            "prompts/sweep_question.md.j2",
            question=framed(self.question),
            given={name: framed(str(value)) for name, value in self.given.items()},
            blueprint=_shown(blueprint.path.read_text(encoding="utf-8", errors="replace"), LONGEST_BLUEPRINT),
            config=None if config is None else _shown(config, LONGEST_CONFIG),
            protected=blueprint.protected_keys,
            metrics=[framed(name) for name in self.metrics],
            most_runs=self.most_runs,
            takes=None if self.takes is None else self.takes.in_words,
            most_minutes=blueprint.max_time_s / 60,
            power={seeds: detectable(seeds, 1) for seeds in _SEEDS},
        )

    def carry_out(self, call: Action) -> Answer:
        try:
            return Answer(self._answer(call)[:LONGEST_TEXT])
        except (UserError, NotShownError) as error:
            return Answer(str(error)[:LONGEST_TEXT], is_error=True)

    def _answer(self, call: Action) -> str:
        if isinstance(call, Look):
            return look(call.path, call.lines, self.blueprint.codebase_dir)
        if isinstance(call, ListKeys):
            return TrainerKeys.ask().search(call.words)
        if isinstance(call, Decline):
            self.declined = _line(call.why)
            return "declined"
        assert isinstance(call, ProposeSweep)
        spec = self._spec(call.sweep)
        plan = replace(self.planned(spec), author=self.author)
        if len(plan.runs) > self.most_runs:
            raise SweepError(
                f"{len(plan.points)} points x {len(plan.runs) // len(plan.points)} seeds = {len(plan.runs)} "
                f"runs, and at most {self.most_runs} may run: take fewer values, fewer seeds, or the "
                "design one-at-a-time"
            )
        cautions = tuple(map(_line, call.cautions))
        self.proposal = Proposal(spec, plan, _line(call.hypothesis), _line(call.change_mind), cautions)
        return "accepted; the person decides"

    def _spec(self, proposed: Ablation) -> SweepSpec:
        """The sweep that the model means, with the person's own words in the place of the model's. Raises
        SweepError for what is wrong, or not the model's to decide."""
        given = self.given
        if silent := [name for name in _ASKED_FOR if name not in {*proposed.model_fields_set, *given}]:
            raise SweepError(f"sweep: {', '.join(silent)} must be said")
        vary = {key: varied.values for key, varied in proposed.vary.items()}
        if refused := refusals(vary, proposed.set, "" if "seed_key" in given else proposed.seed_key):
            raise SweepError(f"{'; '.join(refused[:_MOST_PROBLEMS])} (a person can still vary it)")
        own = proposed.model_dump(exclude_unset=True)
        both = {name: {**own.get(name, {}), **given.get(name, {})} for name in ("vary", "set")}
        spec = checked({**own, **given, **both, "blueprint": self.blueprint.path, "question": self.question})
        if self.metrics and spec.metric not in self.metrics:
            raise SweepError(
                f"metric: earlier runs of this blueprint have no {spec.metric!r}"
                f"{did_you_mean(spec.metric, self.metrics)}; they have {', '.join(self.metrics[:20])}"
            )
        for key, varied in spec.vary.items():
            levels = [item.level for item in spec.expect if item.key == key]
            unsaid = [value for value in varied.values if not any(same_value(value, one) for one in levels)]
            if len(unsaid) > 1:
                raise SweepError(
                    f"expect: every value of {key} but its baseline needs one, before anything runs; these "
                    f"have none: {', '.join(map(as_text, unsaid))}"
                )
        return spec


def refusals(
    vary: Mapping[str, Sequence[Scalar]], settings: Mapping[str, Scalar], seed_key: str | None
) -> list[str]:
    """Why a model may not decide these, each reason once."""
    given = [*((key, value) for key, values in vary.items() for value in values), *settings.items()]
    found = [refusal(*each) for each in given] + [seed_refusal(seed_key) if seed_key else None]
    return list(dict.fromkeys(filter(None, found)))


def refusal(key: str, value: Scalar) -> str | None:
    """Why a model may not give this key this value, or None."""
    name = bare(key).lstrip("-+")
    segments = keys.named_segments((name,))
    if segments and segments[-1] in _SEED_NAMES:
        return f"{key} is where the seeds go: leave it out, and say how many with `seeds`"
    if kind_of(key) == "env":
        return variables.refuse(name, as_text(value))
    if key.startswith("ajet."):
        return science.refuse_settings({key: value})
    found = keys.meaning(segments, is_ajet=False)
    if found.role == "path" or found.about == keys.TRACKER or set(segments) & _OTHER_CONFIG:
        return f"{key} names files, addresses or another config: only the author sets it; leave it out"
    if isinstance(value, str) and not _PLAIN_VALUE.fullmatch(value):
        return f"{value[:80]!r} for {key} is refused: only numbers, switches, names and relative paths"
    return None


def seed_refusal(key: str) -> str | None:
    """Why a model may not call this key the seed, or None: named otherwise, it would be varied unseen."""
    last = keys.last_name((bare(key).lstrip("-+"),))
    is_seed = any(word.endswith("seed") for word in last.split("_"))
    if not is_seed or (kind_of(key) == "env" and variables.refuse(bare(key), "0")):
        return f"seed_key: {key} is not named as a seed, so only a person says that it is one"
    return None


def _line(text: str) -> str:
    """A model's words as one line that does nothing but print."""
    return excerpts.plain(" ".join(text.split()))


def _shown(text: str, longest: int) -> str:
    """A file as the model sees it: secrets masked, cut to its beginning where it is too long."""
    lines = "\n".join(excerpts.of_text(text))
    return framed(lines if len(lines) <= longest else f"{lines[:longest]}\n… cut")
