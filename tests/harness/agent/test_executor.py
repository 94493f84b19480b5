"""The diagnosis inside a run: nothing that a person keeps beside it may end the run."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.actions import Check, Diagnose
from harness.agent.executor import Executor
from harness.diagnosis.signatures import user_folder
from harness.experiment import Experiment
from harness.lessons import knowledge
from tests.harness.agent.world import World, launch, new_experiment

LOG = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.02 GiB. GPU 0 has 79.3 GiB.\n"
OWN = "- {id: ours, family: auth, name: a, cause: the log says it, when: [{message: 'our own words'}]}\n"


@pytest.fixture
def experiment(tmp_path: Path) -> Iterator[Experiment]:
    """One whose first attempt has failed."""
    plan = {"name": "x", "path": str(tmp_path / "plan.md"), "codebase_dir": str(tmp_path)}
    plan |= {"launch_command": "true", "venv_exe": sys.executable}
    made = new_experiment(tmp_path / "run", World([]), **plan)
    launch(made, reason="exited", status=1, ended_at=1009.0)
    files = made.attempt_files(1)
    files.dir.mkdir(parents=True)
    files.pane_log.write_text(LOG)
    yield made
    made.close()


async def diagnosed(experiment: Experiment) -> dict[str, Any]:
    return (await Executor(experiment).act(Diagnose())).diagnosis


async def test_bad_files_are_left_out(experiment: Experiment, caplog: pytest.LogCaptureFixture) -> None:
    knowledge.path().mkdir(parents=True)
    user_folder().mkdir(parents=True)
    (user_folder() / "bad.yaml").write_bytes(b"- id: \xff\n")
    (user_folder() / "own.yaml").write_text(OWN)
    assert (await diagnosed(experiment)).family == "gpu_oom"
    assert "bad.yaml" in caplog.text and "lessons.jsonl" in caplog.text
    experiment.attempt_files(1).pane_log.write_text("RuntimeError: our own words\n")
    assert (await diagnosed(experiment)).signature == "ours"


async def test_the_check_looks_at_what_would_be_launched(experiment: Experiment) -> None:
    missing = replace(experiment.blueprint, launch_command="no_such_program_at_all")
    experiment.state = replace(experiment.state, blueprint=missing)
    checked = await Executor(experiment).act(Check())
    assert not checked.can_run and "no_such_program_at_all" in " ".join(checked.problems)
