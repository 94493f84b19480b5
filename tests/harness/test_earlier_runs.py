"""What earlier runs tell: how long one takes, and what it measures."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.blueprint import Blueprint
from harness.earlier_runs import estimate, in_folder, known_metrics, metrics_of_program, planned_end
from harness.experiment import create
from harness.journal.events import ApprovalAsked, Collected, Denied, Finish, Intent, SmokeRan
from harness.state import Outcome
from tests.harness.results.synthetic import attempt
from tests.harness.sweep.varied import experiment


def another(own: Blueprint) -> Blueprint:
    """The same under another name."""
    path = own.path.with_name("before.md")
    path.write_text("")
    return replace(own, name="before", path=path)


def record(
    base: Blueprint,
    seconds: float,
    outcome: Outcome = Outcome.SUCCEEDED,
    config: str = "",
    asked_s: float = 0.0,
    smoke: SmokeRan | None = None,
) -> Path:
    """A run that took so long, `asked_s` of it because nobody answered."""
    now = [1000.0]
    made = create(base, clock=lambda: now[0])
    if config:
        made.attempt_files(1).dir.mkdir(parents=True)
        made.attempt_files(1).config.write_text(config)
    made.record(ApprovalAsked("launch", {}))
    made.record(Denied("launch", {}, "nobody", waited_s=asked_s))
    now[0] += seconds
    if smoke is not None:
        made.record(Intent("smoke_run"))
        made.record(smoke)
    for event in (Intent("collect"), Collected(outcome, ""), Intent("finish"), Finish(outcome, "")):
        made.record(event)
    made.close()
    return made.dir


def test_runs_of_the_same_blueprint_come_first(tmp_path: Path) -> None:
    mine, other = experiment(tmp_path / "a"), experiment(tmp_path / "b")
    assert estimate(mine) is None
    for seconds, asked_s in ((100.0, 0.0), (40_120.0, 40_000.0), (500.0, 0.0)):
        record(mine, seconds, asked_s=asked_s)
    record(mine, 1.0, Outcome.FAILED)
    record(other, 2.0)
    found = estimate(mine)
    assert found is not None and (found.run_s, found.source) == (120.0, "3 earlier runs of this blueprint")
    assert getattr(estimate(other), "run_s", None) == 2.0


def test_where_no_run_succeeded_the_pace_of_a_smoke_run_tells_it(tmp_path: Path) -> None:
    base = replace(experiment(tmp_path / "a"), launch_command="python t.py --steps 100", yaml_path=None)
    record(base, 700.0, Outcome.FAILED, smoke=SmokeRan(failed=False, steps=2, took_s=9.0, whole_s=400.0))
    found = estimate(replace(another(base), launch_command="python t.py --steps 200"))
    assert found is not None and found.run_s == 800.0 and "smoke run" in found.source
    assert planned_end(base, {}, "step") == 100.0
    record(another(base), 100.0)
    assert getattr(estimate(base), "run_s", None) == 100.0


@pytest.mark.parametrize(
    ("command", "run_s"),
    [
        ("python t.py --steps 300 --batch-size 8 --lr 0.1 --seed 3", 30.0),
        ("python t.py --steps 300 --batch-size 16", None),
        ("python t.py --batch-size 8", None),
        ("python other.py --steps 100 --batch-size 8", None),
    ],
)
def test_runs_of_the_same_program_and_size_tell_it_in_proportion_to_the_steps(
    tmp_path: Path, command: str, run_s: float | None
) -> None:
    own = replace(
        experiment(tmp_path), yaml_path=None, launch_command="python t.py --steps 100 --batch-size 8"
    )
    record(another(own), 10.0)
    found = estimate(replace(own, launch_command=command))
    assert (found.run_s if found else None) == run_s


def test_runs_of_the_trainer_are_compared_by_their_configs(tmp_path: Path) -> None:
    own = replace(experiment(tmp_path), yaml_path=None, launch_command=None)
    text = "ajet:\n  model: {{path: {}}}\n  trainer_common: {{total_training_steps: {}, seed: {}}}\n"
    record(another(own), 10.0, config=text.format("tiny", 100, 0))
    found = estimate(own, text.format("tiny", 50, 1))
    assert found is not None and found.in_words.startswith("about 5s (1 earlier run of the bundled trainer")
    assert estimate(own, text.format("/models/7b", 50, 1)) is None


def test_programs_of_a_folder_with_what_they_measured(tmp_path: Path) -> None:
    own = replace(experiment(tmp_path), yaml_path=None, launch_command="python t.py --steps 100")
    attempt(record(own, 10.0)).metrics([(1, {"loss": 1.0, "a/b": 2.0})])
    [run] = in_folder(own.codebase_dir)
    assert (run.took_s, run.metrics()) == (10.0, ("loss", "a/b")) == (10.0, known_metrics(own))
    assert metrics_of_program(replace(another(own), launch_command="python t.py --steps 7")) == (
        "loss",
        "a/b",
    )
    assert in_folder(tmp_path.parent) == []
