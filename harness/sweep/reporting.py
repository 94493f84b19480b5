"""The end of a sweep: the report, a language model's words, the outcome, and finish.flag, each found again
after a crash in between.

In: a sweep's folder and state. Out: the documents beside it, its plan and its runs compared as a `Study`, and
a `Verdict`, in the journal and in finish.flag. Everything is read from the raw files of the runs each time,
so the report can be built again at any moment.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import templating
from harness.actions import Action, WriteSections
from harness.codec import decode, encode
from harness.environment import known_secrets
from harness.errors import UserError
from harness.journal.events import Finish
from harness.options import RunOptions
from harness.providers.conversation import LONGEST_TEXT, Account, Answer, framed, talk
from harness.providers.model import Model
from harness.redaction import Secrets
from harness.results.comparing import provenances
from harness.results.comparing.types import Asked, Comparison, PlannedRun, Study
from harness.results.manifest import fingerprints, flag_of
from harness.results.narrative import sections
from harness.results.narrative.evidence import listing
from harness.state import Outcome, Verdict
from harness.sweep import snapshot
from harness.sweep.plan import CANARY, SweepFolder
from harness.sweep.run_files import Progress, run_end
from harness.sweep.state import Drifted, Narrated, RunState, Sweep, SweepReported, SweepState, load_state
from harness.sweep.status import status
from harness.wording import listed

if TYPE_CHECKING:
    from harness.providers.choice import LlmConfig
    from harness.providers.cost import Limits
    from harness.results.sweeps.report import SweepReport

Reporter = Callable[[Sweep], Awaitable[SweepReported]]
"""Builds the report; returns what the journal keeps of it."""

SUCCESSES = ("succeeded", "succeeded_with_changed_code", "stopped_early")
"""Outcomes of a run that did what it was to do."""
MOST_NAMED = 6
MOST_CALLS = 6
_log = logging.getLogger(__name__)
_OF_THE_PLAN = ("name", "question", "keys", "points", "design", "threshold", "expectations", "seed_key")


async def finish(sweep: Sweep, reporter: Reporter | None) -> Verdict:
    """Report, record the end, write finish.flag; returns how the sweep ended."""
    if sweep.state.reported is None and reporter is not None:
        sweep.record(await reporter(sweep))
    if sweep.state.verdict is None:
        judged = verdict(sweep.state)
        sweep.record(Finish(judged.outcome, judged.reason))
    seal(sweep)
    assert sweep.state.verdict is not None
    return sweep.state.verdict


def verdict(state: SweepState) -> Verdict:
    """How a sweep ended whose runs are all over: `succeeded` only when every planned run did."""
    runs = state.compared
    unusable = tuple(run for run in runs if run.outcome not in SUCCESSES)
    if state.stop_asked:
        return Verdict(Outcome.CANCELLED, f"stopped by {state.stop_asked}; {_tally(runs)}")
    if not unusable and not state.closing:
        return Verdict(Outcome.SUCCEEDED, _tally(runs))
    is_out_of_time = all(
        run.outcome == "timed_out" or (run.status == "not_run" and state.is_out_of_budget) for run in unusable
    )
    outcome = Outcome.TIMED_OUT if is_out_of_time else Outcome.FAILED
    reason = f"{state.closing}; {_tally(runs)}" if state.closing else _tally(runs)
    failed = [run.name for run in unusable if run.status == "ended"]
    return Verdict(outcome, f"{reason} ({listed(failed, MOST_NAMED)})" if failed else reason)


def ending(state: SweepState) -> tuple[str, str]:
    """Outcome and reason as a report has them; "" and where it stands while runs are still to end."""
    if state.verdict is None and (state.of("queued") or state.of("running")):
        running = len(state.of("running"))
        return "", f"not finished ({state.phase}): {_tally(state.compared)}, {running} running"
    judged = state.verdict or verdict(state)
    return judged.outcome.value, judged.reason


def seal(sweep: Sweep) -> None:
    """Write finish.flag, the last file of a finished sweep, unless it is there."""
    folder, state = sweep.folder, sweep.state
    if folder.finish_flag.exists():
        return
    own = [folder.blueprint, folder.spec, folder.plan, folder.journal, folder.proposal, folder.transcript]
    shared = [*sorted(folder.snapshot.glob("*.json")), *sorted(folder.dir.glob("plan/*/*"))]
    shared += sorted(folder.dir.glob("next/*"))
    ends = [folder.result_dir(name) / "finish.flag" for name in state.runs]
    manifest = fingerprints(folder.dir, [*own, *shared, *ends])
    sweep.write_finish_flag({**sweep_flag(state, known_secrets(folder.dir)), "manifest": manifest})


def sweep_flag(state: SweepState, known: Secrets) -> dict[str, Any]:
    """What finish.flag says of a sweep that has ended, its manifest left out."""
    runs = {run.name: run.outcome or run.status for run in state.compared}
    return flag_of(state, known, sweep_id=state.sweep_id, runs=runs)


def _tally(runs: tuple[RunState, ...]) -> str:
    """Such as `34 of 36 runs succeeded, 1 failed, 1 not run`."""
    counts = Counter(run.outcome or "not_run" for run in runs if run.status in ("ended", "not_run"))
    succeeded = f"{counts.pop('succeeded', 0)} of {len(runs)} runs succeeded"
    return ", ".join([succeeded, *(f"{n} {outcome.replace('_', ' ')}" for outcome, n in counts.items())])


# --- the report ---------------------------------------------------------------------------------------------


async def report(sweep: Sweep) -> SweepReported:
    """Compare, build the report, and let a model add to it where one is configured; what the journal keeps.

    A report can be built again, so what fails is recorded; only a full disk is raised: once there is room,
    resuming builds it."""
    try:
        if sweep.state.drifted is None:  # what happens to the code and the packages later is no confound
            sweep.record(Drifted(tuple(await asyncio.to_thread(snapshot.changed, sweep.folder))))
        compared = await asyncio.to_thread(comparison, sweep.folder, sweep.state)
        await asyncio.to_thread(_propose_next, sweep.folder, compared)
        built = await asyncio.to_thread(build, sweep.folder, sweep.state, compared)
        if not sweep.state.narrative and (sections := await _narrative(sweep, compared)):
            sweep.record(Narrated(sections))
            built = await asyncio.to_thread(build, sweep.folder, sweep.state, compared)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        _log.warning("the report could not be built", exc_info=True)
        return SweepReported(error=f"{type(error).__name__}: {error}")
    return SweepReported(tuple(built.headline))


def comparison(folder: SweepFolder, state: SweepState, asked: Asked | None = None) -> Comparison:
    """What the runs of the sweep came to, compared; `asked` as in `results.compare.compare`."""
    from harness.results.compare import compare

    changed = snapshot.changed(folder) if state.drifted is None else state.drifted
    ended = {run.name: place for run in state.plan.runs if run_end(place := folder.result_dir(run.name))}
    differing = tuple(provenances.surroundings(provenances.records_of(ended)))
    return compare(study(folder.dir, state), changed, asked, differing)


def planned(folder: Path) -> Study | None:
    """The sweep in a folder as something to compare; None where its journal holds no plan."""
    state = load_state(folder)
    return study(folder, state) if state.plan.runs else None


def study(folder: Path, state: SweepState) -> Study:
    """The sweep as something to compare."""
    plan = state.plan
    return Study(
        **{name: getattr(plan, name) for name in _OF_THE_PLAN},
        metric=state.metric,
        metric_why=state.metric_why,
        goal=state.goal,
        runs=tuple(PlannedRun(run.name, run.point, run.seed, folder / run.name) for run in plan.runs),
        cost_units=float(plan.needs.gpus or 1),
        cost_unit="GPU" if plan.needs.gpus else "run",
        not_run={
            name: run.reason or run.status
            for name, run in state.runs.items()
            if name != CANARY and (run.status == "not_run" or run.outcome in ("lost", "cannot_run"))
        },
    )


def build(
    folder: SweepFolder, state: SweepState, compared: Comparison | None = None, into: Path | None = None
) -> SweepReport:
    """Write the sweep's documents; `into`: as `results.report.build_report`. Raises OSError."""
    from harness.results.sweeps.report import build_sweep_report
    from harness.results.sweeps.tables import SweepAbout

    outcome, reason = ending(state)
    git, canary = snapshot.load(folder).git, state.runs.get(CANARY)
    went = "none of its own: the first run went ahead until its first step"
    if canary is not None:
        went = f"{canary.outcome}: {canary.reason}" if canary.outcome else canary.status
    options = decode(RunOptions, state.plan.options)
    is_written = options.policy != "llm" or state.narrative
    how = f"words of the language model are missing; `harness narrate {state.sweep_id}` adds them"
    about = SweepAbout(
        outcome=outcome,
        reason=reason,
        started=state.created_at,
        ended=max((run.ended_at for run in state.runs.values() if run.ended_at is not None), default=None),
        canary=went,
        model=options.model or "",
        no_words="" if is_written else how,
        commit=f"{git['commit']}{' with uncommitted changes' if git.get('dirty') else ''}" if git else "",
        plan=encode(state.plan),
        to_answer=tuple(status(state, 0.0, lambda run: Progress()).to_answer_in_short(str(folder.dir))),
    )
    compared = compared or comparison(folder, state)
    return build_sweep_report(folder.dir, compared, about, state.narrative, into)


