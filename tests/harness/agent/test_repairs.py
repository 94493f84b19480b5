"""From a failure to a repair that works: what the playbook tries, in which order, and when it stops."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from harness import launching
from harness.actions import arguments
from harness.agent import loop
from harness.agent.playbook import Playbook
from harness.agent.replay import replay
from harness.experiment import Experiment
from harness.journal import events_of, read
from harness.journal.events import Checked, Intent
from harness.observation import Observation
from harness.options import RunOptions
from harness.pending_changes import PREPARING, PendingChanges
from harness.repair import apply_changes, installing, repair_plan
from harness.repair.remedies.situation import Settings
from harness.state import ExperimentState, Outcome
from tests.harness.agent.world import FakeExecutor, Killed, World, done, new_experiment
from tests.harness.runs import found as found_by
from tests.harness.runs import record

CONFIG = """\
ajet:
  backbone: verl
  data: {max_prompt_length: 1000, max_response_length: 2000, train_batch_size: 32}
  rollout: {gpu_memory_utilization: 0.85, max_num_seqs: 64}   # of 80 GiB
  trainer_common:
    seed: 7
    fsdp_config: {param_offload: false, optimizer_offload: false}
  interchange_server: {interchange_server_port: 18000}
"""
SHARE = "ajet.rollout.gpu_memory_utilization"
OPTIMIZER = "ajet.trainer_common.fsdp_config.optimizer_offload"
PORT = "ajet.interchange_server.interchange_server_port"
OOM = {
    "signature": "gpu_oom_update",
    "family": "gpu_oom",
    "cause": "GPU memory ran out in the update.",
    "confidence": 0.9,
    "remedies": ["lower_gpu_memory_utilization", "offload_optimizer", "lower_concurrent_sequences"],
}

Fate = Callable[[Mapping[str, Any], Mapping[str, str], int], dict[str, Any]]
Problems = Callable[[PendingChanges], list[dict[str, Any]]]


def failed(last_step: int = 3, **diagnosis: Any) -> dict[str, Any]:
    """An end, and what its diagnosis will be."""
    said = {"transient": False, "wait_s": 0.0, "captures": {}, "evidence": [], **diagnosis}
    return {"reason": "exited", "status": 1, "complete": False, "last_step": last_step, "diagnosis": said}


class RepairWorld(World):
    """How an attempt ends follows from its config, its environment and its number; `problems`: what the
    check finds, given what is changed."""

    def __init__(self, fate: Fate, problems: Problems = lambda draft: [], max_time_s: float = 1e4) -> None:
        super().__init__([], max_time_s)
        self.fate = fate
        self.problems = problems
        self.fates: list[dict[str, Any]] = []


class RepairExecutor(FakeExecutor):
    """Prepares repairs as the real hands do; only training and the machine are made up."""

    world: RepairWorld

    def observe(self) -> Observation:
        state = self.experiment.state
        between = state.attempt is None or not state.attempt.is_running
        config = apply_changes.config_before(self.experiment) if between else ""
        return Observation(state, self.world.now, config=config, result_dir=self.experiment.dir)

    async def act(self, action: Any) -> Any:
        if action.kind not in PREPARING:
            return await super().act(action)
        self._moment()
        outcome = apply_changes.prepare(action, self.experiment, lambda _, draft: self.checked(draft))
        self._moment()
        return outcome

    def check(self, action: Any) -> dict[str, Any]:
        return self.checked(self.experiment.state.draft)

    def checked(self, draft: PendingChanges) -> Checked:
        """What the check says of a launch with this draft: the world's own problems."""
        causes = tuple(map(found_by, self.world.problems(draft)))
        return Checked(not causes, tuple(each.cause for each in causes), causes=causes)

    def launch(self, action: Any) -> dict[str, Any]:
        files = self.experiment.attempt_files(action.attempt)
        files.dir.mkdir(parents=True, exist_ok=True)
        previous = self.experiment.attempt_files(action.attempt - 1) if action.attempt > 1 else None
        text = launching.base_config(self.experiment.blueprint, previous, None) or ""
        assert self.experiment.state.attempt is not None
        files.config.write_text(self.experiment.state.attempt.draft.apply(text))
        return super().launch(action)

    def wait(self, action: Any) -> dict[str, Any]:
        state = self.experiment.state
        number = len(state.attempts)
        self.world.now += 10
        values = Settings.read(self.experiment.attempt_files(number).config.read_text()).values
        end = self.world.fate(values, state.environment, number)
        self.world.fates.append(end)
        return {"reason": "exited", "ended": {"ended_at": self.world.now, "rows": 1, **end}}

    def diagnose(self, action: Any) -> dict[str, Any]:
        known = found_by(self.world.fates[-1]["diagnosis"])
        repairs = repair_plan.repairs(self.experiment, known)
        return {"diagnosis": replace(known, repairs=repairs)}


