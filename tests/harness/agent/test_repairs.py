"""From a failure to a repair that works: what the playbook tries, in which order, and when it stops."""

import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness import launching
from harness.agent import loop
from harness.agent.playbook import Playbook
from harness.agent.repairing import choosing, installing, preparing
from harness.agent.replay import replay
from harness.agent.types import Observation
from harness.diagnosis.remedies.settings import Settings
from harness.draft import Change
from harness.experiment import Experiment
from harness.options import RunOptions
from harness.state import ExperimentState, Outcome
from tests.harness.agent.world import FakeHands, Killed, World, done

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


def failed(last_step: int = 3, **diagnosis: Any) -> dict[str, Any]:
    """An end, and what its diagnosis will be."""
    said = {"transient": False, "wait_s": 0.0, "captures": {}, "evidence": [], **diagnosis}
    return {
        "reason": "exited",
        "status": 1,
        "complete": False,
        "last_step": last_step,
        "diagnosis": said,
    }


class RepairWorld(World):
    """How an attempt ends follows from its config, its environment and its number."""

    def __init__(self, fate: Fate) -> None:
        super().__init__([])
        self.fate = fate
        self.max_time_s = 10_000.0
        self.launched_at: list[float] = []


class RepairHands(FakeHands):
    """Prepares repairs as the real hands do; only training and the machine are made up."""

    world: RepairWorld

    def observe(self) -> Observation:
        state = self.experiment.state
        between = state.attempt is None or not state.attempt.is_running
        config = preparing.config_before(self.experiment) if between else ""
        return Observation(state, self.world.now, config=config, result_dir=self.experiment.dir)

    async def act(self, action: Any) -> dict[str, Any]:
        if not isinstance(action, preparing.PREPARING):
            return await super().act(action)
        self._moment()
        outcome = preparing.prepare(action, self.experiment)
        self._moment()
        return outcome

    def launch(self, action: Any) -> dict[str, Any]:
        files = self.experiment.attempt_files(action.attempt)
        files.dir.mkdir(parents=True, exist_ok=True)
        if action.attempt_id not in self.world.launches:
            self.world.launched_at.append(self.world.now)
        previous = self.experiment.attempt_files(action.attempt - 1) if action.attempt > 1 else None
        text = launching.base_config(self.experiment.plan, previous, None) or ""
        assert self.experiment.state.attempt is not None
        files.config.write_text(self.experiment.state.attempt.draft.apply(text))
        return super().launch(action)

    def wait(self, action: Any) -> dict[str, Any]:
        state = self.experiment.state
        number = len(state.attempts)
        self.world.now += 10
        values = Settings.read(self.experiment.attempt_files(number).config.read_text()).values
        end = self.world.fate(values, state.environment, number)
        return {"reason": "exited", "ended": {"ended_at": self.world.now, "rows": 1, **end}}

    def diagnose(self, action: Any) -> dict[str, Any]:
        assert self.experiment.state.attempt is not None
        found = (self.experiment.state.attempt.ended or {})["diagnosis"]
        return {"diagnosis": {**found, "repairs": choosing.repairs(self.experiment, found)}}


def experiment_in(folder: Path, world: World, options: RunOptions | None = None, **plan: Any) -> Experiment:
    """An experiment with a config of its own."""
    config = folder / "config.yaml"
    config.write_text(CONFIG)
    experiment = Experiment(folder, world.clock)
    if not experiment.state.experiment_id:
        given = {
            "name": "sort digits",
            "path": str(folder / "blueprint.md"),
            "yaml_path": str(config),
            "launch_command": None,
            "codebase_dir": str(folder),
            "venv_exe": sys.executable,
            "max_time_s": world.max_time_s,
            "protected_keys": [],
        }
        experiment.record(
            "created",
            experiment_id="7f3a00000000",
            name="sort digits",
            deadline_at=world.now + world.max_time_s,
            policy="playbook",
            plan={**given, **plan},
        )
        experiment.record("options", **(options or RunOptions()).as_json())
    return experiment


async def run(folder: Path, fate: Fate, options: RunOptions | None = None, **plan: Any) -> ExperimentState:
    """Carry an experiment to its end and return its state."""
    world = RepairWorld(fate)
    experiment = experiment_in(folder, world, options, **plan)
    await loop.run(RepairHands(experiment, world), Playbook())
    experiment.close()
    again = await asyncio.to_thread(lambda: list(replay(folder)))
    assert again and not [decision for decision in again if decision.differs], "the same decisions once more"
    return experiment.state