def _propose_next(folder: SweepFolder, compared: Comparison) -> None:
    """Write the sweep that would decide what this one left open; without it only the proposal is missing."""
    from harness.sweep.next_experiment import of_sweep

    try:
        of_sweep(compared, folder)
    except UserError as error:
        _log.warning("no experiment is proposed: %s", error)


async def _narrative(sweep: Sweep, compared: Comparison) -> Mapping[str, Any]:
    """What a configured model writes about the results; {} without one, or when it cannot be asked."""
    options = decode(RunOptions, sweep.plan.options)
    if options.policy != "llm":
        return {}
    from harness.providers.choice import configured, limits_of
    from harness.providers.settings import ConfigurationError

    try:
        config = configured(options.model, Path(options.settings_dir or Path.cwd()), os.environ)
    except ConfigurationError as error:
        _log.warning("no model writes about the results: %s", error)
        return {}
    if config is None:
        return {}
    limits = limits_of(options, config)
    return (await narrated(compared, config, limits, sweep.folder.transcript))[0]


async def narrated(
    compared: Comparison, config: LlmConfig, limits: Limits, transcript: Path
) -> tuple[Mapping[str, Any], Account]:
    """What a model has to say about the results, section by section, and what that took."""
    from harness.providers.choice import open_model

    account = Account()
    model = open_model(config, limits, account.record, transcript)
    try:
        return await narrate(compared, model, account), account
    finally:
        await model.close()