def experiment_in(
    folder: Path, world: World, options: RunOptions | None = None, config: str = CONFIG, **plan: Any
) -> Experiment:
    """An experiment with a config of its own."""
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text(config)
    given = {"name": "sort digits", "path": f"{folder}/blueprint.md", "codebase_dir": str(folder)}
    given |= {"yaml_path": f"{folder}/config.yaml", "launch_command": None, "venv_exe": sys.executable}
    return new_experiment(folder, world, options or RunOptions(), **{**given, **plan})


async def run(
    folder: Path,
    fate: Fate,
    options: RunOptions | None = None,
    problems: Problems = lambda draft: [],
    max_time_s: float = 1e4,
    **plan: Any,
) -> ExperimentState:
    """Carry an experiment to its end and return its state."""
    world = RepairWorld(fate, problems, max_time_s)
    experiment = experiment_in(folder, world, options, **plan)
    await loop.run(RepairExecutor(experiment, world), Playbook())
    experiment.close()
    again = await asyncio.to_thread(lambda: list(replay(folder)))
    assert again and not [decision for decision in again if decision.differs], "the same decisions once more"
    return experiment.state


def changes(state: ExperimentState) -> list[list[tuple[str, Any]]]:
    """What was changed for each attempt."""
    return [[(each.what, each.new) for each in attempt.draft.changes] for attempt in state.attempts]


def until(key: str, holds: Callable[[Any], bool], **diagnosis: Any) -> Fate:
    """It fails in this way until the key has such a value."""
    return lambda values, env, n: done() if holds(values[key]) else failed(**diagnosis)


def below(value: float) -> bool:
    return value < 0.85


async def test_memory_that_ran_out_is_made(tmp_path: Path) -> None:
    state = await run(tmp_path, until(SHARE, below, **OOM))
    assert state.verdict is not None and state.verdict.outcome is Outcome.SUCCEEDED
    assert changes(state) == [[], [(SHARE, 0.75)]]
    change = state.attempts[1].draft.changes[0]
    assert change.remedy == "lower_gpu_memory_utilization"
    assert change.why.startswith("gpu_oom_update, lower_gpu_memory_utilization: ")
    written = (tmp_path / "attempts" / "02" / "config.yaml").read_text()
    assert written == CONFIG.replace("0.85", "0.75"), "comments and order stay"


async def test_with_progress_it_may_go_on(tmp_path: Path) -> None:
    state = await run(tmp_path, lambda values, env, n: done() if n == 5 else failed(last_step=n, **OOM))
    assert state.verdict is not None and state.verdict.outcome is Outcome.SUCCEEDED
    shares = [values for attempt in changes(state) for values in attempt if values[0] == SHARE]
    assert shares == [(SHARE, 0.75), (SHARE, 0.65)], "after the others, once more and further"


async def test_two_variables_are_one_repair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = {"signature": "threads", "cause": "no thread", "confidence": 0.9, "remedies": ["fewer_threads"]}
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    state = await run(tmp_path, lambda values, env, n: done() if set(names) <= set(env) else failed(**many))
    assert [name for name, _ in changes(state)[1]] == list(names) and len(state.attempts) == 2


LOST = {"signature": "lost", "cause": "lost", "transient": True, "confidence": 0.9}


async def test_a_passing_cause_is_waited_for_twice_as_long_and_then_given_up(tmp_path: Path) -> None:
    state = await run(tmp_path, lambda values, env, n: failed(**{**LOST, "wait_s": 30.0}))
    first, second, third = (attempt.launched_at for attempt in state.attempts)
    assert (second - first, third - second) == (10 + 30, 10 + 60)


async def test_nothing_is_waited_for_beyond_the_time_limit(tmp_path: Path) -> None:
    slow = {**LOST, "wait_s": 900.0, "remedies": ["wait_and_retry"]}
    state = await run(tmp_path, lambda values, env, n: failed(**slow), max_time_s=800.0)
    acted = [intent.action for intent in events_of(read(tmp_path / "journal.jsonl"), Intent)]
    assert "pause" not in acted and len(state.attempts) == 1
    assert acted[-3:] == ["collect", "report", "finish"]


