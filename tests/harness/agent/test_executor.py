"""The diagnosis inside a run: nothing that a person keeps beside it may end the run."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.actions import Check, Diagnose, NameCause
from harness.agent.executor import Executor
from harness.attempt import failure_of
from harness.diagnosis.signatures import user_folder
from harness.experiment import Experiment
from harness.journal.events import Intent
from harness.lessons import knowledge
from harness.llm_use import LlmUse
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


async def test_a_cause_that_a_model_names_brings_the_repairs_of_its_family(experiment: Experiment) -> None:
    experiment.attempt_files(1).pane_log.write_text("FrobError: 3 callers at once\n")
    executor = Executor(experiment)
    experiment.record(Intent("diagnose", {}))
    experiment.record(await executor.act(Diagnose()))
    before = failure_of(experiment.state.attempts[0].diagnosis)
    experiment.state = replace(experiment.state, llm=LlmUse(model="openai:m"))
    said = {"family": "rate_limit", "cause": "It had 3 callers.", "values": {}}
    refused = await executor.act(NameCause(**said, lines=(7,)))
    assert refused.diagnosis is None and "not shown: 7" in refused.error
    named = (await executor.act(NameCause(**said, lines=(1,)))).diagnosis
    assert (named.family, named.by, named.cause) == (
        "rate_limit",
        "openai:m",
        "By openai:m: It had 3 callers.",
    )
    assert failure_of(named) == before
    assert "wait_and_retry" in [repair.name for repair in named.repairs]
    assert "By openai:m" in (experiment.attempt_files(1).dir / "diagnosis.json").read_text()
