"""One run of the harness, decided by a scripted language model, on a training that is only simulated.

In: a `Training`, a protocol, a script for the model. Out: every call, by what it was asked about. Real are
loop, guard, journal, prompts, accounting, provider and SDK, the wire, and on the files of a result folder the
watch, the diagnosis, all looks and edits. Simulated are the training, its session, the check before a launch,
the report, the time, and the server with its prompt cache.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _training_console import Training, console, launches

from harness import actions, launching
from harness.agent import loop
from harness.agent.llm import LlmPolicy
from harness.agent.look import look
from harness.agent.verdict import shortfall, verdict
from harness.atomic_write import write_json
from harness.blueprint import read
from harness.codec import encode
from harness.diagnosis import diagnose
from harness.experiment import Experiment, begin
from harness.journal.events import ActionResult, AttemptEvent, Finish
from harness.journal.model_events import Consult, LlmSettled
from harness.observation import Observation
from harness.options import RunOptions
from harness.pending_changes import PREPARING
from harness.providers.anthropic import AnthropicProvider
from harness.providers.cost import Limits, Price
from harness.providers.model import Model
from harness.providers.openai import OpenAIProvider
from harness.providers.transcript import Transcript
from harness.redaction import Secrets
from harness.repair import apply_changes
from harness.state import Outcome
from monitors.rules import Health, in_second_half
from monitors.wait import BACKOFF
from monitors.watch import Watch
from tests.harness.results.narrative.written import run_evidence
from tests.harness.runs import result_of
from tests.model_server.server import Exchange, ModelServer
from tests.model_server.steps import Script

EXAMPLE = Path(__file__).resolve().parent / "simulated_training"
STARTS_AT = 1_780_000_000.0
EVERY_LINE = 1_000_000


@dataclass(frozen=True)
class Wake:
    """One question put to the model (`failure:1`, `results:1`) and the calls that answered it."""

    topic: str
    calls: list[Exchange] = field(default_factory=list)


@dataclass(frozen=True)
class Run:
    """How a run ended, when and why the model was woken."""

    outcome: Outcome
    launches: int
    wakes: tuple[Wake, ...]


class SimulatedTime:
    """A clock that stands still until somebody waits. `now` in epoch seconds."""

    def __init__(self) -> None:
        self.now = STARTS_AT

    def time(self) -> float:
        return self.now

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        self.now += max(0.0, seconds)


class SimulatedHands:
    """Carries actions out: looks and edits for real, launches and waits on the simulated training."""

    def __init__(self, experiment: Experiment, training: Training, time: SimulatedTime) -> None:
        self.experiment = experiment
        self._training = training
        self._time = time
        self._watch: Watch | None = None
        self._waits = self._lines = 0

    def observe(self) -> Observation:
        state, now, attempt = self.experiment.state, self._time.now, self.experiment.state.attempt
        health, config = Health(), ""
        if self._watch is not None and attempt is not None and attempt.is_running:
            late = in_second_half(
                self._watch.rows.step, None, attempt.launched_at or now, state.deadline_at, now
            )
            health = Health(self._watch.fatal(now), self._watch.plateau, late)
        elif state.collected is None:
            config = apply_changes.config_before(self.experiment)
        return Observation(
            state, now, health=health, config=config, result_dir=self.experiment.dir, evidence=run_evidence()
        )

    def refuse(self, action: Any) -> str | None:
        return None

    async def ask_for_approval(self, action: actions.Action) -> str | None:
        return None

    async def act(self, action: actions.Action) -> ActionResult | None:
        if isinstance(action, actions.LOOKING):
            return look(action, self.experiment, run_evidence())
        if action.kind in PREPARING:
            return apply_changes.prepare(action, self.experiment)
        outcome = getattr(self, f"_{action.kind}")(action)
        return None if outcome is None else result_of(action.kind, outcome)

    def seal(self) -> None:
        if self._watch is not None:
            self._watch.close()

    def _prepare(self, action: actions.Prepare) -> dict[str, Any]:
        (self.experiment.dir / "attempts").mkdir()
        return {}

    def _check(self, action: actions.Check) -> dict[str, Any]:
        return {"can_run": True, "problems": [], "warnings": []}

    def _launch(self, action: actions.Launch) -> dict[str, Any]:
        plan, state = self.experiment.blueprint, self.experiment.state
        files = self.experiment.attempt_files(action.attempt)
        files.dir.mkdir()
        assert state.attempt is not None
        order = launching.LaunchRequest(
            session=action.session,
            attempt_id=action.attempt_id,
            deadline_uptime=state.deadline_at,  # nobody counts seconds here
            codebase=plan.codebase_dir,
            variables=os.environ,
            previous=self.experiment.attempt_files(action.attempt - 1) if action.attempt > 1 else None,
            draft=state.attempt.draft,
            environment=state.environment,
        )
        config = launching.write_config(plan, files, order)
        if self._watch is not None:
            self._watch.close()
        self._watch = Watch(files, clock=self._time.time)
        self._waits = self._lines = 0
        return {"launched_at": self._time.now, "command": launching.command(plan, config)}

    def _wait(self, action: actions.Wait) -> dict[str, Any]:
        """Sleep by the waiter's schedule, at most to the end of the attempt; then read what was printed."""
        assert self.experiment.state.attempt is not None and self._watch is not None
        number = self.experiment.state.attempt.number
        ends_at = STARTS_AT + launches(self._training)[number - 1][1]
        interval = BACKOFF[min(self._waits, len(BACKOFF) - 1)]
        waited, self._waits = min(interval, ends_at - self._time.now), self._waits + 1
        self._time.now += waited
        is_over = self._time.now >= ends_at
        events = self._read(number, self._watch, is_over)
        reason = "exited" if is_over else "event" if events else "tick"
        outcome: dict[str, Any] = {"reason": reason, "detail": "", "waited_s": waited}
        return {**outcome, "ended": self._ended(number, self._watch)} if is_over else outcome

    def _read(self, number: int, watch: Watch, is_over: bool) -> int:
        """Print what the training has printed meanwhile, let the watch read it, and record its events."""
        files = self.experiment.attempt_files(number)
        lines = console(self._training, number - 1, self._time.now - STARTS_AT, EVERY_LINE)
        with files.pane_log.open("a", encoding="utf-8") as log:
            log.writelines(f"{line}\n" for line in lines[self._lines :])
        self._lines = len(lines)
        events = watch.poll(final=is_over)
        for event in events:
            told = (event.kind, event.time, event.text, event.step, event.line_number)
            self.experiment.record(AttemptEvent(number, *told))
        return len(events)

    def _ended(self, number: int, watch: Watch) -> dict[str, Any]:
        attempts = [self.experiment.attempt_files(earlier) for earlier in range(1, number + 1)]
        begin, end = launches(self._training)[number - 1]
        failed = number < len(launches(self._training))
        left = {"reason": "exited", "status": int(failed), "signal": None}
        left |= {"started_at": STARTS_AT + begin, "ended_at": STARTS_AT + end}
        write_json(attempts[-1].exit_file, left)
        rows, step = watch.rows.count, watch.rows.step
        owed = (
            None if failed else shortfall(self.experiment.blueprint.metrics is not None, attempts, rows, step)
        )
        complete = not failed and owed is None
        return {
            **left,
            "rows": rows,
            "last_step": step,
            "shortfall": owed.text if owed else None,
            "complete": complete,
        }

    def _diagnose(self, action: actions.Diagnose) -> dict[str, Any]:
        attempt = self.experiment.state.attempt
        assert attempt is not None and attempt.ended is not None
        files = self.experiment.attempt_files(attempt.number)
        found = diagnose(files, attempt.ended, attempt.stop_reason, attempt.stop_detail)
        write_json(files.diagnosis, encode(found))
        return {"diagnosis": found}

    def _note(self, action: actions.Note) -> dict[str, Any]:
        return {"text": action.text}

    def _write_sections(self, action: actions.WriteSections) -> dict[str, Any]:
        return {"written": {each.section: each.as_json() for each in action.sections}, "left_out": []}

    def _collect(self, action: actions.Collect) -> dict[str, Any]:
        judged = verdict(self.experiment.state, self._time.now)
        return {"outcome": judged.outcome.value, "reason": judged.reason}

    def _report(self, action: actions.Report) -> dict[str, Any]:
        return {"headline": []}

    def _finish(self, action: actions.Finish) -> None:
        self.experiment.record(Finish(action.outcome, action.reason))


