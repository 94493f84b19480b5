"""What is prepared stands in the journal, and the next launch uses it."""

import os
import shlex
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import actions, launching
from harness.actions import (
    Action,
    EditArguments,
    EditConfig,
    Launch,
    PatchCode,
    RenderConfig,
    SetEnvironment,
    arguments,
)
from harness.agent.executor import Executor
from harness.experiment import Experiment
from harness.journal.events import ChangePrepared, Checked
from harness.pending_changes import Change, PendingChanges
from harness.repair import apply_changes
from harness.repair.patched_code import PatchError
from monitors.launch import LaunchSpec
from monitors.processes import uptime
from tests.harness.agent.world import World, new_experiment
from tests.harness.runs import found, record

CONFIG = "ajet:\n  rollout:\n    n_vllm_engine: 4  # per node\n  trainer_common:\n    seed: 3\n"
TRAIN = "batch = 1\nprint(batch / 0)\n"
EDIT = EditConfig(changes={"ajet.rollout.n_vllm_engine": 1}, why="memory")
PATCH = PatchCode(path="train.py", old="batch / 0", new="batch / 1", why="typo")


@pytest.fixture
def codebase(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "config.yaml").write_text(CONFIG)
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        subprocess.run(command, cwd=folder, check=True, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull})
    return folder


@pytest.fixture
def experiment(tmp_path: Path, codebase: Path) -> Experiment:
    plan = {"launch_command": f"python {codebase}/train.py --config config.yaml"}
    plan |= {"yaml_path": f"{codebase}/config.yaml", "prepare_command": "pip install -e ."}
    return created(tmp_path / "result", codebase, **plan)


def created(folder: Path, codebase: Path, **plan: Any) -> Experiment:
    more = {"name": "sort digits", "path": f"{codebase}/blueprint.md", "codebase_dir": str(codebase)}
    more |= {"venv_exe": sys.executable, "result_dir": str(folder)}
    return new_experiment(folder, World([]), **{**more, **plan})


def prepared(action: Action, experiment: Experiment) -> ChangePrepared:
    """Carry out an action as the loop does: intent, act, outcome."""
    record(experiment, "intent", action=action.kind, args=arguments(action))
    outcome = apply_changes.prepare(action, experiment)
    experiment.record(outcome)
    return outcome


async def launched(experiment: Experiment, number: int, monkeypatch: pytest.MonkeyPatch) -> LaunchSpec:
    """Launch an attempt up to the terminal that it would be typed into, and let it fail."""
    specs: list[LaunchSpec] = []
    monkeypatch.setattr("monitors.launch.launch", specs.append)
    action = Launch(attempt=number, session=f"ajet_x-{number:02d}", attempt_id=f"7f3a-{number:02d}", why="go")
    record(experiment, "intent", action="launch", args=arguments(action))
    outcome = await Executor(experiment).act(action)
    experiment.record(outcome)
    record(experiment, "outcome", action="wait", reason="ended", ended={"reason": "exited", "status": 1})
    assert launching.unattended(outcome.command) in (specs[0].command, shlex.split(specs[0].command)[-1])
    return specs[0]


def test_edit_is_shown_as_a_diff_and_waits_for_the_launch(experiment: Experiment, codebase: Path) -> None:
    assert apply_changes.config_after(experiment) is None
    outcome = prepared(EDIT, experiment)
    assert "-    n_vllm_engine: 4  # per node\n+    n_vllm_engine: 1  # per node\n" in outcome.text
    assert outcome.changes == (Change("config", "ajet.rollout.n_vllm_engine", 4, 1, "memory"),)
    assert apply_changes.config_after(experiment) == CONFIG.replace(": 4", ": 1")
    assert apply_changes.config_before(experiment) == CONFIG
    assert (codebase / "config.yaml").read_text() == CONFIG
    assert "nothing would change" in prepared(EDIT, experiment).error
    later = prepared(EditConfig(changes={"ajet.rollout.n_vllm_engine": 2}, why="b"), experiment)
    assert later.changes[0].old == 1
    prepared(EditConfig(remove=("ajet.rollout.n_vllm_engine",), why="c"), experiment)
    assert "n_vllm_engine" not in (apply_changes.config_after(experiment) or "")


