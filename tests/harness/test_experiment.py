"""Result folders: which one a new run gets, and who can read what is in it."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness import experiment, index
from harness.blueprint import Blueprint, read
from harness.outcome import Outcome
from tests.harness.runs import record


@pytest.fixture
def plan(tmp_path: Path) -> Blueprint:
    path = tmp_path / "plan.md"
    path.write_text(f"## [exp_purpose]\nx\n## [exp_result_dir]\n{tmp_path / 'out'}\n")
    return read(path)


def finished(plan: Blueprint, outcome: Outcome, launched: bool = False) -> Path:
    """A run of the plan with this outcome; its folder."""
    run = experiment.create(plan)
    if launched:
        record(
            run, "intent", action="launch", args={"attempt": 1, "session": "s", "attempt_id": "a", "why": ""}
        )
        record(run, "outcome", action="launch")
        record(run, "outcome", action="wait", ended={"reason": "exited", "status": 1})
    record(run, "finish", outcome=outcome.value, reason="why")
    run.write_finish_flag({"outcome": outcome.value})
    run.close()
    return run.dir


def test_d14_the_folder_of_a_run_that_could_not_start_is_used_again(plan: Blueprint) -> None:
    first = finished(plan, Outcome.CANNOT_RUN)
    other = experiment.create(replace(plan, result_dir=plan.result_dir.with_name("other")))
    other.close()
    again = experiment.create(plan)
    again.close()
    assert again.dir == first == plan.result_dir
    assert not (again.dir / "finish.flag").exists(), "who waits for it must not read the old end"
    aside = plan.result_dir.with_name("out-could-not-start-1")
    assert (aside / "finish.flag").exists() and [run.dir for run in index.runs()] == [other.dir, again.dir]


@pytest.mark.parametrize(("outcome", "launched"), [(Outcome.FAILED, True), (Outcome.CANNOT_RUN, True)])
def test_a_folder_with_an_attempt_is_kept(plan: Blueprint, outcome: Outcome, launched: bool) -> None:
    first = finished(plan, outcome, launched)
    again = experiment.create(plan)
    again.close()
    assert again.dir.name == "out-2" and (first / "finish.flag").exists()


def test_a_blueprint_inside_the_folder_is_not_moved_away(plan: Blueprint) -> None:
    first = finished(plan, Outcome.CANNOT_RUN)
    again = experiment.create(read(first / "blueprint.md"))
    again.close()
    assert again.dir.name == "out-2" and (first / "finish.flag").exists()


def test_the_copy_of_the_blueprint_is_private(plan: Blueprint) -> None:
    plan.path.chmod(0o644)
    run = experiment.create(plan)
    run.close()
    assert (run.dir / "blueprint.md").stat().st_mode & 0o777 == 0o600