async def narrate(comparison: Comparison, model: Model, account: Account) -> Mapping[str, Any]:
    """What a careful colleague would add to the numbers: the sections by name, as
    `results.narrative.sections.tell` takes them, {} where there are none. A draft that holds what cannot be
    cited goes back to the model, at most MAX_REFUSALS times; then what can stand of it is kept."""
    errand = _Narrating(comparison)
    await talk(errand, model, account, asyncio.Event())
    return errand.written


class _Narrating:
    """The errand of writing the sections. `written`: what can stand of the newest draft."""

    handover = "write_sections"
    most_calls = MOST_CALLS

    def __init__(self, comparison: Comparison) -> None:
        from harness.results.narrative.sweep import SweepEvidence

        self._comparison = comparison
        self._evidence = SweepEvidence(comparison)
        self._refusals = 0
        self.written: dict[str, Any] = {}
        self.is_done = False

    @property
    def offered(self) -> Sequence[type[Action]]:
        return (WriteSections,)

    def system(self) -> str:
        return templating.render("prompts/sweep_narrate.md.j2")

    def opening(self) -> str:
        due = (self._evidence.resolve(finding) for finding in self._evidence.due)
        return templating.render(
            "prompts/sweep_results.md.j2",
            question=framed(self._comparison.study.question),
            metric=self._comparison.metric,
            facts=framed(listing(self._evidence)),
            added=[framed(sections.worded(item, "en")) for item in (*due, *self._evidence.cautions)],
        )

    def carry_out(self, call: Action) -> Answer:
        assert isinstance(call, WriteSections)
        self.written = sections.published(call.sections, self._evidence)["written"]
        fault = sections.refusal(call.sections, self._evidence)
        if fault is None or self._refusals == sections.MAX_REFUSALS:
            self.is_done = True
            return Answer("kept")
        self._refusals += 1
        return Answer(fault[:LONGEST_TEXT], is_error=True)