async def test_a_failing_installation_is_no_circle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(python: Path, package: str) -> str:
        raise installing.InstallError("no network")

    monkeypatch.setattr(installing, "install", fail)
    missing = {"signature": "module_missing", "cause": "cv2 is missing", "remedies": ["install_package"]}
    fate: Fate = lambda values, env, n: failed(**missing, confidence=0.9, captures={"module": "cv2"})  # noqa: E731
    state = await run(tmp_path, fate, RunOptions(allow_install=True), venv_exe=own_python(tmp_path))
    assert state.verdict is not None and state.verdict.outcome is Outcome.FAILED
    assert len(state.attempts) == 1 and state.unusable == {"install_package"}


def own_python(folder: Path) -> str:
    """The interpreter of an environment that is the experiment's own."""
    (folder / "venv" / "bin").mkdir(parents=True)
    (folder / "venv" / "pyvenv.cfg").touch()
    return str(folder / "venv" / "bin" / "python")


@pytest.mark.parametrize(("took_s", "fails"), [(10, False), (400, False), (400, True)])
async def test_a_long_training_is_tried_before_its_repaired_launch(
    tmp_path: Path, took_s: float, fails: bool
) -> None:
    fate: Fate = lambda values, env, n: {  # noqa: E731
        **(failed(**OOM) if n == 1 else done()),
        "started_at": 0.0,
        "ended_at": took_s,
    }
    world = RepairWorld(fate)
    experiment = experiment_in(tmp_path, world)
    executor = RepairExecutor(experiment, world)
    tried: list[str] = []

    def smoke_run(action: Any) -> dict[str, Any]:
        tried.append(changes_of(experiment.state.draft)[-1])
        return {"failed": fails and len(tried) == 1}

    executor.smoke_run = smoke_run  # type: ignore[attr-defined]
    await loop.run(executor, Playbook())
    experiment.close()
    assert tried == {(10, False): [], (400, False): [SHARE], (400, True): [SHARE, OPTIMIZER]}[took_s, fails]
    assert experiment.state.verdict is not None and experiment.state.verdict.outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize(
    ("given", "cause", "outcome", "tried"),
    [
        ({}, OOM, Outcome.SUCCEEDED, [[], [SHARE]]),
        ({}, {"family": "code_error", "cause": "No such name.", "confidence": 0.9}, Outcome.CANNOT_RUN, [[]]),
        ({}, {"family": "unknown", "cause": "Nobody knows.", "confidence": 0.0}, Outcome.SUCCEEDED, [[]]),
        ({}, {**OOM, "transient": True}, Outcome.SUCCEEDED, [[]]),
        ({"options": RunOptions(smoke=False)}, OOM, Outcome.SUCCEEDED, []),
        ({"lines": {}}, OOM, Outcome.SUCCEEDED, []),
        ({"max_time_s": 3600.0}, OOM, Outcome.SUCCEEDED, []),
    ],
    ids=["repaired", "stops it", "unknown", "passes", "switched off", "no time is named", "an hour"],
)
async def test_a_long_run_is_tried_before_its_first_launch(
    tmp_path: Path, given: dict[str, Any], cause: dict[str, Any], outcome: Outcome, tried: list[list[str]]
) -> None:
    given = {"lines": {"exp_max_time": 3}, "max_time_s": 7200.0, **given}
    world = RepairWorld(lambda values, env, n: done(), max_time_s=given.pop("max_time_s"))
    experiment = experiment_in(tmp_path, world, **given)
    executor, seen = RepairExecutor(experiment, world), list[list[str]]()

    def smoke_run(action: Any) -> dict[str, Any]:
        seen.append(changes_of(experiment.state.draft))
        found = {"signature": None, **cause}
        return {"failed": True, "cause": found} if len(seen) == 1 else {"failed": False, "steps": 1}

    executor.smoke_run = smoke_run  # type: ignore[attr-defined]
    await loop.run(executor, Playbook())
    experiment.close()
    assert seen == tried
    judged = experiment.state.verdict
    assert judged is not None and judged.outcome is outcome
    stopped = outcome is Outcome.CANNOT_RUN
    assert (len(experiment.state.attempts) == 0) == stopped == ("No such name." in judged.reason)


def changes_of(draft: PendingChanges) -> list[str]:
    return [change.what for change in draft.changes]


