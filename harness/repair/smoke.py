"""A smoke run: the real command, with what is prepared for the next launch, for a moment.

In: the experiment, how many steps or seconds. Out: `SmokeRan`. It runs in a session and a folder of its own
(`smoke/NN`), supervised like any attempt, which ends it by itself should the harness die. It is no attempt,
and none of its numbers is a result. What it writes into the folder of the code (a checkpoint that the real
launch would go on from) is dropped where this machine can overlay that folder; elsewhere it is named.
"""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

from harness import launching
from harness.blueprint.types import Blueprint
from harness.config.training import TrainingConfig
from harness.earlier_runs import planned_end
from harness.environment import known_secrets
from harness.experiment import Experiment
from harness.journal.events import SmokeRan
from harness.pending_changes import PendingChanges
from harness.redaction import redact
from harness.repair import apply_changes
from harness.repair.apart import Apart
from monitors.files import AttemptFiles
from monitors.launch import kill_leftovers, launch, state_home, stop
from monitors.logs import last_useful_lines
from monitors.processes import uptime
from monitors.rules import MetricSource, WatchRules
from monitors.tmux import Session, session_name
from monitors.watch import Watch

LOOK_EVERY_S = 0.25
SHELL_PATIENCE_S = 60.0
SHOWN_LINES = 15


@dataclass(frozen=True)
class Trial:
    """What is tried, where: `result_dir` is the run's, whose secrets are masked. `apart`: the folders whose
    changes are dropped. `grace_s`: between TERM and KILL."""

    plan: Blueprint
    files: AttemptFiles
    request: launching.LaunchRequest
    result_dir: Path
    apart: Apart
    steps: int
    seconds: float
    grace_s: float = launching.GRACE_S

    async def run(self) -> SmokeRan:
        """Run until there are rows of so many steps, the time is over or the command ends. Can be repeated
        after a kill: what runs is gone on with."""
        pace = None
        if self.files.state() == "not_started":
            pace = Pace(uptime())
            request = await asyncio.to_thread(self.apart.put, self.request, self.files)
            spec = replace(launching.launch_spec(self.plan, self.files, request), grace_s=self.grace_s)
            await asyncio.to_thread(launch, spec)
        is_ajet = TrainingConfig.of_attempt(self.files.config).is_ajet
        source = MetricSource.TRAINER if is_ajet else MetricSource.CONSOLE
        metrics = self.plan.metrics
        rules = WatchRules(patterns=metrics.of_lines()) if metrics is not None else WatchRules()
        watch = Watch(self.files, source, rules)
        try:
            give_up = uptime() + self.seconds + SHELL_PATIENCE_S
            await _until_seen(self.files, watch, self.steps, give_up, pace)
            await asyncio.to_thread(stop, self.files, launching.LONGEST_END_S)
            watch.poll(final=True)
            info = self.files.supervisor()
            whole_s = pace.whole_s(_total(self.plan, self.files, watch)) if pace is not None else None
            began_at = info.started_at if info is not None else None
            left = await asyncio.to_thread(self.apart.left, began_at, self.result_dir) if began_at else ()
            return replace(self._came_to(watch), left=left, whole_s=whole_s)
        finally:
            watch.close()
            await asyncio.to_thread(kill_leftovers, self.files, self.request.attempt_id)
            if (session := Session.find(self.request.session)) is not None:
                session.kill()
            await asyncio.to_thread(self.apart.remove)

    def _came_to(self, watch: Watch) -> SmokeRan:
        end, info = self.files.exit(), self.files.supervisor()
        took_s = round(end.ended_at - end.started_at, 2) if end and end.ended_at and end.started_at else 0.0
        is_enough = watch.rows.count >= self.steps
        ended_by_itself = end is None or end.reason not in ("stopped", "deadline")
        status = end.status if end is not None and ended_by_itself else None
        failed = not is_enough and ended_by_itself and (end is None or info is None or status != 0)
        lines = [line.text for line in last_useful_lines(self.files.pane_log, SHOWN_LINES)] if failed else []
        text = redact("\n".join(lines), known_secrets(self.result_dir))
        return SmokeRan(failed, watch.rows.count, took_s, status, text)


async def run(experiment: Experiment, steps: int, seconds: float) -> SmokeRan:
    """Try what is prepared for the next launch. Raises PatchError where the corrected code cannot be run."""
    files, request, scratch = await asyncio.to_thread(prepared, experiment, seconds)
    apart = Apart((request.codebase,), scratch)
    return await Trial(experiment.blueprint, files, request, experiment.dir, apart, steps, seconds).run()


@dataclass
class Pace:
    """When the first and the last row came (uptime), and where they stand."""

    began: float
    first: tuple[float, float] | None = None
    last: tuple[float, float] = (0.0, 0.0)

    def note(self, now: float, place: float) -> None:
        if self.first is None:
            self.first = self.last = (now, place)
        elif place > self.last[1]:
            self.last = (now, place)

    def whole_s(self, total: float | None) -> float | None:
        """How long it takes to come to `total`: the start once, the rest at this pace; None if not known."""
        if not total or self.first is None or self.last[1] <= self.first[1]:
            return None
        (first_at, first), (last_at, last) = self.first, self.last
        return round(first_at - self.began + (last_at - first_at) / (last - first) * (total - first), 1)


def _total(plan: Blueprint, files: AttemptFiles, watch: Watch) -> float | None:
    """How many steps or epochs the training has, by its rows, its config or its command."""
    config = TrainingConfig.of_attempt(files.config)
    return watch.rows.total or planned_end(plan, config.data, watch.rows.axis.kind)


def prepared(experiment: Experiment, seconds: float) -> tuple[AttemptFiles, launching.LaunchRequest, Path]:
    """The folder and the request of the next smoke run, and where what it writes can go."""
    state, number = experiment.state, experiment.state.smoke_runs + 1
    files = AttemptFiles(experiment.dir / "smoke" / f"{number:02d}")
    launched = [attempt.number for attempt in state.attempts if attempt.launched_at is not None]
    previous = experiment.attempt_files(launched[-1]) if launched else None
    command_before = replace(state, draft=PendingChanges()).command
    request = apply_changes.request_of(experiment, files, state.draft, command_before, previous)
    request = replace(
        request,
        session=session_name(f"smoke {state.name}", state.experiment_id[:4], number),
        attempt_id=f"{state.experiment_id}-s{number:02d}",
        deadline_uptime=min(request.deadline_uptime, uptime() + seconds),
        is_smoke=True,
    )
    return files, request, state_home() / "smoke" / request.attempt_id


async def _until_seen(
    files: AttemptFiles, watch: Watch, steps: int, give_up: float, pace: Pace | None
) -> None:
    """Until there are rows of so many steps or the command is over."""
    while uptime() < give_up and files.state() in ("not_started", "running"):
        watch.poll()
        if pace is not None and watch.rows.place is not None:
            pace.note(uptime(), watch.rows.place)
        if watch.rows.count >= steps:
            return
        await asyncio.sleep(LOOK_EVERY_S)
