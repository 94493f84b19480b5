"""The report of a sweep: its plan and its runs as a `Study`, compared, told about, written down.

In: a sweep's folder and state. Out: the documents beside it. Everything is read from the raw files of the
runs each time, so the report can be built again at any moment.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.codec import decode
from harness.errors import UserError
from harness.options import RunOptions
from harness.results.comparing import provenances
from harness.results.comparing.types import PlannedRun, Study
from harness.sweep import snapshot
from harness.sweep.ending import ending
from harness.sweep.events import Drifted, Narrated, SweepReported
from harness.sweep.folder import CANARY, SweepFolder
from harness.sweep.run_files import Progress, run_end
from harness.sweep.state import Sweep, SweepState, load_state
from harness.sweep.status import status

if TYPE_CHECKING:
    from harness.providers.choice import LlmConfig
    from harness.providers.conversation import Account
    from harness.providers.cost import Limits
    from harness.results.comparing.types import Asked, Comparison
    from harness.results.sweeps.report import SweepReport

_log = logging.getLogger(__name__)
_OF_THE_PLAN = (
    *("name", "question", "keys", "points", "design", "threshold", "expectations"),
    "seed_key",
)


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

    assert state.plan is not None
    changed = snapshot.changed(folder) if state.drifted is None else state.drifted
    ended = {run.name: place for run in state.plan.runs if run_end(place := folder.result_dir(run.name))}
    differing = tuple(provenances.surroundings(provenances.records_of(ended)))
    return compare(study(folder.dir, state), changed, asked, differing)


def planned(folder: Path) -> Study | None:
    """The sweep in a folder as something to compare; None where its journal holds no plan."""
    state = load_state(folder)
    return study(folder, state) if state.plan is not None else None


def study(folder: Path, state: SweepState) -> Study:
    """The sweep as something to compare."""
    plan = state.plan
    assert plan is not None
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
    """Write the sweep's documents. `into`: as `results.report.build_report`. Raises OSError when the folder
    cannot be written."""
    from harness.results.sweeps.report import build_sweep_report
    from harness.results.sweeps.tables import SweepAbout

    assert state.plan is not None
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
        plan=state.plan.as_json(),
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
    from harness.providers.conversation import Account
    from harness.sweep.narrating import narrate

    account = Account()
    model = open_model(config, limits, account.record, transcript)
    try:
        return await narrate(compared, model, account), account
    finally:
        await model.close()