def changes(state: ExperimentState) -> list[list[tuple[str, Any]]]:
    """What was changed for each attempt."""
    return [[(each.what, each.new) for each in attempt.draft.changes] for attempt in state.attempts]


async def test_memory_that_ran_out_is_made(tmp_path: Path) -> None:
    state = await run(tmp_path, lambda values, env, n: done() if values[SHARE] < 0.85 else failed(**OOM))
    assert state.verdict is not None and state.verdict.outcome is Outcome.SUCCEEDED
    assert changes(state) == [[], [(SHARE, 0.75)]]
    change = state.attempts[1].draft.changes[0]
    assert change.remedy == "lower_gpu_memory_utilization" and change.why.startswith(
        "gpu_oom_update, lower_gpu_memory_utilization: "
    )
    written = (tmp_path / "attempts" / "02" / "config.yaml").read_text()
    assert written == CONFIG.replace("0.85", "0.75"), "comments and order stay"


async def test_the_same_failure_leads_to_the_next_repair_on_top(tmp_path: Path) -> None:
    def fate(values: Mapping[str, Any], env: Mapping[str, str], number: int) -> dict[str, Any]:
        return done() if values[SHARE] < 0.85 and values[OPTIMIZER] else failed(**OOM)

    state = await run(tmp_path, fate)
    assert state.verdict is not None and state.verdict.outcome is Outcome.SUCCEEDED
    assert changes(state) == [[], [(SHARE, 0.75)], [(OPTIMIZER, True)]]


async def test_the_same_cause_without_progress_ends_it(tmp_path: Path) -> None:
    state = await run(tmp_path, lambda values, env, n: failed(**OOM))
    assert state.verdict is not None and state.verdict.outcome is Outcome.FAILED
    assert len(state.attempts) == 4 and state.draft.is_empty, "three repairs, and no fourth is begun"


async def test_with_progress_it_may_go_on(tmp_path: Path) -> None:
    state = await run(tmp_path, lambda values, env, n: done() if n == 5 else failed(last_step=n, **OOM))
    assert state.verdict is not None and state.verdict.outcome is Outcome.SUCCEEDED
    shares = [values for attempt in changes(state) for values in attempt if values[0] == SHARE]
    assert shares == [(SHARE, 0.75), (SHARE, 0.65)], "after the others, once more and further"


async def test_a_protected_key_stays_and_the_next_repair_is_taken(tmp_path: Path) -> None:
    fate: Fate = lambda values, env, n: done() if values[OPTIMIZER] else failed(**OOM)  # noqa: E731
    state = await run(tmp_path, fate, protected_keys=[SHARE])
    assert changes(state) == [[], [(OPTIMIZER, True)]]
    assert not any(entry.what == SHARE for attempt in state.attempts for entry in attempt.draft.changes)


async def test_a_taken_port_is_changed(tmp_path: Path) -> None:
    taken = {"signature": "port_in_use", "cause": "taken", "confidence": 0.9, "remedies": ["free_port"]}
    fate: Fate = lambda values, env, n: (  # noqa: E731
        failed(**taken, captures={"port": "18000"}) if values[PORT] == 18000 else done()
    )
    state = await run(tmp_path, fate)
    assert state.verdict is not None and state.verdict.outcome is Outcome.SUCCEEDED
    ((key, port),) = changes(state)[1]
    assert key == PORT and 1024 <= port < 65536 and port != 18000


async def test_two_variables_are_one_repair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = {"signature": "threads", "cause": "no thread", "confidence": 0.9, "remedies": ["fewer_threads"]}
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    state = await run(tmp_path, lambda values, env, n: done() if set(names) <= set(env) else failed(**many))
    assert [name for name, _ in changes(state)[1]] == list(names) and len(state.attempts) == 2


async def test_a_passing_cause_is_waited_for_twice_as_long_and_then_given_up(tmp_path: Path) -> None:
    lost = {
        "signature": "connection_lost",
        "cause": "lost",
        "transient": True,
        "wait_s": 30.0,
        "confidence": 0.9,
    }
    world = RepairWorld(lambda values, env, n: failed(**lost))
    experiment = experiment_in(tmp_path, world)
    await loop.run(RepairHands(experiment, world), Playbook())
    experiment.close()
    first, second, third = world.launched_at
    assert (second - first, third - second) == (10 + 30, 10 + 60)


