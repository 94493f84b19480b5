"""The report of a sweep: its plan and its runs as a `Study`, compared, told about, written down.

In: a sweep's folder and state. Out: the documents beside it. Everything is read from the raw files of the
runs each time, so the report can be built again at any moment.
"""

import asyncio
import errno
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.codec import decode
from harness.options import RunOptions
from harness.results.comparing.types import PlannedRun, Study
from harness.sweep import confounds, snapshot
from harness.sweep.ending import ending
from harness.sweep.events import Drifted, Narrated, SweepReported
from harness.sweep.folder import CANARY, SweepFolder
from harness.sweep.state import SweepState
from harness.sweep.sweep import Sweep, load_state

if TYPE_CHECKING:
    from harness.results.comparing.types import Comparison, Goal
    from harness.results.sweeps.report import SweepReport

_log = logging.getLogger(__name__)


async def report(sweep: Sweep) -> SweepReported:
    """Compare, let a model write where one is configured, and build the report; what the journal keeps of it.

    A report can be built again, so what fails is recorded; only a full disk is raised: once there is room,
    resuming builds it."""
    try:
        if sweep.state.drifted is None:  # what happens to the code and the packages later is no confound
            sweep.record(Drifted(tuple(await asyncio.to_thread(snapshot.changed, sweep.folder))))
        compared = await asyncio.to_thread(comparison, sweep.folder, sweep.state)
        if not sweep.state.narrative:
            sections = await _narrative(sweep, compared)
            if sections:
                sweep.record(Narrated(sections))
        built = await asyncio.to_thread(build, sweep.folder, sweep.state, compared)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        _log.warning("the report could not be built", exc_info=True)
        return SweepReported(error=f"{type(error).__name__}: {error}")
    return SweepReported(tuple(built.headline))


def comparison(
    folder: SweepFolder,
    state: SweepState,
    metric: str = "",
    goal: "Goal | None" = None,
    threshold: float | None = None,
) -> "Comparison":
    """What the runs of the sweep came to, compared. `metric`, `goal`, `threshold`: in place of the plan's."""
    from harness.results.compare import compare
    from harness.results.comparing.recorded import as_asked

    assert state.plan is not None
    changed = snapshot.changed(folder) if state.drifted is None else state.drifted
    found = (*confounds.afterwards(state.plan, folder), *changed)
    return compare(as_asked(study(folder.dir, state), metric, goal, threshold), found)


def planned(folder: Path) -> Study | None:
    """The sweep in a folder as something to compare; None where its journal holds no plan."""
    state = load_state(folder)
    return study(folder, state) if state.plan is not None else None


def study(folder: Path, state: SweepState) -> Study:
    """The sweep as something to compare."""
    plan = state.plan
    assert plan is not None
    per_run = float(plan.needs.gpus or 1)
    return Study(
        name=plan.name,
        question=plan.question,
        keys=plan.keys,
        points=plan.points,
        runs=tuple(PlannedRun(run.name, run.point, run.seed, folder / run.name) for run in plan.runs),
        metric=plan.metric,
        goal=plan.goal,
        design=plan.design,
        threshold=plan.threshold,
        cost_units=per_run,
        cost_unit="GPU" if plan.needs.gpus else "run",
        expectations=plan.expectations,
        seed_key=plan.seed_key,
        not_run={
            name: run.reason or run.status
            for name, run in state.runs.items()
            if run.status == "not_run" or run.outcome in ("lost", "cannot_run")
        },
    )


def build(
    folder: SweepFolder, state: SweepState, compared: "Comparison | None" = None, into: Path | None = None
) -> "SweepReport":
    """Write the sweep's documents. `into`: as `results.report.build_report`. Raises OSError when the folder
    cannot be written."""
    from harness.results.sweeps.report import build_sweep_report
    from harness.results.sweeps.tables import SweepAbout

    plan = state.plan
    assert plan is not None
    outcome, reason = ending(state)
    options = decode(RunOptions, plan.options)
    about = SweepAbout(
        name=plan.name,
        outcome=outcome,
        reason=reason,
        started=state.created_at,
        ended=max((run.ended_at for run in state.runs.values() if run.ended_at is not None), default=None),
        parallel=plan.parallel,
        budget_s=plan.budget_s,
        canary=_canary(state),
        author=plan.author,
        model=options.model or "",
        commit=_commit(folder),
        settings=plan.settings,
    )
    compared = compared or comparison(folder, state)
    return build_sweep_report(folder.dir, compared, about, plan.as_json(), state.narrative, into)


def _commit(folder: SweepFolder) -> str:
    """The commit the snapshot was taken from, and whether there were changes beside it; "" without git."""
    git = snapshot.load(folder).git
    return f"{git['commit']}{' with uncommitted changes' if git.get('dirty') else ''}" if git else ""


def _canary(state: SweepState) -> str:
    canary = state.runs.get(CANARY)
    if canary is None:
        return "none of its own: the first run went ahead until its first step"
    return f"{canary.outcome}: {canary.reason}" if canary.outcome else canary.status


async def _narrative(sweep: Sweep, compared: "Comparison") -> Mapping[str, Any]:
    """What a configured model writes about the results; {} without one, or when it cannot be asked."""
    options = decode(RunOptions, sweep.plan.options)
    if options.policy != "llm":
        return {}
    from harness.agent.policies import limits_of
    from harness.providers.choice import configured, open_model
    from harness.providers.conversation import Account
    from harness.providers.settings import ConfigurationError
    from harness.sweep.narrating import narrate

    try:
        config = configured(options.model, Path(options.settings_dir or Path.cwd()), os.environ)
    except ConfigurationError as error:
        _log.warning("no model writes about the results: %s", error)
        return {}
    if config is None:
        return {}
    account = Account()
    model = open_model(config, limits_of(options, config), account.record, sweep.folder.transcript)
    try:
        return await narrate(compared, model, account)
    finally:
        await model.close()