def test_config_is_rendered_from_settings(tmp_path: Path) -> None:
    experiment = created(tmp_path / "result", tmp_path, launch_command=None)
    outcome = prepared(RenderConfig(settings={"seed": 7, "total_training_steps": 5}, why="plan"), experiment)
    assert "seed: 7" in outcome.text
    assert [change.what for change in outcome.changes] == ["seed", "total_training_steps"]
    assert "seed: 7" in apply_changes.config_before(experiment)
    assert prepared(RenderConfig(settings={"no_such_setting": 1}, why="x"), experiment).error
    assert "seed: 7" in apply_changes.config_before(experiment)


async def test_edits_of_the_command(tmp_path: Path, codebase: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = "python -m verl.main rollout.n=5 rollout.gpu_memory_utilization=0.6 actor.use_dynamic_bsz=True"
    experiment = created(tmp_path / "result", codebase, launch_command=command)
    await launched(experiment, 1, monkeypatch)
    edit = EditConfig(changes={"rollout.gpu_memory_utilization": 0.5}, why="memory", remedy="lower")
    outcome = prepared(edit, experiment)
    assert outcome.changes == (
        Change("argument", "rollout.gpu_memory_utilization", 0.6, 0.5, "memory", "lower"),
    )
    assert "+python -m verl.main rollout.n=5 rollout.gpu_memory_utilization=0.5 " in outcome.text
    assert experiment.state.draft.config == {} and not experiment.state.draft.is_empty
    assert "nothing would change" in prepared(edit, experiment).error
    changed = command.replace("0.6", "0.5")
    assert changed in (await launched(experiment, 2, monkeypatch)).command
    assert "=0.5 " in (experiment.attempt_files(1).dir / "change.diff").read_text()
    prepared(EditConfig(changes={"actor.use_dynamic_bsz": False}, why="more"), experiment)
    third = await launched(experiment, 3, monkeypatch)
    assert changed.replace("=True", "=False") in third.command


def test_variable_is_set_once(experiment: Experiment) -> None:
    action = SetEnvironment(name="OMP_NUM_THREADS", value="1", why="threads")
    assert prepared(action, experiment).changes[0].old is None
    assert experiment.state.environment == {"OMP_NUM_THREADS": "1"}
    assert "already" in prepared(action, experiment).error


REPAIR = EDIT.model_copy(update={"remedy": "fewer_engines"})


def refused(*remedies: str) -> Checked:
    """What a check says that finds a cause for which there are these remedies."""
    cause = found({"family": "config_error", "cause": "bad", "remedies": remedies})
    return Checked(False, ("bad — fix it",), causes=(cause,))


def test_a_built_in_repair_is_held_against_the_check_of_what_it_leads_to(experiment: Experiment) -> None:
    seen: list[Any] = []

    def check(experiment: Experiment, draft: PendingChanges) -> Checked:
        seen.append(apply_changes.config_after(experiment, draft))
        return Checked(True)

    assert not apply_changes.prepare(REPAIR, experiment, check).error
    assert seen == [CONFIG.replace(": 4", ": 1")]
    another_can = apply_changes.prepare(REPAIR, experiment, lambda *_: refused("free_port"))
    by_a_model = apply_changes.prepare(EDIT, experiment, lambda *_: refused())
    assert not another_can.error and not by_a_model.error
    record(experiment, "intent", action="edit_config", args=arguments(REPAIR))
    outcome = apply_changes.prepare(REPAIR, experiment, lambda *_: refused())
    experiment.record(outcome)
    assert "bad — fix it" in outcome.error
    assert experiment.state.draft.is_empty and experiment.state.unusable == {"fewer_engines"}, (
        "not tried again"
    )


def test_the_check_sees_variables_and_config_of_the_draft(experiment: Experiment, codebase: Path) -> None:
    draft = PendingChanges(config={"ajet.rollout.n_vllm_engine": 1}, environment={"OMP_NUM_THREADS": "1"})
    (codebase / "train.py").write_text(
        "import argparse, os\nos.environ['LAB_NEEDS_THIS']\np = argparse.ArgumentParser()\n"
        "p.add_argument('--config')\np.parse_args()\n"
    )
    assert "LAB_NEEDS_THIS" in str(apply_changes.check(experiment, draft).warnings)
    given = replace(draft, environment={"LAB_NEEDS_THIS": "1"})
    assert apply_changes.check(experiment, given).warnings == ()
    moved = replace(given, config={"train_file": "/nowhere/rows.jsonl"})
    assert "/nowhere/rows.jsonl" in str(apply_changes.check(experiment, moved).warnings)


def test_a_patch_that_holds_a_known_secret_is_refused_by_the_name_of_its_variable(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "zebra-crossing-77")
    leaking = PatchCode(path="train.py", old="batch / 0", new="send('zebra-crossing-77')", why="typo")
    with pytest.raises(PatchError, match="the value of MY_API_KEY, which code must not"):
        apply_changes.preview(leaking, experiment)
    found = prepared(leaking, experiment)
    assert "MY_API_KEY" in found.error and "zebra" not in found.error and not found.changes


async def test_an_edit_of_the_command_is_recorded_by_its_own_name(tmp_path: Path, codebase: Path) -> None:
    experiment = created(tmp_path / "result", codebase, launch_command="python train.py --workers 8")
    edit = EditArguments(changes={"--workers": 2}, why="few").resolved(experiment.state.command)
    assert prepared(edit, experiment).action == "edit_arguments"
    assert experiment.state.command == "python train.py --workers 2"


async def test_patched_code_is_what_the_next_launches_run(
    experiment: Experiment, codebase: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    first = await launched(experiment, 1, monkeypatch)
    assert (first.cwd, first.prepare) == (codebase, "exec </dev/null\npip install -e .")
    assert f"python {codebase}/train.py" in first.command
    assert not (experiment.dir / "attempts" / "01" / "change.diff").exists()
    failed = prepared(PatchCode(path="train.py", old="no such text", new="x", why="?"), experiment)
    assert "stands 0 times in train.py" in failed.error and experiment.state.draft.is_empty
    prepared(PATCH, experiment)
    prepared(EDIT, experiment)
    spec = await launched(experiment, 2, monkeypatch)
    copy = spec.cwd
    assert copy != codebase
    assert f"python {copy}/train.py --config {experiment.dir}/attempts/02/config.yaml" in spec.command
    assert (copy / "train.py").read_text() == TRAIN.replace("/ 0", "/ 1")
    assert (codebase / "train.py").read_text() == TRAIN
    assert spec.prepare == f"exec </dev/null\ncd {codebase} || exit 1\nunset PYTHONPATH\npip install -e ."
    kept = (experiment.dir / "attempts" / "01" / "change.diff").read_text()
    assert "+    n_vllm_engine: 1" in kept
    assert "+print(batch / 1)" in kept
    assert (await launched(experiment, 3, monkeypatch)).cwd == copy
    assert not (experiment.dir / "attempts" / "02" / "change.diff").exists()


async def test_changes_before_a_launch_stay(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared(PATCH, experiment)
    await launched(experiment, 1, monkeypatch)
    prepared(EDIT, experiment)
    await launched(experiment, 2, monkeypatch)
    kept = (experiment.dir / "attempts" / "01" / "change.diff").read_text()
    assert kept.index("+print(batch / 1)") < kept.index("+    n_vllm_engine: 1")


async def test_a_raised_limit_stays_raised(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not (await launched(experiment, 1, monkeypatch)).most_open_files
    outcome = prepared(
        actions.RaiseLimit(limit="open_files", why="too many", remedy="raise_open_files"), experiment
    )
    assert outcome.changes[0].remedy == "raise_open_files" and not experiment.state.draft.is_empty
    assert (await launched(experiment, 2, monkeypatch)).most_open_files
    freed = prepared(actions.FreeOwned(what="checkpoints", why="disk"), experiment)
    assert freed.changes[0].new == "0.0 MiB freed"
    assert experiment.state.draft.measures == ("free_owned checkpoints",)
    assert (await launched(experiment, 3, monkeypatch)).most_open_files


async def test_the_time_that_is_left_is_handed_over_as_an_uptime(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The experiment's clock stands far from the machine's, which was set meanwhile."""
    left_s = experiment.state.deadline_at - experiment.clock()
    assert abs(time.time() - experiment.clock()) > 3600
    deadline = (await launched(experiment, 1, monkeypatch)).deadline_uptime
    assert deadline is not None and 0 <= uptime() + left_s - deadline < 60