async def test_what_can_be_done_against_a_passing_cause_comes_after_a_wait(tmp_path: Path) -> None:
    slow = {
        **{"signature": "hub_slow", "cause": "wandb", "transient": True, "wait_s": 5.0, "confidence": 0.9},
        "remedies": ["wait_and_retry", "tracker_offline"],
    }
    state = await run(tmp_path, lambda values, env, n: done() if "WANDB_MODE" in env else failed(**slow))
    assert changes(state) == [[], [], [("WANDB_MODE", "offline")]]


async def test_a_doubtful_diagnosis_changes_nothing(tmp_path: Path) -> None:
    state = await run(tmp_path, lambda values, env, n: failed(**{**OOM, "confidence": 0.3}))
    assert len(state.attempts) == 1 and state.draft.is_empty


class TestInstalling:
    MISSING = {  # noqa: RUF012
        "signature": "module_missing",
        "cause": "cv2 is missing",
        "confidence": 0.9,
        "captures": {"module": "cv2"},
        "remedies": ["install_package"],
    }

    @pytest.fixture
    def venv(self, tmp_path: Path) -> str:
        (tmp_path / "venv" / "bin").mkdir(parents=True)
        (tmp_path / "venv" / "pyvenv.cfg").touch()
        return str(tmp_path / "venv" / "bin" / "python")

    def fate(self, installed: list[str]) -> Fate:
        return lambda values, env, n: done() if installed else failed(**self.MISSING)

    async def test_not_without_permission(self, tmp_path: Path, venv: str) -> None:
        state = await run(tmp_path, self.fate([]), venv_exe=venv)
        assert len(state.attempts) == 1

    async def test_with_permission_and_told_as_a_change(
        self, tmp_path: Path, venv: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        installed: list[str] = []
        monkeypatch.setattr(installing, "install", lambda python, package: installed.append(package) or "4.9")
        state = await run(tmp_path, self.fate(installed), RunOptions(allow_install=True), venv_exe=venv)
        assert state.verdict is not None and state.verdict.outcome is Outcome.SUCCEEDED
        assert changes(state)[1] == [("package opencv-python-headless", "4.9")]

    async def test_one_that_fails_ends_in_no_circle(
        self, tmp_path: Path, venv: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(python: Path, package: str) -> str:
            raise installing.InstallError("no network")

        monkeypatch.setattr(installing, "install", fail)
        state = await run(tmp_path, self.fate([]), RunOptions(allow_install=True), venv_exe=venv)
        assert state.verdict is not None and state.verdict.outcome is Outcome.FAILED
        assert len(state.attempts) == 1 and state.unusable == {"install_package"}


async def test_what_a_person_does_not_approve_is_not_asked_again(tmp_path: Path) -> None:
    world = RepairWorld(
        lambda values, env, n: failed(**{**OOM, "remedies": [*OOM["remedies"], "nccl_p2p_off"]})
    )
    experiment = experiment_in(tmp_path, world)
    hands = RepairHands(experiment, world)
    asked: list[str] = []

    async def ask(action: Any) -> str | None:
        if action.kind != "edit_config":
            return None
        asked.append(action.kind)
        experiment.record("denied", action=action.kind, by="ada")
        return "a person (ada) did not approve this"

    hands.ask_for_approval = ask  # type: ignore[method-assign]
    await loop.run(hands, Playbook())
    experiment.close()
    assert asked == ["edit_config"]
    assert changes(experiment.state)[1] == [("NCCL_P2P_DISABLE", "1")]


@pytest.mark.parametrize("moment", range(0, 36, 3))
async def test_killed_at_any_moment_a_repair_is_made_once(tmp_path: Path, moment: int) -> None:
    world = RepairWorld(lambda values, env, n: done() if values[SHARE] < 0.85 else failed(**OOM))
    for kill_at in (moment, moment // 2, None):
        experiment = experiment_in(tmp_path, world)
        try:
            await loop.run(RepairHands(experiment, world, kill_at), Playbook())
        except Killed:
            continue
        finally:
            experiment.close()
        break
    assert changes(experiment.state) == [[], [(SHARE, 0.75)]] and len(world.launches) == 2


async def test_a_change_of_an_earlier_journal_has_no_remedy() -> None:
    assert Change(**{"kind": "config", "what": "a", "old": 1, "new": 2, "why": "w"}).remedy == ""
