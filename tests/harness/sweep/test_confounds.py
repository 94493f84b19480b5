"""What differs between points beside what is varied: planted differences must be named, and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.config.training import for_attempt
from harness.sweep import confounds
from harness.sweep.folder import SweepFolder
from harness.sweep.types import SweepError, SweepPlan
from harness.sweep.varying import write_runs
from tests.harness.sweep.varied import CONFIG, experiment, plan

VARY: dict[str, list[Any]] = {
    "optim.weight_decay": [0.1, 0.2],
    "arg:--lr": ["1e-4", "3e-4"],
    "env:MODE": ["a", "b"],
}


@pytest.fixture
def folder(tmp_path: Path) -> SweepFolder:
    made = SweepFolder(tmp_path / "results" / "trial-sweep")
    made.dir.mkdir(parents=True)
    return made


@pytest.fixture
def made(tmp_path: Path, folder: SweepFolder) -> SweepPlan:
    return _written(tmp_path, folder)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> tuple[SweepPlan, SweepFolder]:
    """A sweep that tests leave as they found it."""
    home = tmp_path_factory.mktemp("shared")
    folder = SweepFolder(home / "results" / "trial-sweep")
    folder.dir.mkdir(parents=True)
    return _written(home, folder), folder


def _written(home: Path, folder: SweepFolder) -> SweepPlan:
    made = plan(VARY, canary={"batch_size": 1})
    base = experiment(home)
    write_runs(made, base, folder, base.codebase_dir)
    return made


def test_runs_that_differ_in_what_is_varied_alone_pass(shared: tuple[SweepPlan, SweepFolder]) -> None:
    confounds.check(*shared)


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        (
            "config.yaml",
            "batch_size: 8",
            "batch_size: 16",
            r"p01 and p03 .*config's batch_size.* 8 in .* 16 in",
        ),
        ("config.yaml", "model: base", "extra: 1\nmodel: base", r"config's extra.* absent in .* 1 in"),
        (
            "config.yaml",
            "weight_decay: 0.1",
            "weight_decay: 0.3",
            r"run p03-s1 has optim.weight_decay = 0.3.*0.1",
        ),
        ("config.yaml", "seed: 1", "seed: 5", r"run p03-s1 has seed = 5"),
        (
            "blueprint.md",
            "train.py --config",
            "train.py --fast --config",
            r"launch command.*--fast in run p03-s1",
        ),
        ("blueprint.md", "--lr 3e-4", "--lr 5e-4", r"run p03-s1 has arg:--lr = 5e-4"),
        ("blueprint.md", "2 hours", "3 hours", r"max_time_s.*7200.0 in .*10800.0 in"),
        ("blueprint.md", "/usr/bin/python3", "/usr/bin/python2", r"venv_exe"),
        ("blueprint.md", "trial-sweep/p03-s1`", "trial-sweep/p01-s0`", r"sends its results to .*p01-s0"),
        ("blueprint.md", "plan/p03-s1/config.yaml`", "plan/p01-s0/config.yaml`", r"names the config"),
    ],
)
def test_a_planted_difference_is_refused_by_name(
    shared: tuple[SweepPlan, SweepFolder], file: str, old: str, new: str, said: str
) -> None:
    made, folder = shared
    path = folder.dir / "plan" / "p03-s1" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    try:
        with pytest.raises(SweepError, match=said):
            confounds.check(made, folder)
    finally:
        path.write_text(text)


def test_what_follows_from_varying_a_key_is_asked_once_per_key(tmp_path: Path, folder: SweepFolder) -> None:
    base = experiment(tmp_path, "python train.py --config conf/run.yaml --lr 1 --output_dir out --epochs 3")
    vary: dict[str, list[Any]] = {"batch_size": [8, 16], "arg:--epochs": ["3", "6"], "arg:--lr": ["1", "2"]}
    made = plan(vary)
    write_runs(made, base, folder, base.codebase_dir)
    said = confounds.warnings(made, folder)
    assert [sentence.split()[0] for sentence in said] == ["batch_size", "arg:--epochs", "output_dir"]
    assert "samples" in said[0] and "compute" in said[1] and "HARNESS_ATTEMPT_DIR" in said[2]


def test_nothing_is_asked_about_a_plain_learning_rate(tmp_path: Path, folder: SweepFolder) -> None:
    base = experiment(tmp_path, 'python train.py conf/run.yaml --output_dir "$HARNESS_ATTEMPT_DIR/out"')
    made = plan({"optim.lr": [1e-4, 1e-3]})
    write_runs(made, base, folder, base.codebase_dir)
    assert confounds.warnings(made, folder) == ()


def finished(folder: SweepFolder, run: str, last: int = 10, **provenance: Any) -> Path:
    """A run that ended well, with the config it was planned with; its last attempt's folder."""
    result = folder.result_dir(run)
    attempt = result / "attempts" / "01"
    attempt.mkdir(parents=True)
    text = folder.run_config(run).read_text()
    (attempt / "config.yaml").write_text(for_attempt(text, attempt))
    (attempt / "metrics.jsonl").write_text("".join(f'{{"step": {step}}}\n' for step in range(last + 1)))
    facts = {"interpreter": {"packages": {"torch": "2.4.0"}}, "hardware": {"cpu": "fast", "gpus": ["H100"]}}
    (result / "provenance.json").write_text(json.dumps({**facts, **provenance}))
    (result / "finish.flag").write_text('{"outcome": "succeeded"}')
    return attempt