async def simulate(
    training: Training, protocol: str, model_name: str, price: Price | None, script: Script, folder: Path
) -> Run:
    """One whole run in an empty folder; `price` None: it is not counted while it runs."""
    time = SimulatedTime()
    codebase, result_dir = folder / "math_lr", folder / "result"
    shutil.copytree(EXAMPLE, codebase)
    result_dir.mkdir()
    blueprint = read(codebase / "blueprint.md", cwd=folder)
    with ModelServer(script, now=time.time) as server:
        provider = (
            AnthropicProvider(model_name, "no-key", server.anthropic_url)
            if protocol == "anthropic"
            else OpenAIProvider(model_name, "no-key", server.openai_url)
        )
        options = RunOptions(policy="llm", model=f"{protocol}:{model_name}")
        experiment = begin(blueprint, result_dir, options, time.time)
        transcript = Transcript(result_dir / "transcript.jsonl", Secrets())
        model = Model(provider, price, Limits(), experiment.record, transcript, time)
        hands = SimulatedHands(experiment, training, time)
        try:
            end = await loop.run(hands, LlmPolicy(experiment, model, asyncio.Event()))  # type: ignore[arg-type]
        finally:
            await model.close()
            experiment.close()
    attempts = len(experiment.state.attempts)
    return Run(end.outcome, attempts, tuple(_wakes(experiment, server.log)))


def _wakes(experiment: Experiment, log: list[Exchange]) -> Iterator[Wake]:
    """The calls in the order in which they were made, by the question they belong to."""
    calls = iter(log)
    wake: Wake | None = None
    for entry in experiment.journal.entries:
        if isinstance(entry.event, Consult):
            wake = Wake(entry.event.topic)
            yield wake
        elif isinstance(entry.event, LlmSettled):
            assert wake is not None
            wake.calls.append(next(calls))