async def test_what_a_person_does_not_approve_gives_way_to_the_next(tmp_path: Path) -> None:
    world = RepairWorld(lambda values, env, n: failed(**OOM) if n == 1 else done())
    experiment = experiment_in(tmp_path, world)
    executor = RepairExecutor(experiment, world)
    asked: list[list[str]] = []

    async def ask(action: Any) -> tuple[Any, str | None]:
        if action.kind != "edit_config":
            return action, None
        asked.append(list(action.changes))
        if action.changes == {OPTIMIZER: True}:
            return action, None
        record(experiment, "denied", action=action.kind, args=arguments(action), by="ada")
        return action, "a person did not approve this (ada)"

    executor.ask_for_approval = ask  # type: ignore[method-assign]
    await loop.run(executor, Playbook())
    experiment.close()
    assert asked == [[SHARE], [OPTIMIZER]]
    assert changes(experiment.state)[1] == [(OPTIMIZER, True)]


@pytest.mark.parametrize("moment", range(0, 36, 3))
async def test_killed_at_any_moment_a_repair_is_made_once(tmp_path: Path, moment: int) -> None:
    world = RepairWorld(until(SHARE, below, **OOM))
    for kill_at in (moment, moment // 2, None):
        experiment = experiment_in(tmp_path, world)
        try:
            await loop.run(RepairExecutor(experiment, world, kill_at), Playbook())
        except Killed:
            continue
        finally:
            experiment.close()
        break
    assert changes(experiment.state) == [[], [(SHARE, 0.75)]] and len(world.launches) == 2


KILL = {"signature": "killed", "cause": "It was killed by SIGKILL.", "transient": True, "confidence": 0.6}


def found(remedies: list[str], family: str = "port_in_use", **captures: str) -> dict[str, Any]:
    """A problem as the check writes it down."""
    return {"family": family, "cause": f"{family}: {captures}", "captures": captures, "remedies": remedies}


TAKEN = found(["free_port"], port="18000", free_port="31234")
HOPELESS = found([], family="path_not_found")
FINE: Fate = lambda values, env, n: done()  # noqa: E731


def port_taken(draft: PendingChanges) -> list[dict[str, Any]]:
    return [] if draft.config.get(PORT) == 31234 else [TAKEN]


async def test_before_the_first_launch_a_repair_that_does_not_help_is_made_once(tmp_path: Path) -> None:
    ports = map(str, range(30000, 31000))
    problems: Problems = lambda draft: [found(["free_port"], port="18000", free_port=next(ports))]  # noqa: E731
    state = await run(tmp_path, FINE, problems=problems)
    assert state.verdict is not None and state.verdict.outcome is Outcome.CANNOT_RUN
    assert not state.attempts and len(state.draft.changes) == 1


@pytest.mark.parametrize("allowed", [True, False])
async def test_packages_are_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool) -> None:
    there: list[str] = []
    monkeypatch.setattr(installing, "install", lambda python, package: there.append(package) or "1.0")
    missing = {"einops": "einops", "cv2": "opencv-python-headless"}

    def problems(draft: PendingChanges) -> list[dict[str, Any]]:
        lacking = [module for module, package in missing.items() if package not in there]
        return [found(["install_package"], "module_not_found", module=module) for module in lacking]

    options = RunOptions(allow_install=allowed)
    state = await run(tmp_path, FINE, options, problems, venv_exe=own_python(tmp_path))
    assert state.verdict is not None
    assert state.verdict.outcome is (Outcome.SUCCEEDED if allowed else Outcome.CANNOT_RUN)
    assert there == (list(missing.values()) if allowed else [])


async def test_a_kill_at_any_moment_before_the_first_launch_changes_nothing(tmp_path: Path) -> None:
    for moment in range(12):
        folder = tmp_path / str(moment)
        world = RepairWorld(FINE, port_taken)
        experiment = experiment_in(folder, world)
        try:
            await loop.run(RepairExecutor(experiment, world, moment), Playbook())
        except Killed:
            experiment.close()
            experiment = Experiment.open(folder, world.clock)
            await loop.run(RepairExecutor(experiment, world), Playbook())
        assert changes(experiment.state) == [[(PORT, 31234)]] and len(world.launches) == 1
        assert experiment.state.attempts[0].draft.remedies == ("free_port",)
        experiment.close()


async def test_a_refused_measure_gives_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.repair.leftovers.owned", lambda experiment, what: 1)
    monkeypatch.setattr("harness.repair.leftovers.free", lambda experiment, what: 1)
    full = {**OOM, "remedies": ["free_leftovers", "lower_gpu_memory_utilization"]}

    def problems(draft: PendingChanges) -> list[dict[str, Any]]:
        return [HOPELESS] if draft.measures and SHARE not in draft.config else []

    state = await run(tmp_path, until(SHARE, below, **full), problems=problems)
    assert state.verdict is not None and state.verdict.outcome is Outcome.SUCCEEDED
    assert state.attempts[1].draft.remedies == ("free_leftovers", "lower_gpu_memory_utilization")


