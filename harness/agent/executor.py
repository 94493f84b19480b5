"""How each action is carried out. Every action finds out by itself whether its effect is already there.

In: an action and the experiment. Out: what the journal keeps as its outcome. Slow or optional parts
(reports, tmux) are imported where they are used.
"""

import asyncio
import errno
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, TypeVar

from harness import actions, environment, launching
from harness.agent import approval, disk_access
from harness.agent.holding import is_of_the_disk
from harness.agent.look import look
from harness.agent.monitoring import AttemptMonitor
from harness.agent.verdict import settled, verdict
from harness.atomic_write import write_json
from harness.attempt import AttemptEnd, Diagnosis, log_lost
from harness.codec import encode
from harness.errors import UserError
from harness.experiment import Experiment
from harness.journal import events
from harness.journal.events import ActionResult
from harness.observation import Observation
from harness.pending_changes import PREPARING, Change
from harness.redaction import redact
from harness.repair import apply_changes, containment, patched_code, repair_plan
from harness.results.narrative import sections
from harness.results.narrative.evidence import Evidence
from harness.state import AttemptState
from monitors.files import AttemptFiles

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")


def _nothing_proposed(action: actions.ProposeNext, experiment: Experiment) -> str:
    raise UserError("no experiment can be proposed here")


class Executor:
    """Carries out actions on one experiment; keeps the monitor of the running attempt between two waits,
    `current_monitor`, which a display may look at. `interrupted`: a person wants something of the run.
    `on_check`: is told what each check before a launch found; `on_held`: why nothing goes on for now.
    `propose`: writes an experiment that may follow, and returns the command that starts it."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.interrupted = asyncio.Event()
        self.current_monitor: AttemptMonitor | None = None
        self.on_check: Callable[[events.Checked], None] = lambda checked: None
        self.on_held: Callable[[str], None] = lambda why: None
        self.propose: Callable[[actions.ProposeNext, Experiment], str] = _nothing_proposed
        self._evidence: Evidence | None = None

    def observe(self) -> Observation:
        """The state, the time, and what only a look at the running attempt can tell. Raises OSError where the
        files cannot be read that tell it."""
        self.check_folders()
        if self.experiment.state.collected is None:
            approval.hear(self.experiment)
        now, attempt = self.experiment.clock(), self.experiment.state.attempt
        seen: dict[str, Any] = {"result_dir": self.experiment.dir, "evidence": self._citable()}
        if attempt is not None and attempt.is_running:
            seen |= self.monitor(attempt).seen(attempt, now)
        elif attempt is not None and attempt.launched_at is None:
            seen["launched_unrecorded"] = self.experiment.attempt_files(attempt.number).started.exists()
        elif self.experiment.state.collected is None:
            seen["config"] = apply_changes.config_before(self.experiment)
        return Observation(self.experiment.state, now, **seen)

    def check_folders(self) -> None:
        """Raise OSError unless the result folder, and that of the attempt in it, are there and can be
        written: nothing is concluded from what cannot be read, and nothing is written beside it."""
        self.experiment.check_place()
        if not os.access(self.experiment.dir, os.W_OK):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self.experiment.dir))
        attempt = self.concluding()
        if attempt is not None:
            self.experiment.check_attempt(attempt.number)

    def concluding(self) -> AttemptState | None:
        """The attempt of which something may still be concluded from its files."""
        state = self.experiment.state
        is_read = state.attempt is not None and state.attempt.launched_at is not None
        return state.attempt if is_read and state.collected is None else None

    def _citable(self) -> Evidence | None:
        """What a narrative may cite, read once; a run does not fail for words about it."""
        state = self.experiment.state
        if self._evidence is None and state.collected is not None and state.options.policy == "llm":
            from harness.agent.view import citable

            try:
                self._evidence = citable(self.experiment.dir, self.experiment.journal.entries)
            except Exception:  # noqa: BLE001, whatever the raw files hold
                _log.warning("nothing can be cited: the results cannot be read", exc_info=True)
        return self._evidence

    def monitor(self, attempt: AttemptState) -> AttemptMonitor:
        """The monitor of this attempt, made when first asked for."""
        if self.current_monitor is None or self.current_monitor.number != attempt.number:
            self.current_monitor = AttemptMonitor(self.experiment, attempt)
        return self.current_monitor

    def ask_to_stop(self, by: str) -> None:
        """A person wants the run to end; the loop is woken and sees it in the state."""
        if self.experiment.state.stop_asked is None and self.experiment.state.verdict is None:
            with suppress(OSError):  # then the run is held, and what holds it ends it
                self.experiment.record(events.StopAsked(by))
        self.interrupted.set()

    def refuse(self, action: actions.Action) -> str | None:
        """Why the machine, as it is now, does not allow the action; None when it does."""
        if isinstance(action, actions.PatchCode) and (
            why := containment.refuse(self.experiment.state.options.sandbox)
        ):
            return why
        return disk_access.refuse(action, self.experiment.dir, self.experiment.blueprint)

    async def ask_for_approval(self, action: actions.Action) -> tuple[actions.Action, str | None]:
        """Ask a person where they wanted to be asked; returns what is to be done, and why it may not be."""
        state, attempt = self.experiment.state, self.experiment.state.attempt
        is_of_person = isinstance(action, actions.Stop) and action.why == "person"
        if is_of_person or not approval.is_needed(action, state):
            return action, None
        running = attempt.number if attempt is not None and attempt.is_running else None

        def still_wanted() -> bool:
            if self.experiment.state.stop_asked or self.experiment.clock() >= state.deadline_at:
                return False
            return running is None or self.experiment.attempt_files(running).state() == "running"

        return await approval.ask(self.experiment, action, still_wanted, self.interrupted)

    async def act(self, action: actions.Action) -> ActionResult | None:
        """Carry out one action; returns what the journal keeps of it, None for the last. Raises OSError where
        the folders were gone in the end: what was concluded may be of files that were not there."""
        if isinstance(action, actions.LOOKING):
            result: ActionResult | None = await asyncio.to_thread(
                look, action, self.experiment, self._citable()
            )
        elif action.kind in PREPARING:
            result = await asyncio.to_thread(apply_changes.prepare, action, self.experiment)
            result = approval.signed(result, self.experiment)
        else:
            carry_out: Callable[[Any], Awaitable[ActionResult | None]] = getattr(self, f"_{action.kind}")
            result = await carry_out(action)
        if result is not None:
            self.check_folders()
        return result

    async def _prepare(self, action: actions.Prepare) -> events.Prepared:
        from harness.results.provenance import gather

        plan = self.experiment.blueprint
        kept = environment.begin(self.experiment.dir, self.experiment.state.options.hidden)
        facts = gather(plan.codebase_dir, plan.venv_exe, plan.yaml_path, plan.launch_command, kept.names)
        write_json(self.experiment.dir / "provenance.json", facts, mode=0o600)
        return events.Prepared()

    async def _check(self, action: actions.Check) -> events.Checked:
        state = self.experiment.state
        checked = await asyncio.to_thread(apply_changes.check, self.experiment, state.draft)
        goes_on = state.attempts and state.stop_asked is None and self.experiment.clock() < state.deadline_at
        if goes_on and any(cause.family == "disk_full" for cause in checked.causes):
            raise OSError(errno.ENOSPC, "too little room for another attempt", str(self.experiment.dir))
        self.on_check(checked)
        return checked

    async def _smoke_run(self, action: actions.SmokeRun) -> events.SmokeRan:
        from harness.repair import first_smoke, smoke
        from monitors.launch import LaunchError
        from monitors.tmux import TmuxError

        has_launched = any(attempt.launched_at is not None for attempt in self.experiment.state.attempts)
        trial = smoke.run if has_launched else first_smoke.run
        try:
            ran = await self._unless_interrupted(trial(self.experiment, action.steps, action.seconds))
            return ran or events.SmokeRan(failed=False, error="it was interrupted")
        except (LaunchError, TmuxError) as error:
            return events.SmokeRan(failed=False, error=str(error))
        except patched_code.PatchError as error:
            return events.SmokeRan(failed=True, error=str(error))

    async def _launch(self, action: actions.Launch) -> events.Launched:
        from monitors.launch import launch

        files = self.experiment.attempt_files(action.attempt)
        previous = self.experiment.attempt_files(action.attempt - 1) if action.attempt > 1 else None
        checkpoint = launching.carry_checkpoint(previous, files) if previous is not None else None
        if files.state() == "not_started":
            order = await asyncio.to_thread(apply_changes.launch_request, self.experiment, action, previous)
            spec = launching.launch_spec(self.experiment.blueprint, files, order)
            launch(spec)
        command = launching.command(self.experiment.blueprint, files.config, self.experiment.state.arguments)
        code = patched_code.used(self.experiment.state)
        if code is not None:
            command = code.relocated(command)
        differs = tuple(
            Change("secret", name, before, now, "the shell that resumed the run has it so")
            for name, before, now in environment.differences(self.experiment.dir, action.attempt)
        )
        sandbox = containment.used(files) if self.experiment.state.patches else ""
        return events.Launched(self.experiment.clock(), command, checkpoint, differs, sandbox)

    async def _wait(self, action: actions.Wait) -> events.Waited:
        attempt = self.experiment.state.attempt
        if attempt is None or not attempt.is_running:
            answered = await self._unless_interrupted(approval.wait_for_answer(self.experiment))
            return events.Waited("answered" if answered else "not_answered")
        waited = await self._unless_interrupted(self.monitor(attempt).wait())
        if waited is None:
            return events.Waited("interrupted")
        return replace(waited, ended=self._ended(attempt, waited.ended)) if waited.ended else waited

    async def _pause(self, action: actions.Pause) -> events.Paused:
        seconds = max(0.0, min(action.until, self.experiment.state.deadline_at) - self.experiment.clock())
        if await self._unless_interrupted(asyncio.sleep(seconds, True)):
            return events.Paused(seconds)
        return events.Paused(reason="interrupted")

    async def _unless_interrupted(self, work: Coroutine[Any, Any, _Result]) -> _Result | None:
        """What the work comes to; None where a person wants something first."""
        self.interrupted.clear()
        if self.experiment.state.stop_asked:
            self.interrupted.set()
        working = asyncio.ensure_future(work)
        interrupted = asyncio.ensure_future(self.interrupted.wait())
        try:
            await asyncio.wait({working, interrupted}, return_when=asyncio.FIRST_COMPLETED)
            return await working if working.done() else None
        finally:
            working.cancel()
            interrupted.cancel()
            await asyncio.gather(working, interrupted, return_exceptions=True)

    async def _stop(self, action: actions.Stop) -> events.Stopped:
        from monitors.launch import stop

        attempt = self.experiment.state.attempt
        assert attempt is not None  # the guard has asked for it
        files = self.experiment.attempt_files(attempt.number)
        health = self.monitor(attempt).health(attempt, self.experiment.clock())
        await asyncio.to_thread(stop, files, launching.LONGEST_END_S)
        ended = self._ended(attempt, await asyncio.to_thread(self.monitor(attempt).ended))
        if ended.reason not in ("stopped", "lost"):
            return events.Stopped(ended, None, "it had ended by itself")
        is_fatal = action.why == "fatal_error" and health.fatal
        ended = replace(ended, complete=False, sign=health.sign if is_fatal else "")
        return events.Stopped(ended, action.why, "; ".join(health.fatal) if is_fatal else action.detail)

    async def _diagnose(self, action: actions.Diagnose) -> events.Diagnosed:
        from harness.diagnosis import diagnose  # what only a failure needs is imported when there is one
        from harness.diagnosis.signatures import load_usable

        attempt = self.experiment.state.attempt
        assert attempt is not None and attempt.ended is not None  # the guard has asked for it
        files = self.experiment.attempt_files(attempt.number)
        book, broken = await asyncio.to_thread(load_usable)
        for problem in broken:
            _log.warning("a signature file is left out: %s", problem)
        end = (attempt.ended, attempt.stop_reason, attempt.stop_detail)
        found = await asyncio.to_thread(diagnose, files, *end, book)
        return events.Diagnosed(await self._with_remedies(found, files))

    async def _name_cause(self, action: actions.NameCause) -> events.CauseNamed:
        from harness.agent import model_cause

        attempt = self.experiment.state.attempt
        assert attempt is not None and attempt.diagnosis is not None  # the guard has asked for it
        before, files = attempt.diagnosis, self.experiment.attempt_files(attempt.number)
        model, shown = self.experiment.state.llm.model, model_cause.citable(before)
        try:
            found = model_cause.named(before, action, model, shown)
        except model_cause.UnusableAnswerError as error:
            return events.CauseNamed(error=str(error))
        return events.CauseNamed(await self._with_remedies(found, files))

    async def _with_remedies(self, found: Diagnosis, files: AttemptFiles) -> Diagnosis:
        """With what can be done about it, and kept in the attempt's folder."""
        from harness import lessons
        from harness.repair import advice

        try:
            of_run = (found, self.experiment.state, advice.config_of(files))
            found = await asyncio.to_thread(advice.of_run, *of_run)
        except Exception:  # noqa: BLE001, a run does not end for words about its failure
            _log.warning("what to do cannot be said", exc_info=True)
        if files.dir.exists():
            write_json(files.dir / "diagnosis.json", encode(found), mode=0o600)
        preferred = await asyncio.to_thread(lessons.preferred, found)
        repairs = await asyncio.to_thread(repair_plan.repairs, self.experiment, found, preferred)
        return replace(found, repairs=repairs)

    async def _note(self, action: actions.Note) -> events.Noted:
        return events.Noted(redact(action.text, environment.known_secrets(self.experiment.dir)))

    async def _ask_person(self, action: actions.AskPerson) -> events.PersonAsked:
        return await asyncio.to_thread(approval.put, action, self.experiment)

    async def _write_sections(self, action: actions.WriteSections) -> events.SectionsWritten:
        evidence = self._citable()
        assert evidence is not None  # the guard has asked for it
        return events.SectionsWritten(**sections.published(action.sections, evidence))

    async def _propose_next(self, action: actions.ProposeNext) -> events.NextProposed:
        try:
            return events.NextProposed(await asyncio.to_thread(self.propose, action, self.experiment))
        except UserError as error:
            known = environment.known_secrets(self.experiment.dir)
            return events.NextProposed(error=redact(str(error), known))

    async def _collect(self, action: actions.Collect) -> events.Collected:
        judged = verdict(self.experiment.state, self.experiment.clock())
        return events.Collected(judged.outcome, judged.reason)

    async def _report(self, action: actions.Report) -> events.Reported:
        from harness.index import sweep_of
        from harness.results.report import build_report

        try:
            folder, draws = self.experiment.dir, not sweep_of(self.experiment.dir)  # a sweep draws its own
            report = await asyncio.to_thread(
                build_report, folder, self.experiment.journal.entries, None, draws
            )
        except Exception as error:  # a report can be built again; the run still has to finish
            if is_of_the_disk(error, self):
                raise
            return events.Reported(error=f"{type(error).__name__}: {error}")
        wrong = tuple(asdict(item) for item in report.discrepancies)
        return events.Reported(tuple(report.headline), wrong, result=report.result)

    async def _finish(self, action: actions.Finish) -> None:
        self._close_sessions()
        state = self.experiment.state
        if state.patches:
            await asyncio.to_thread(containment.remove_own_folders, state.experiment_id)
            kept = await asyncio.to_thread(patched_code.remove, state.experiment_id)
            if kept is not None:
                self.experiment.record(events.CopyKept(str(kept)))
        if any(attempt.diagnosis for attempt in state.attempts):
            from harness import lessons

            known = environment.known_secrets(self.experiment.dir)
            await asyncio.to_thread(lessons.learn, state, self.experiment.clock(), known)
        self.experiment.record(events.Finish(action.outcome, action.reason))

    def seal(self) -> None:
        """Write finish.flag, the last file of a finished experiment, unless it is there."""
        from harness.results.manifest import vouched_for
        from harness.results.verify import run_flag

        if (self.experiment.dir / "finish.flag").exists():
            return
        flag = run_flag(self.experiment.state, environment.known_secrets(self.experiment.dir))
        self.experiment.write_finish_flag({**flag, "manifest": vouched_for(self.experiment.dir)})

    def close(self) -> None:
        """Let go of the running attempt, which goes on without us."""
        if self.current_monitor is not None:
            with suppress(OSError):  # rows that a full disk did not take; the next monitor reads them again
                self.current_monitor.watch.close()
            self.current_monitor = None

    def _ended(self, attempt: AttemptState, ended: AttemptEnd) -> AttemptEnd:
        """An exit record, with what the attempt achieved and whether that is all it owed."""
        if lost := log_lost(ended.log_lost_bytes, ended.log_lost_why):
            self.monitor(attempt).note("log_lost", lost)
        attempts = [self.experiment.attempt_files(number) for number in range(1, attempt.number + 1)]
        return settled(self.experiment.blueprint, attempts, self.monitor(attempt).achieved(ended))

    def _close_sessions(self) -> None:
        """Kill what is left of our attempts, and this run's sessions unless a person wants to keep them.

        A harness that runs in one of these sessions itself lives on: its terminal is its supervisor's.
        """
        from monitors.launch import kill_leftovers
        from monitors.tmux import Session

        state = self.experiment.state
        for attempt in state.attempts:
            kill_leftovers(self.experiment.attempt_files(attempt.number), attempt.attempt_id)
        names = [detached.session for detached in self.experiment.journal.of(events.Detached)]
        names += [attempt.session for attempt in state.attempts]
        for session in map(Session.find, () if state.options.keep_session else names):
            if session is not None:
                session.kill()
