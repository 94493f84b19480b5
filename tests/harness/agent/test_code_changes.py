"""What the author changed since the last run that succeeded, told by a real git."""

import json
import subprocess
from pathlib import Path

import pytest

from harness import index
from harness.actions import ShowChanges
from harness.agent.look import look
from harness.experiment import Experiment
from tests.harness.agent.world import World, new_experiment
from tests.harness.runs import record


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    done = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def codebase(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text("lr = 1\n")
    (folder / ".env").write_text("TOKEN=first\n")
    git(folder, "init", "-q")
    git(folder, "add", "-f", ".")
    git(folder, "commit", "-qm", "begin")
    return folder


def run(folder: Path, codebase: Path) -> Experiment:
    plan = {"codebase_dir": str(codebase), "name": "sort digits", "path": str(codebase / "blueprint.md")}
    made = new_experiment(folder, World([]), **plan)
    index.add(index.IndexedRun(folder.name, "sort digits", str(folder), 0.0))
    return made


def succeeded(folder: Path, codebase: Path) -> None:
    """An earlier run of the same blueprint, which ran with the code as it stands."""
    made = run(folder, codebase)
    facts = {"git": {"commit": git(codebase, "rev-parse", "HEAD"), "dirty": False}}
    (folder / "provenance.json").write_text(json.dumps(facts))
    record(made, "outcome", action="collect", outcome="succeeded", reason="done")
    record(made, "finish", outcome="succeeded", reason="done")
    made.close()


def test_commits_and_edits_since_the_last_success_are_shown(tmp_path: Path, codebase: Path) -> None:
    succeeded(tmp_path / "first", codebase)
    (codebase / "train.py").write_text("lr = 2\n")
    (codebase / ".env").write_text("TOKEN=second\n")
    git(codebase, "commit", "-qam", "learn faster")
    (codebase / "train.py").write_text("lr = 3\n")
    (codebase / "new.py").write_text("x = 1\n")
    shown = look(ShowChanges(), run(tmp_path / "second", codebase)).text
    assert "since first, the last run" in shown and "learn faster" in shown
    assert "-lr = 1" in shown and "+lr = 3" in shown and "new, not in git: new.py" in shown
    assert "TOKEN" not in shown


def test_without_git_or_such_a_run_it_says_so(tmp_path: Path, codebase: Path) -> None:
    assert "no earlier run" in look(ShowChanges(), run(tmp_path / "only", codebase)).error
    plain = tmp_path / "plain"
    plain.mkdir()
    assert "no git repository" in look(ShowChanges(), run(tmp_path / "other", plain)).error
