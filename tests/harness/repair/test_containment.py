"""What changed code may do, as the policy of a real experiment says it, tried by real programs."""

import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.actions import PatchCode
from harness.agent.executor import Executor
from harness.doctor import resources
from harness.experiment import Experiment
from harness.journal.events import OptionsGiven
from harness.options import RunOptions
from harness.pending_changes import PendingChanges
from harness.repair import containment, patched_code
from monitors import sandbox
from tests.harness.agent.world import World, new_experiment
from tests.harness.doctor.planning import launch
from tests.monitors.test_sandbox import kinds

PATCH = {"path": "train.py", "old": "1 / 0", "new": "1"}


def no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "bubblewrap_works", lambda: False)
    monkeypatch.setattr(sandbox, "landlock_abi", lambda: 0)


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    """One whose data lie in a hidden folder of the home, linked from the codebase, and beside other things
    where a variable and the blueprint say."""
    code, home = tmp_path / "code", Path.home()
    for name in ("code", "cache"):
        (tmp_path / name).mkdir()
    names = [".ssh/id_rsa", ".cache/huggingface/token", ".cache/huggingface/weights", ".data/rows.csv"]
    for name in (*names, "data/a.csv", "shards/b.csv", "work/credentials.json"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(f"content of {name}")
    (code / "data").symlink_to(home / ".data")
    (code / "train.py").write_text("1 / 0\n")
    plan = {"path": f"{code}/blueprint.md", "codebase_dir": str(code), "venv_exe": sys.executable}
    plan |= {
        "launch_command": f"python train.py --key {home}/.ssh/config",
        "result_dir": f"{tmp_path}/result",
    }
    plan |= {"code_changes": ["**", f"writable: {tmp_path}/cache/new", f"readable: {home}/shards"]}
    return new_experiment(tmp_path / "result", World([]), **plan)


@kinds
def test_what_the_author_gave_is_read_and_nothing_else_of_the_home(
    experiment: Experiment, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "bubblewrap_works", lambda: kind == "bubblewrap")
    plan, home, files = experiment.blueprint, Path.home(), experiment.attempt_files(1)
    files.dir.mkdir(parents=True)
    service = socket.socket(socket.AF_UNIX)
    service.bind(str(home / "service.sock"))
    for kept in (experiment.dir / "transcript.jsonl", files.dir.parent / "environment.json"):
        kept.write_text("content of the harness")
    code = patched_code.holding(replace(experiment.state, draft=PendingChanges(patches=(PATCH,))))
    (code.copy.codebase / "planted").symlink_to(home / ".ssh")  # by an attempt before this one
    policy = containment.write_policy(experiment, code, files, {"DATA": f"{home}/data", "X": f"{home}/.ssh"})
    assert policy is not None and containment.used(files) == kind
    assert sandbox.read_policy(policy).places[service.getsockname()] == "hide"
    service.close()

    def succeeds(command: str) -> bool:
        asked = ["bash", "-c", containment.contained(command, policy)]
        seen = subprocess.run(asked, cwd=code.copy.codebase, capture_output=True, text=True, check=False)
        return seen.returncode == 0

    given = ["data/rows.csv", f"{home}/data/a.csv", f"{home}/shards/b.csv"]
    given += [f"{home}/.cache/huggingface/weights", f"{plan.codebase_dir}/train.py"]
    assert [path for path in given if not succeeds(f"cat {path}")] == []
    private = [
        f"{home}/.ssh/id_rsa",
        f"{home}/.cache/huggingface/token",
        "planted/id_rsa",
        f"{home}/work/credentials.json",
    ]
    private += [
        f"{home}/work/credentials.json",
        f"{experiment.dir}/transcript.jsonl",
        f"{experiment.dir}/attempts/environment.json",
    ]
    assert [path for path in private if succeeds(f"cat {path}")] == []
    own = [".", str(files.dir), f"{experiment.dir.parent}/cache/new"]
    assert all(succeeds(f"touch {folder}/new") for folder in own)
    others = [plan.codebase_dir, home, home / ".data", experiment.dir, code.copy.root.parent]
    for folder in others:
        succeeds(f"touch {folder}/new")
    assert [folder for folder in others if (folder / "new").exists()] == []


def test_required_and_not_there_no_code_is_changed(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    action, executor = PatchCode(**PATCH, why="typo"), Executor(experiment)
    no_sandbox(monkeypatch)
    assert executor.refuse(action) is None
    experiment.record(OptionsGiven(RunOptions(sandbox="required")))
    assert "--sandbox required" in (executor.refuse(action) or "")


def test_doctor_names_it_only_where_code_may_be_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not list(resources.changed_code(launch(tmp_path)))
    (found,) = resources.changed_code(launch(tmp_path, code_changes=["**"]))
    assert "in a sandbox (" in found.text and "does not cover: the variables" in found.text
    no_sandbox(monkeypatch)
    (found,) = resources.changed_code(launch(tmp_path, code_changes=["**"]))
    assert found.severity == "warning" and "no sandbox here" in found.text
