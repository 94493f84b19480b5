"""The eyes of the loop on one running attempt: its waits, its metrics, its resources.

One object per attempt and process. Nothing in it is needed to resume: a new one reads the attempt's raw
files from their start, and events that the journal knows already are not recorded again.
"""

import asyncio
import math
import socket
import time
from collections.abc import Iterable
from dataclasses import fields, replace
from functools import partial
from typing import Any

from harness.agent.neighbours import others_train_in
from harness.agent.questions import next_look_s
from harness.attempt import AttemptEnd
from harness.blueprint.types import MetricSpec
from harness.config.training import TrainingConfig
from harness.experiment import Experiment
from harness.guard import rules as guard
from harness.journal.events import AttemptEvent, SupervisorSeen, Waited
from harness.launching import LONGEST_END_S
from harness.metric_files import FollowedFiles
from harness.observation import Progress
from harness.repair import patched_code
from harness.state import AttemptState
from monitors.clock import SystemClock
from monitors.files import Exit
from monitors.launch import SWALLOWED_AFTER_S, kill_leftovers, type_launch_line, withdraw
from monitors.processes import boot_id, members_of_attempt, uptime
from monitors.resources import ResourceSampler, append_sample
from monitors.rules import Event, Health, MetricSource, WatchRules, in_second_half
from monitors.tmux import Session
from monitors.wait import Waiter, Wake, WakeReason
from monitors.watch import Watch

RESOURCES_EVERY_S = 30.0
STARTING_LOOK_S = 2.0
SHELL_PATIENCE_S = 600.0
REFUSED_LOOK_S = 30.0
SHORTEST_LOOK_S = 30.0


