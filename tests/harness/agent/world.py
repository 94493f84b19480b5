"""A world without processes: hands whose effects are entries in a dictionary, to be killed at any point."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness.agent.verdict import verdict
from harness.experiment import Experiment
from harness.journal import Owner
from harness.observation import Observation, Progress
from harness.options import RunOptions
from tests.harness.results.narrative.written import run_evidence
from tests.harness.runs import record, result_of


class Killed(BaseException):
    """What kill -9 looks like from the inside: nothing after it runs, and nothing catches it."""


class World:
    """Everything outside the harness: it stays when the harness is killed."""

    def __init__(
        self, ends: list[dict[str, Any]], max_time_s: float = 1000.0, preflight_ok: bool = True
    ) -> None:
        self.now = 1000.0
        self.ends = ends
        self.max_time_s = max_time_s
        self.preflight_ok = preflight_ok
        self.launches: set[str] = set()  # as with launch.sh, launching an attempt again has no effect
        self.seals = 0
        self.named: dict[str, Any] = {}  # what comes of a cause that a model names

    def clock(self) -> float:
        return self.now


ALWAYS: dict[str, dict[str, Any]] = {
    **{"prepare": {}, "report": {"headline": []}, "read_pane": {"text": "the last lines"}},
    "render_config": {"changes": [], "text": "ajet: {}"},
}
"""What some actions come to whatever the world is like."""


class FakeExecutor:
    """Carries actions out on a `World`; `kill_at` counts the moments before and after each act."""

    def __init__(self, experiment: Experiment, world: World, kill_at: int | None = None) -> None:
        self.experiment, self.world, self.kill_at = experiment, world, kill_at
        self.first_step_overdue = False
        self.progress: Progress | None = None

    def _moment(self) -> None:
        if self.kill_at is not None:
            if self.kill_at == 0:
                raise Killed
            self.kill_at -= 1

    def observe(self) -> Observation:
        evidence = run_evidence()
        is_running = self.experiment.state.trains
        return Observation(
            self.experiment.state,
            self.world.now,
            self.first_step_overdue,
            progress=self.progress if is_running else None,
            evidence=evidence,
        )

    def refuse(self, action: Any) -> str | None:
        return None

    async def ask_for_approval(self, action: Any) -> tuple[Any, str | None]:
        return action, None

    async def act(self, action: Any) -> Any:
        self._moment()
        outcome = getattr(self, action.kind)(action) if action.kind not in ALWAYS else ALWAYS[action.kind]
        self._moment()
        return None if action.kind == "finish" else result_of(action.kind, outcome)

    def check(self, action: Any) -> dict[str, Any]:
        ok = self.world.preflight_ok
        return {"can_run": ok, "problems": [] if ok else ["no such interpreter"], "warnings": []}

    def launch(self, action: Any) -> dict[str, Any]:
        self.world.launches.add(action.attempt_id)
        return {"launched_at": self.world.now, "command": "train"}

    def wait(self, action: Any) -> dict[str, Any]:
        self.world.now += 10
        end = self.world.ends[self.experiment.state.attempt.number - 1]
        return {"reason": "exited", "ended": {"ended_at": self.world.now, "rows": 1, **end}}

    def pause(self, action: Any) -> dict[str, Any]:
        self.world.now = max(self.world.now, action.until)
        return {}

    def stop(self, action: Any) -> dict[str, Any]:
        ended = {"reason": "stopped", "status": 143, "complete": False, "last_step": 3}
        ended["ended_at"] = self.world.now
        return {"ended": ended, "why": action.why, "detail": action.detail}

    def diagnose(self, action: Any) -> dict[str, Any]:
        return {"diagnosis": self.world.ends[len(self.experiment.state.attempts) - 1]["diagnosis"]}

    def name_cause(self, action: Any) -> dict[str, Any]:
        return {"diagnosis": self.world.named}

    def collect(self, action: Any) -> dict[str, Any]:
        judged = verdict(self.experiment.state, self.world.now)
        return {"outcome": judged.outcome.value, "reason": judged.reason}

    def set_environment(self, action: Any) -> dict[str, Any]:
        change = {"kind": "environment", "what": action.name, "old": None, "new": action.value}
        return {"changes": [{**change, "why": action.why}], "text": "set"}

    def note(self, action: Any) -> dict[str, Any]:
        return {"text": action.text}

    def write_sections(self, action: Any) -> dict[str, Any]:
        return {"written": {each.section: each.as_json() for each in action.sections}, "left_out": []}

    def finish(self, action: Any) -> dict[str, Any]:
        record(self.experiment, "finish", outcome=action.outcome.value, reason=action.reason)
        return {}

    def seal(self) -> None:
        self.world.seals += 1


def done(last_step: int = 40) -> dict[str, Any]:
    return {"reason": "exited", "status": 0, "complete": True, "last_step": last_step}


def failed(signature: str | None, transient: bool, last_step: int = 5) -> dict[str, Any]:
    waiting = [{"name": "wait_and_retry", "kind": "wait", "wait_s": 30.0}] if transient else []
    known = {"signature": signature, "transient": transient, "cause": f"because of {signature}."}
    diagnosis = {**known, "wait_s": 30.0, "repairs": waiting}
    return {**done(last_step), "status": 1, "complete": False, "diagnosis": diagnosis}


def new_experiment(folder: Path, world: World, options: RunOptions | None = None, **plan: Any) -> Experiment:
    """The experiment in this folder, with these sections of a blueprint: begun, or taken over from a harness
    that was killed."""
    folder.mkdir(exist_ok=True)
    experiment = Experiment(folder, world.clock)
    if not experiment.state.experiment_id:
        plan = {"max_time_s": world.max_time_s, "yaml_path": None, "launch_command": "train", **plan}
        named = {"experiment_id": "7f3a00000000", "name": "sort digits", "policy": "playbook"}
        record(experiment, "created", **named, deadline_at=world.now + world.max_time_s, plan=plan)
        if options is not None:
            record(experiment, "options", **asdict(options))
        if not (folder / "blueprint.md").exists():
            (folder / "blueprint.md").write_text("# A plan\n")
    elif experiment.state.finished_at is None:
        experiment.record(Owner.this_process())
    return experiment


def launch(experiment: Experiment, number: int = 1, checkpoint: str | None = None, **ended: Any) -> None:
    """Have an attempt launched, and ended where its end is given."""
    attempt_id = f"{experiment.state.experiment_id}-{number:02d}"
    args = {"attempt": number, "session": f"s-{number:02d}", "attempt_id": attempt_id, "why": "first"}
    record(experiment, "intent", action="launch", args=args)
    record(experiment, "outcome", action="launch", launched_at=1000.0, command="train", checkpoint=checkpoint)
    if ended:
        record(experiment, "outcome", action="wait", ended=ended)