async def test_where_the_check_refuses_everything_nothing_is_launched(tmp_path: Path) -> None:
    problems: Problems = lambda draft: [] if draft.is_empty else [HOPELESS]  # noqa: E731
    state = await run(tmp_path, lambda values, env, n: failed(**OOM), problems=problems)
    assert state.verdict is not None and state.verdict.outcome is Outcome.FAILED
    assert len(state.attempts) == 1 and state.unusable == set(OOM["remedies"])


@dataclass(frozen=True)
class Case:
    """A course of failures, and what was changed for each attempt until it ended."""

    fate: Fate
    changes: list[list[tuple[str, Any]]]
    outcome: Outcome = Outcome.SUCCEEDED
    problems: Problems = lambda draft: []
    plan: Mapping[str, Any] = field(default_factory=dict)


SLOW = {**LOST, "cause": "wandb", "wait_s": 5.0, "remedies": ["wait_and_retry", "tracker_offline"]}
FAILED, CANNOT_RUN = Outcome.FAILED, Outcome.CANNOT_RUN
LOWER, OFFLOAD = [(SHARE, 0.75)], [(OPTIMIZER, True)]
FOLLOWED = CONFIG + "  extra: {temperature: '${..rollout.gpu_memory_utilization}'}\n"
ALWAYS: Fate = lambda values, env, n: failed(**OOM)  # noqa: E731
OFFLOADED = until(OPTIMIZER, bool, **OOM)
CASES = {
    "the same failure leads to the next repair on top": Case(
        lambda values, env, n: done() if below(values[SHARE]) and values[OPTIMIZER] else failed(**OOM),
        [[], LOWER, OFFLOAD],
    ),
    "the same cause without progress ends it after three repairs": Case(
        ALWAYS, [[], LOWER, OFFLOAD, [("ajet.rollout.max_num_seqs", 32)]], FAILED
    ),
    "a protected key stays and the next repair is taken": Case(
        OFFLOADED, [[], OFFLOAD], plan={"protected_keys": [SHARE]}
    ),
    "what can be done against a passing cause comes after a wait": Case(
        lambda values, env, n: done() if "WANDB_MODE" in env else failed(**SLOW),
        [[], [], [("WANDB_MODE", "offline")]],
    ),
    "what the rules refuse gives way to the next": Case(OFFLOADED, [[], OFFLOAD], plan={"config": FOLLOWED}),
    "a doubtful diagnosis changes nothing": Case(
        lambda values, env, n: failed(**{**OOM, "confidence": 0.3}), [[]], FAILED
    ),
    "killed, with steps done, it goes on": Case(
        lambda values, env, n: done() if n == 2 else failed(last_step=20, **KILL), [[], []]
    ),
    "killed at once twice ends it": Case(
        lambda values, env, n: failed(last_step=0, **KILL), [[], []], FAILED
    ),
    "killed further on each time it goes on to the limit": Case(
        lambda values, env, n: failed(last_step=20 * n, **KILL), [[]] * 5, FAILED
    ),
    "before the first launch a taken port is changed and checked again": Case(
        until(PORT, lambda port: port == 31234), [[(PORT, 31234)]], problems=port_taken
    ),
    "nothing is changed where something stays that only a person can solve": Case(
        FINE, [], CANNOT_RUN, lambda draft: [TAKEN, HOPELESS]
    ),
    "a protected port stays": Case(FINE, [], CANNOT_RUN, lambda draft: [TAKEN], {"protected_keys": [PORT]}),
    "a repair that the check refuses gives way to the next": Case(
        OFFLOADED, [[], OFFLOAD], problems=lambda draft: [HOPELESS] if SHARE in draft.config else []
    ),
    "what the check finds meanwhile is repaired on top": Case(
        until(SHARE, below, **OOM),
        [[], [*LOWER, (PORT, 31234)]],
        problems=lambda draft: port_taken(draft) if SHARE in draft.config else [],
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_the_course_of_repairs(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    state = await run(tmp_path, case.fate, problems=case.problems, **case.plan)
    assert state.verdict is not None and state.verdict.outcome is case.outcome
    assert changes(state) == case.changes
    assert state.draft.is_empty, "no further repair was begun"
