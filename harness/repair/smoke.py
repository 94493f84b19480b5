"""A smoke run: the real command, with what is prepared for the next launch, for a moment.

In: the experiment, how many steps or seconds. Out: `SmokeRan`. It runs in a session and a folder of its own
(`smoke/NN`), supervised like any attempt, which ends it by itself should the harness die. It is no attempt,
and none of its numbers is a result.
"""

import asyncio
from dataclasses import replace

from harness import launching
from harness.config.training import TrainingConfig
from harness.environment import known_secrets
from harness.experiment import Experiment
from harness.journal.events import SmokeRan
from harness.pending_changes import PendingChanges
from harness.redaction import redact
from harness.repair import apply_changes
from monitors.files import AttemptFiles
from monitors.launch import kill_leftovers, launch, stop
from monitors.logs import last_useful_lines
from monitors.processes import uptime
from monitors.rules import MetricSource, WatchRules
from monitors.tmux import Session, session_name
from monitors.watch import Watch

LOOK_EVERY_S = 0.25
SHELL_PATIENCE_S = 60.0
SHOWN_LINES = 15


async def run(experiment: Experiment, steps: int, seconds: float) -> SmokeRan:
    """Run until there are rows of so many steps, the time is over or the command ends. Can be repeated after
    a kill: what runs is gone on with. Raises PatchError where the corrected code cannot be run."""
    number = experiment.state.smoke_runs + 1
    files = AttemptFiles(experiment.dir / "smoke" / f"{number:02d}")
    request = await asyncio.to_thread(_request, experiment, number, seconds)
    if files.state() == "not_started":
        spec = launching.launch_spec(experiment.blueprint, files, request)
        await asyncio.to_thread(launch, spec)
    is_ajet = TrainingConfig.of_attempt(files.config).is_ajet
    source = MetricSource.TRAINER if is_ajet else MetricSource.CONSOLE
    metrics = experiment.blueprint.metrics
    rules = WatchRules(patterns=metrics.of_lines()) if metrics is not None else WatchRules()
    watch = Watch(files, source, rules, experiment.clock)
    try:
        await _until_seen(files, watch, steps, uptime() + seconds + SHELL_PATIENCE_S)
        await asyncio.to_thread(stop, files, launching.LONGEST_END_S)
        watch.poll(final=True)
        return _came_to(experiment, files, watch, steps)
    finally:
        watch.close()
        await asyncio.to_thread(kill_leftovers, files, request.attempt_id)
        if (session := Session.find(request.session)) is not None:
            session.kill()


def _request(experiment: Experiment, number: int, seconds: float) -> launching.LaunchRequest:
    state = experiment.state
    launched = [attempt.number for attempt in state.attempts if attempt.launched_at is not None]
    request = apply_changes.request_of(
        experiment,
        state.draft,
        replace(state, draft=PendingChanges()).command,
        experiment.attempt_files(launched[-1]) if launched else None,
    )
    return replace(
        request,
        session=session_name(f"smoke {state.name}", state.experiment_id[:4], number),
        attempt_id=f"{state.experiment_id}-s{number:02d}",
        deadline_uptime=min(request.deadline_uptime, uptime() + seconds),
        is_smoke=True,
    )


async def _until_seen(files: AttemptFiles, watch: Watch, steps: int, give_up: float) -> None:
    """Until there are rows of so many steps or the command is over."""
    while uptime() < give_up and files.state() in ("not_started", "running"):
        watch.poll()
        if watch.rows.count >= steps:
            return
        await asyncio.sleep(LOOK_EVERY_S)


def _came_to(experiment: Experiment, files: AttemptFiles, watch: Watch, steps: int) -> SmokeRan:
    end, info = files.exit(), files.supervisor()
    took_s = round(end.ended_at - end.started_at, 2) if end and end.ended_at and end.started_at else 0.0
    is_enough = watch.rows.count >= steps
    ended_by_itself = end is None or end.reason not in ("stopped", "deadline")
    status = end.status if end is not None and ended_by_itself else None
    failed = not is_enough and ended_by_itself and (end is None or info is None or status != 0)
    lines = [line.text for line in last_useful_lines(files.pane_log, SHOWN_LINES)] if failed else []
    text = redact("\n".join(lines), known_secrets(experiment.dir))
    return SmokeRan(failed, watch.rows.count, took_s, status, text)