class AttemptMonitor:
    """Waits for, and looks at, the attempt `number`; `watch` holds what was seen of it so far."""

    def __init__(self, experiment: Experiment, attempt: AttemptState) -> None:
        plan = experiment.blueprint
        self.number = attempt.number
        self._experiment = experiment
        self._attempt_id = attempt.attempt_id
        self._files = experiment.attempt_files(attempt.number)
        self._config = TrainingConfig.of_attempt(self._files.config)
        self.total_steps = self._config.total_steps
        self._names_metrics = plan.metrics is not None
        metrics = plan.metrics or MetricSpec(())
        rules = WatchRules(
            expects_kl=self._config.expects_kl_loss,
            patterns=metrics.of_lines(),
            first_step_timeout_s=plan.first_step_s,
        )
        source = MetricSource.TRAINER if self._config.is_ajet else MetricSource.CONSOLE
        known = (event for event in experiment.journal.of(AttemptEvent) if event.attempt == attempt.number)
        self._recorded = {(event.event, event.text) for event in known}
        wanted = metrics.metric or plan.purpose
        codebase = patched_code.codebase(experiment.state)
        is_shared = partial(others_train_in, codebase, experiment.dir)
        place = (self._files, codebase, metrics.file, wanted, is_shared, experiment.clock)
        self._followed = FollowedFiles(*place) if source is MetricSource.CONSOLE else None
        self.watch = Watch(self._files, source, rules, experiment.clock, self._followed)
        self._session = Session(attempt.session)
        clock = SystemClock(experiment.clock)
        self._waiter = Waiter(self._files, self._session, watch=self.watch, clock=clock)
        self._waits_since = experiment.clock()
        self._type_again_at = self._waits_since + SWALLOWED_AFTER_S
        self._never_ran = ""
        self._sampler: ResourceSampler | None = None
        self._next_sample_at = 0.0
        self._pace: tuple[float, float] | None = None

    async def wait(self) -> Waited:
        """Wait for the next thing that matters, and record the events it brings; `ended` is the bare exit
        record when the attempt is over."""
        self._remember_supervisor()
        sampling = asyncio.ensure_future(self._sample_resources())
        try:
            wake = await self._waiter.wait(deadline=self._next_deadline())
        finally:
            sampling.cancel()
            await asyncio.gather(sampling, return_exceptions=True)
        self._record_seen(wake.events)
        if wake.reason in (WakeReason.TICK, WakeReason.DEADLINE):
            self._type_again_if_swallowed()
        waited = Waited(wake.reason.value, wake.detail, round(wake.waited_s, 3))
        if wake.reason is WakeReason.SESSION_GONE:
            now = self._experiment.clock()
            self._experiment.record(AttemptEvent(self.number, "session_gone", now, wake.detail))
        if not self._is_at_end(wake):
            return waited
        if refusal := self._refuse_to_give_up():
            await asyncio.sleep(REFUSED_LOOK_S)
            return replace(waited, detail=refusal)
        return replace(waited, ended=self.ended())

    def ended(self) -> AttemptEnd:
        """The exit record of an attempt that is over; one without a record is ended for good and called
        lost, or not started. Raises OSError where it cannot be read whether there is a record."""
        self._experiment.check_attempt(self.number)
        exit_record = self._files.exit()
        self.watch.poll(final=True)
        if exit_record is not None:
            known = {field.name for field in fields(AttemptEnd)}
            found = vars(exit_record) | self._times_of(exit_record)
            return AttemptEnd(**{name: value for name, value in found.items() if name in known})
        kill_leftovers(self._files, self._attempt_id)
        heartbeat = self._files.heartbeat()
        now = self._experiment.clock()
        ended_at = min(heartbeat.time, now) if heartbeat else now
        if self._never_ran:
            return AttemptEnd("not_started", ended_at=ended_at, detail=self._never_ran)
        info, detail = self._files.supervisor(), "it left no exit record"
        if not self._files.dir.exists():
            detail = "its folder was removed"
        if info is not None and info.host not in ("", socket.gethostname()):
            detail = f"{info.host} gave no sign of life any more; it could not be ended from here"
        return AttemptEnd("lost", ended_at=ended_at, detail=detail)

    def _times_of(self, end: Exit) -> dict[str, float]:
        """When the attempt began and ended, as the journal counts time; {} for one of another boot."""
        if end.ended_uptime is None or end.boot_id != boot_id():
            return {}
        ended_at = self._experiment.clock() - uptime() + end.ended_uptime
        took_s = (end.ended_at or 0.0) - (end.started_at or 0.0)
        return {"started_at": ended_at - took_s, "ended_at": ended_at}

    def achieved(self, ended: AttemptEnd) -> AttemptEnd:
        """The exit record with how far the attempt has come."""
        rows, followed = self.watch.rows, self._followed
        metrics_from = followed.words if followed is not None and self.watch.has_other_rows else ""
        if not rows.count:
            return replace(ended, metrics_from=metrics_from)
        last_step = int(rows.place or 0)
        return replace(
            ended, rows=rows.count, last_step=last_step, reached=rows.where, metrics_from=metrics_from
        )

    def seen(self, attempt: AttemptState, now: float) -> dict[str, Any]:
        """What an `Observation` has of the running attempt."""
        overdue = self.first_step_overdue(attempt, now)  # reads what happened unseen before the rest is told
        health, progress = self.health(attempt, now), self.progress(attempt, now)
        return {"first_step_overdue": overdue, "health": health, "progress": progress}

    def first_step_overdue(self, attempt: AttemptState, now: float) -> bool:
        """True if the first step is late although it could have been seen: the metrics of the attempt are
        known. What happened while it was not watched is read first; a prepare command does not count."""
        due = self._first_step_due()
        if attempt.first_step_at is not None or due is None or now < due:
            return False
        if self._files.state() != "running" or self._files.evaluates():
            return False
        self._record_seen(self.watch.poll_piece())
        if not self.watch.at_end:  # a long log is read by the next wait, which can be interrupted
            return False
        metrics_known = self._config.is_ajet or self._names_metrics or self.watch.rows.count > 0
        return metrics_known and not self.watch.rows.first_step_seen

    def health(self, attempt: AttemptState, now: float) -> Health:
        """What would justify ending the running attempt before its time; nothing does while a
        part of its log is still unread, since what was read may be long over."""
        if not self.watch.at_end:
            return Health()
        launched_at = now if attempt.launched_at is None else attempt.launched_at
        step, deadline_at = self.watch.rows.step, self._experiment.state.deadline_at
        return Health(
            fatal=self.watch.fatal(now),
            sign=self.watch.fatal_sign(now),
            plateau=self.watch.plateau,
            second_half=in_second_half(step, self.total_steps, launched_at, deadline_at, now),
        )

    def progress(self, attempt: AttemptState, now: float) -> Progress | None:
        """How far it is; None before its first step."""
        place, total = self.watch.rows.place, self.total
        if attempt.first_step_at is None or attempt.launched_at is None:
            return None
        left_s = self.remaining_s(now)
        share = place / total if place is not None and total else None
        return Progress(now - attempt.launched_at + (left_s or 0.0), share)

    def remaining_s(self, now: float) -> float | None:
        """Seconds to the last step or epoch at the pace since the first look; None while it is not known."""
        place, total = self.watch.rows.place, self.total
        if place is None or total is None or place <= 0:
            return None
        if self._pace is None:
            self._pace = (now, place)
        since, first = self._pace
        return (now - since) / (place - first) * max(0.0, total - place) if place > first else None

    @property
    def total(self) -> int | None:
        """Where the axis ends: the config says it, or the rows do ("epoch 3/20")."""
        rows = self.watch.rows
        return (self.total_steps if rows.axis.kind == "step" else None) or rows.total

    def note(self, kind: str, text: str) -> None:
        """Record an event of now, unless the journal has it."""
        self._record(AttemptEvent(self.number, kind, self._experiment.clock(), text))

    def _record_seen(self, events: Iterable[Event]) -> None:
        for each in events:
            place = (each.step, each.line_number)
            self._record(AttemptEvent(self.number, each.kind, each.time, each.text, *place))

    def _record(self, event: AttemptEvent) -> None:
        if (event.event, event.text) not in self._recorded:
            self._recorded.add((event.event, event.text))
            self._experiment.record(event)

    def _next_deadline(self) -> float:
        """When to look even if nothing happens: while nothing has started, at the first-step time-out, when a
        model is to look, and when the supervisor should long have ended the attempt by itself."""
        now = self._experiment.clock()
        end = min(self._end_of_patience(), self._next_look(now))
        due = self._first_step_due()
        if due is None:
            return min(end, now + STARTING_LOOK_S)
        return min(end, due) if now < due and not self.watch.rows.first_step_seen else end

    def _next_look(self, now: float) -> float:
        """When a model is to look at the training next, if one is."""
        state = self._experiment.state
        if not state.options.looks or state.attempt is None:
            return math.inf
        progress = self.progress(state.attempt, now)
        if progress is None:
            return math.inf
        return now + max(SHORTEST_LOOK_S, next_look_s(progress, self.remaining_s(now)))

    def _first_step_due(self) -> float | None:
        """When the first step is late, None while the command has not been started yet."""
        info, now = self._files.supervisor(), self._experiment.clock()
        running_s = None if info is None else info.running_s(now)
        return None if running_s is None else now - running_s + self._experiment.blueprint.first_step_s

    def _remember_supervisor(self) -> None:
        """Have the journal know who supervises the attempt, for when its files cannot be read."""
        found, attempt = self._files.supervisor(), self._experiment.state.attempt
        if found is not None and attempt is not None and attempt.supervisor is None:
            self._experiment.record(SupervisorSeen(self.number, found))

    def _type_again_if_swallowed(self) -> None:
        """Type the launch line once more where a shell's start-up swallowed it; it never launches twice."""
        now = self._experiment.clock()
        if now < self._type_again_at or self._files.state() != "not_started" or self._files.started.exists():
            return
        self._type_again_at = now + (now - self._waits_since)
        if self._files.script.exists() and self._session.exists():
            type_launch_line(self._files, self._session)

    def _end_of_patience(self) -> float:
        now, deadline_at = self._experiment.clock(), self._experiment.state.deadline_at
        info = self._files.supervisor()
        left_s = deadline_at - now if info is None else info.left_s(deadline_at, now)
        return now + left_s + LONGEST_END_S

    def _is_at_end(self, wake: Wake) -> bool:
        """True if the attempt is over, never came to life, or should be over by its deadline although nothing
        says so. Raises OSError where its folder cannot be read: then none of that is known."""
        now = self._experiment.clock()
        if wake.reason in (WakeReason.EXITED, WakeReason.LOST) or now >= self._end_of_patience():
            self._experiment.check_attempt(self.number)
            return True
        if self._files.state() != "not_started":
            return False
        if wake.reason is not WakeReason.SESSION_GONE and now - self._waits_since < SHELL_PATIENCE_S:
            return False
        self._experiment.check_attempt(self.number)
        if self._refuse_to_give_up() or not withdraw(self._files):
            return False
        if wake.reason is not WakeReason.SESSION_GONE:
            self._never_ran = (
                f"the shell in tmux session {self._session.name} has not come to its first command in "
                f"{SHELL_PATIENCE_S:g} s (start-up files of the shell?)"
            )
        return True

    def _refuse_to_give_up(self) -> str | None:
        """Why what left no exit record goes on all the same, or None."""
        if self._files.exit() is not None:
            return None
        is_unknown = self._files.supervisor() is None
        lives = bool(members_of_attempt(self._attempt_id)) if is_unknown else self._files.state() == "running"
        return guard.healthy_runs_are_not_given_up(lives, self._experiment.clock() >= self._end_of_patience())

    async def _sample_resources(self) -> None:
        while True:
            await asyncio.sleep(max(0.0, self._next_sample_at - time.monotonic()))
            info = self._files.supervisor()
            if info is not None:
                self._sampler = self._sampler or ResourceSampler(info.pid, self._files.dir, time.time)
                append_sample(self._files.resources, await asyncio.to_thread(self._sampler.sample))
            self._next_sample_at = time.monotonic() + RESOURCES_EVERY_S