def test_runs_that_went_as_planned_leave_nothing_to_say(made: SweepPlan, folder: SweepFolder) -> None:
    for run in made.runs[:5]:
        finished(folder, run.name)
    assert confounds.afterwards(made, folder) == ()


def test_what_came_to_differ_is_said_run_by_run(made: SweepPlan, folder: SweepFolder) -> None:
    finished(folder, "p01-s0")
    finished(folder, "p04-s0")
    repaired = finished(folder, "p02-s0", last=7)
    (repaired / "config.yaml").write_text(
        (repaired / "config.yaml").read_text().replace("batch_size: 8", "batch_size: 4")
    )
    (repaired / "change.diff").write_text("--- before/config.yaml\n+++ after/config.yaml\n@@\n-a\n+b\n")
    other = finished(
        folder,
        "p03-s0",
        interpreter={"packages": {"torch": "2.5.1", "new": "1"}},
        hardware={"cpu": "fast", "gpus": ["A100"]},
    )
    (other / "change.diff").write_text("--- before/train.py\n+++ after/train.py\n@@\n-a\n+b\n")
    finished(folder, "p05-s0", last=3)
    (folder.result_dir("p05-s0") / "finish.flag").write_text('{"outcome": "failed"}')
    said = confounds.afterwards(made, folder)
    assert said == (
        "run p02-s0 was repaired and ended with another config than planned: batch_size 8 → 4",
        "run p03-s0 was repaired and ended with other code than its siblings: train.py",
        "GPU differs: H100 (p01-s0, p02-s0, p04-s0, p05-s0); A100 (p03-s0)",
        "packages differ: new absent (p01-s0, p02-s0, p04-s0, p05-s0), 1 (p03-s0); "
        "torch 2.4.0 (p01-s0, p02-s0, p04-s0, p05-s0), 2.5.1 (p03-s0)",
        "the last step differs: 10 (p01-s0, p03-s0, p04-s0); 7 (p02-s0)",
    )


def test_different_numbers_of_steps_are_no_news_where_they_are_varied(
    tmp_path: Path, folder: SweepFolder
) -> None:
    base = experiment(tmp_path, "python train.py conf/run.yaml", CONFIG + "total_steps: 3\n")
    made = plan({"total_steps": [3, 6]})
    write_runs(made, base, folder, base.codebase_dir)
    finished(folder, "p01-s0", last=3)
    finished(folder, "p02-s0", last=6)
    assert confounds.afterwards(made, folder) == ()
