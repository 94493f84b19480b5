"""A language model proposes a sweep for a question, before anything runs.

In: the question, a blueprint, a model, and what the person has fixed. Out: `Proposed`: a sweep that was
checked as one of a person's would be, or why there is none. The model sees the blueprint, its config with
secrets masked, what earlier runs took and measured, the limits, and how small a difference so many seeds can
find; all of it is data to it. Nothing is written, and nothing runs.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from harness import index, journal, templating
from harness.agent import excerpts
from harness.agent.actions import Action
from harness.author.calls import ListKeys, Look
from harness.author.file_view import NotShownError, look
from harness.author.trainer_keys import NoKeysError, TrainerKeys
from harness.providers.conversation import LONGEST_TEXT, Account, Answer, Asked, framed, talk
from harness.sweep.forecast import forecast
from harness.sweep.proposal import (
    OFFERED,
    Decline,
    Proposal,
    ProposeSweep,
    check_metric,
    fixed,
    spec_of,
)
from harness.sweep.types import SweepError, SweepPlan
from harness.sweep.varying.current_values import config_text

if TYPE_CHECKING:
    from harness.blueprint import Blueprint
    from harness.sweep.spec import SweepSpec

MOST_CALLS = 15
MOST_RUNS = 60
LONGEST_BLUEPRINT = 12_000
LONGEST_CONFIG = 16_000
_SEEDS = (2, 3, 4, 5, 8, 12)


@dataclass(frozen=True)
class Bounds:
    """What a proposal has to keep to. `given`: options of `harness sweep` that the person has fixed, as
    `spec_from_options` takes them; `most_runs`: of all points and seeds together; `run_s`: what one run
    takes, None if unknown."""

    given: Mapping[str, Any] = field(default_factory=dict)
    most_runs: int = MOST_RUNS
    run_s: float | None = None


@dataclass(frozen=True)
class Proposed:
    """What came of it. `trouble`: why there is no proposal, "" when there is one."""

    proposal: Proposal | None = None
    trouble: str = ""
    interrupted: bool = False


async def propose(
    question: str,
    blueprint: Blueprint,
    model: Asked,
    account: Account,
    planned: Callable[[SweepSpec], SweepPlan],
    author: str,
    bounds: Bounds | None = None,
    interrupted: asyncio.Event | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Proposed:
    """Let a model propose a sweep. `planned`: makes the plan of a spec and checks it, raises SweepError;
    `author`: the model's name, for the plan.

    Raises SweepError for what is wrong in `bounds.given`, and for a config that cannot be read.
    """
    bounds = bounds or Bounds()
    fixed(blueprint.path, bounds.given)  # what is wrong in it is said before a call is paid
    errand = _Proposing(question, blueprint, planned, author, bounds)
    ended = await talk(errand, model, account, interrupted or asyncio.Event(), say)
    if errand.declined:
        return Proposed(trouble=f"the model declined: {errand.declined}")
    return Proposed(errand.proposal, ended.trouble, ended.interrupted)


def known_metrics(blueprint: Blueprint) -> tuple[str, ...]:
    """The metrics of the newest run of this blueprint file that has a report; () without one."""
    for run in reversed(index.runs()):
        try:
            if run.name != blueprint.name or index.load_state(run.dir).plan.get("path") != str(
                blueprint.path
            ):
                continue
            facts = json.loads((run.dir / "result.json").read_bytes())["facts"]
            names = [_metric(str(fact["id"])) for fact in facts]
        except (journal.JournalDamagedError, OSError, ValueError, LookupError, TypeError):
            continue
        found = tuple(dict.fromkeys(excerpts.plain(name) for name in names if name))
        if found:
            return found
    return ()


def _metric(fact: str) -> str:
    """`val/40/task_pass_rate@1` → `val/task_pass_rate@1`, `metric/critic/rewards/mean/last` →
    `critic/rewards/mean`; "" for other facts."""
    kind, _, rest = fact.partition("/")
    if kind == "val":
        return f"val/{rest.partition('/')[2]}" if "/" in rest else ""
    return rest.removesuffix("/last") if kind == "metric" and rest.endswith("/last") else ""


class _Proposing:
    """The errand of proposing a sweep."""

    handover = "decline"
    most_calls = MOST_CALLS

    def __init__(
        self,
        question: str,
        blueprint: Blueprint,
        planned: Callable[[SweepSpec], SweepPlan],
        author: str,
        bounds: Bounds,
    ) -> None:
        self._question, self._blueprint, self._planned = question, blueprint, planned
        self._author, self._bounds = author, bounds
        self._metrics = known_metrics(blueprint)
        self.proposal: Proposal | None = None
        self.declined = ""

    @property
    def offered(self) -> Sequence[type[Action]]:
        return OFFERED

    @property
    def is_done(self) -> bool:
        return self.proposal is not None or bool(self.declined)

    def system(self) -> str:
        return templating.render("prompts/sweep_propose.md.j2")

    def opening(self) -> str:
        blueprint = self._blueprint
        config = config_text(blueprint)
        return templating.render(
            "prompts/sweep_question.md.j2",
            question=framed(self._question),
            given={name: framed(str(value)) for name, value in self._bounds.given.items()},
            blueprint=_shown(blueprint.path.read_text(encoding="utf-8", errors="replace"), LONGEST_BLUEPRINT),
            config=None if config is None else _shown(config, LONGEST_CONFIG),
            protected=blueprint.protected_keys,
            metrics=[framed(name) for name in self._metrics],
            most_runs=self._bounds.most_runs,
            run_minutes=None if self._bounds.run_s is None else self._bounds.run_s / 60,
            most_minutes=blueprint.max_time_s / 60,
            power=detectable_by_seeds(),
        )

    def carry_out(self, call: Action) -> Answer:
        try:
            return Answer(self._answer(call)[:LONGEST_TEXT])
        except (SweepError, NotShownError, NoKeysError) as error:
            return Answer(str(error)[:LONGEST_TEXT], is_error=True)

    def _answer(self, call: Action) -> str:
        if isinstance(call, Look):
            return look(call.path, call.lines, self._blueprint.codebase_dir)
        if isinstance(call, ListKeys):
            return TrainerKeys.ask().search(call.words)
        if isinstance(call, Decline):
            self.declined = _line(call.why)
            return "declined"
        assert isinstance(call, ProposeSweep)
        self.proposal = self._checked(call)
        return "accepted; the person decides"

    def _checked(self, call: ProposeSweep) -> Proposal:
        """The proposal, which could start as it is. Raises SweepError."""
        spec = spec_of(call, self._question, self._blueprint.path, self._bounds.given)
        check_metric(spec.metric, self._metrics)
        plan = self._planned(spec)
        if len(plan.runs) > self._bounds.most_runs:
            counted = f"{len(plan.points)} points x {len(plan.runs) // len(plan.points)} seeds"
            raise SweepError(
                f"{counted} = {len(plan.runs)} runs, and at most {self._bounds.most_runs} may run: take "
                "fewer values, fewer seeds, or the design one-at-a-time"
            )
        seen = forecast(plan, self._bounds.run_s, self._blueprint.max_time_s)
        if self._bounds.run_s is not None and seen.fits_budget is False:
            raise SweepError(
                f"the budget is enough for {seen.within_budget} of the {seen.runs} runs, by what earlier "
                "runs took: propose fewer"
            )
        return Proposal(
            spec=spec,
            plan=replace(plan, author=self._author),
            hypothesis=_line(call.hypothesis),
            change_mind=_line(call.change_mind),
            cautions=tuple(_line(text) for text in call.cautions),
        )


def detectable_by_seeds() -> dict[int, float]:
    """Seeds per point to the standard deviations between seeds by which two points must differ to be found
    with 80 % power."""
    from harness.results.stats import needed_ratio

    return {seeds: needed_ratio(2 * seeds - 2) * math.sqrt(2 / seeds) for seeds in _SEEDS}


def _line(text: str) -> str:
    """A model's words as one line that does nothing but print."""
    return excerpts.plain(" ".join(text.split()))


def _shown(text: str, longest: int) -> str:
    """A file as the model sees it: secrets masked, cut to its beginning where it is too long."""
    lines = "\n".join(excerpts.of_text(text))
    return framed(lines if len(lines) <= longest else f"{lines[:longest]}\n… cut")
