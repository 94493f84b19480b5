"""What is asked of the machine and the rules, and what becomes of a repair."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.actions import (
    Diagnose,
    EditConfig,
    FreeOwned,
    InstallPackage,
    RaiseLimit,
    SetEnvironment,
    arguments,
)
from harness.agent.executor import Executor
from harness.attempt import Remedy
from harness.experiment import Experiment
from harness.lessons import Lesson, knowledge
from harness.options import RunOptions
from harness.pending_changes import Change, PendingChanges
from harness.repair import repair_plan
from tests.harness.agent.world import World, launch, new_experiment
from tests.harness.runs import filled, found, record, state_with

CONFIG = "ajet:\n  backbone: verl\n  rollout: {gpu_memory_utilization: 0.8, max_num_seqs: 64}\n"
OOM: dict[str, Any] = {
    **{"signature": "oom", "family": "gpu_oom", "cause": "no memory", "transient": False, "confidence": 0.9},
    "remedies": ["lower_gpu_memory_utilization", "lower_concurrent_sequences", "advise: Use a larger GPU."],
}


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return launched(tmp_path, CONFIG)


def launched(folder: Path, config: str, command: str | None = None) -> Experiment:
    """An experiment with this config whose first attempt runs."""
    (folder / "config.yaml").write_text(config)
    plan = {"path": str(folder / "b.md"), "codebase_dir": str(folder), "launch_command": command}
    more = {"yaml_path": str(folder / "config.yaml"), "venv_exe": sys.executable}
    made = new_experiment(folder, World([]), RunOptions(), **plan, **more)
    launch(made)
    return made


def names(experiment: Experiment, diagnosis: dict[str, Any], *preferred: str) -> list[str]:
    return [repair.name for repair in repair_plan.repairs(experiment, found(diagnosis), preferred)]


def test_in_the_order_of_the_signature_after_what_helped_or_passes(experiment: Experiment) -> None:
    lower, fewer = OOM["remedies"][:2]
    assert names(experiment, OOM) == [lower, fewer, "advise"]
    assert names(experiment, OOM, fewer) == [fewer, lower, "advise"]
    passing = {**OOM, "transient": True, "wait_s": 3.0}
    assert names(experiment, passing)[0] == "wait_and_retry"
    later = {**passing, "remedies": [fewer, "resume_from_checkpoint"]}
    assert names(experiment, later) == [fewer, "resume_from_checkpoint"]


def actions(name: str, kind: str, **values: Any) -> list[Any]:
    """What carries this remedy out."""
    remedy = {"name": name, "kind": kind, "change": "c", "why": "w", **values}
    return repair_plan.actions_of(filled(Remedy, remedy), found(OOM))


def test_each_repair_becomes_the_actions_that_carry_it_out() -> None:
    edit = actions("halve", "config", edits={"a": 1}, remove=["b"], environment={"X": "1"})
    assert [type(each) for each in edit] == [EditConfig, SetEnvironment]
    why = {"why": "oom, halve: w", "remedy": "halve"}
    assert arguments(edit[0]) == {"changes": {"a": 1}, "remove": ["b"], **why}
    assert type(actions("install_package", "install", package="tqdm")[0]) is InstallPackage
    freed = FreeOwned(what="processes", why="oom, free_leftovers: w", remedy="free_leftovers")
    assert actions("free_leftovers", "free") == [freed]
    assert type(actions("raise_open_files", "limit")[0]) is RaiseLimit
    assert actions("wait_and_retry", "wait") == []


def before(remedy: str, config: str = "", command: str = "", **captures: str) -> list[dict[str, Any]]:
    """The repairs of a problem that the check found."""
    cause = {"family": "port_in_use", "cause": "it is so", "captures": captures, "remedies": [remedy]}
    state = state_with(plan={"launch_command": command}, options=RunOptions(allow_install=True))
    return repair_plan.before_launch(found(cause), state, config)


def test_before_a_launch_known_packages_are_installed() -> None:
    assert [each.package for each in before("install_package", module="cv2")] == ["opencv-python-headless"]
    assert before("install_package", module="code_of_the_author") == []


def test_before_a_launch_a_port_is_the_one_that_the_check_saw_free() -> None:
    ports = {"port": "18000", "free_port": "31234"}
    (edit,) = before("free_port", "server: {port: 18000}\n", **ports)
    assert (edit.edits, edit.environment) == ({"server.port": 31234}, {})
    (variable,) = before("free_port", "seed: 1\n", variable="MASTER_PORT", **ports)
    assert (variable.edits, variable.environment) == ({}, {"MASTER_PORT": "31234"})
    (there,) = before("free_port", command="torchrun --master_port 18000 t.py", **ports)
    assert there.edits == {"master_port": 31234}
    (told,) = before("raise_open_files")  # the check has not seen how many
    assert told.change and not repair_plan.actions_of(replace(told, kind="config"), found({"cause": "c"}))


def test_a_step_is_done_whatever_value_it_took() -> None:
    told = {"why": "w", "remedy": "free_port"}
    moved = Change("config", "server.port", 1, 2, "w", "free_port")
    draft = PendingChanges(config={"server.port": 2}, changes=(moved,), measures=("install_package tqdm",))
    assert repair_plan.is_done(EditConfig(changes={"server.port": 3}, **told), draft)
    assert not repair_plan.is_done(EditConfig(changes={"other.port": 3}, **told), draft)
    assert not repair_plan.is_done(EditConfig(changes={"server.port": 3}, why="w", remedy="another"), draft)
    assert not repair_plan.is_done(SetEnvironment(name="MASTER_PORT", value="3", **told), draft)
    assert repair_plan.is_done(InstallPackage(package="tqdm", why="w"), draft)
    assert not repair_plan.is_done(InstallPackage(package="rich", why="w"), draft)


OUT_OF_MEMORY = (
    'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    loss.backward()\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity "
    "of 79.15 GiB of which 100.00 MiB is free. Of the allocated memory 70.00 GiB is allocated by PyTorch"
    ", and 10.00 MiB is reserved by PyTorch but unallocated.\n"
)


async def test_a_diagnosis_brings_its_repairs_with_it_first_what_helped_before(
    experiment: Experiment,
) -> None:
    config = "per_device_train_batch_size: 8\ngradient_accumulation_steps: 1\nseed: 3\n"
    (experiment.dir / "config.yaml").write_text(config)
    files = experiment.attempt_files(1)
    files.dir.mkdir(parents=True)
    files.pane_log.write_text(OUT_OF_MEMORY)
    record(experiment, "outcome", action="wait", ended={"reason": "exited", "status": 1})
    executor = Executor(experiment)
    known = (await executor.act(Diagnose())).diagnosis
    assert known.repairs[0].name != "gradient_checkpointing"
    facts = {"at": 1.0, "name": "x", "family": "gpu_oom", "changes": (), "by": "playbook", "result": "cured"}
    failure = {"signature": known.signature, "failure": known.signature}
    helped = {"experiment_id": "earlier", "attempt": 1, "remedies": ("gradient_checkpointing",)}
    knowledge.keep([Lesson(**facts, **failure, **helped)])
    first, *others = (await executor.act(Diagnose())).diagnosis.repairs
    assert (first.name, first.edits) == ("gradient_checkpointing", {"gradient_checkpointing": True})
    halved = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2}
    assert halved in [repair.edits for repair in others]
    assert "PYTORCH_CUDA_ALLOC_CONF" not in {name for repair in others for name in repair.environment}


def test_more_edits_than_one_action_takes_are_made_in_several() -> None:
    edits = {f"data.set{number}.num_workers": 4 for number in range(45)}
    made = actions("fewer", "config", edits=edits, remove=["old"])
    assert [len(action.changes) for action in made] == [20, 20, 5]
    assert [action.remove for action in made] == [("old",), (), ()]
    assert {key: value for action in made for key, value in action.changes.items()} == edits
    draft = PendingChanges(changes=(Change("config", "data.set0.num_workers", 8, 4, "w", "fewer"),))
    assert [repair_plan.is_done(action, draft) for action in made] == [True, False, False]
    (only,) = actions("fewer", "config", remove=["old"])
    assert (only.changes, only.remove) == ({}, ("old",))


def test_what_the_command_gives_is_changed_there_but_for_variables(tmp_path: Path) -> None:
    command = "PYTHONFAULTHANDLER=0 python train.py --config config.yaml --enforce-eager false"
    made = launched(tmp_path, "enforce_eager: false\nmax_num_seqs: 64\n", command)
    wanted = ["enforce_eager", "lower_concurrent_sequences", "fault_handler", "nccl_p2p_off"]
    found = names(made, {**OOM, "remedies": wanted})
    assert found == ["enforce_eager", "lower_concurrent_sequences", "nccl_p2p_off"]


def test_a_model_is_looked_for_where_the_training_would_look(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    (experiment.dir / "config.yaml").write_text("model_name_or_path: org/model\n")
    folder = tmp_path / "cache" / "models--org--model"
    files = {"snapshots/abc/config.json": "{}", "snapshots/abc/model.safetensors": "x", "refs/main": "abc"}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    wanted = {**OOM, "remedies": ["hub_offline"]}
    monkeypatch.setenv("HUGGINGFACE_HUB_CACHE", str(tmp_path / "other"))
    assert names(experiment, wanted) == []
    monkeypatch.setenv("HUGGINGFACE_HUB_CACHE", str(tmp_path / "cache"))
    assert names(experiment, wanted) == ["hub_offline"]
