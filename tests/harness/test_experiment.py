"""Result folders: which one a new run gets, and who can read what is in it."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from harness import experiment, index, journal
from harness.blueprint import Blueprint, read
from harness.errors import UserError
from harness.experiment import Experiment
from harness.options import RunOptions
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


@pytest.mark.parametrize(
    "what", ["copy", "move", "move to another disk", "finished copy", "back from a backup"]
)
def test_a_copy_of_a_run_is_told_from_a_run_that_was_moved(plan: Blueprint, what: str) -> None:
    run = experiment.create(plan)
    if what == "finished copy":
        record(run, "finish", outcome="succeeded", reason="why")
    run.close()
    there = plan.result_dir.with_name("there")
    if what == "move":
        plan.result_dir.rename(there)
    else:
        shutil.copytree(plan.result_dir, there)
    if what in ("move to another disk", "back from a backup"):
        shutil.rmtree(plan.result_dir)
    if what == "back from a backup":
        there = there.rename(plan.result_dir)
    if what == "copy":
        with pytest.raises(UserError, match=f"a copy of {plan.result_dir}"):
            Experiment.open(there)
    else:
        Experiment.open(there).close()
        assert there in [run.dir for run in index.runs()] or what == "finished copy"


def test_two_runs_do_not_begin_in_one_folder(plan: Blueprint) -> None:
    """Both had found it empty; the first has begun, and is gone, before the second gets its lock."""
    first = experiment.create(plan)
    first.close()
    with pytest.raises(UserError, match="harness resume"):
        experiment.begin(plan, first.dir, RunOptions())
    assert len(journal.read(first.dir / "journal.jsonl")) == 3


@pytest.mark.parametrize(("below", "refused"), [("", True), ("plan", True), ("other", False)])
def test_no_run_starts_where_a_training_still_runs_whose_journal_is_gone(
    plan: Blueprint, below: str, refused: bool
) -> None:
    folder = plan.result_dir / below
    folder.mkdir(parents=True)
    (plan.result_dir / "something").touch()
    trains = {**os.environ, "HARNESS_ATTEMPT_DIR": str(folder / "attempts" / "01")}
    with subprocess.Popen(["sleep", "60"], env=trains) as training:
        if refused:
            with pytest.raises(UserError, match=f"still runs in {folder}"):
                experiment.create(plan)
        else:
            experiment.create(plan).close()
        training.kill()
    assert not (folder / "journal.jsonl").exists()
