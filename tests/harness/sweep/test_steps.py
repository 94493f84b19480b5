"""Where runs are, read from the end of their metrics."""

from pathlib import Path

import pytest

from harness.sweep import steps
from harness.sweep.folder import SweepFolder
from harness.sweep.steps import LOOK_EVERY_S, Progress, Steps, last_step
from tests.harness.sweep.sweep_states import write_metrics

CONFIG = "ajet:\n  trainer_common:\n    total_training_steps: 240\n"


def test_of_the_newest_attempt(tmp_path: Path) -> None:
    assert last_step(tmp_path) is None
    for attempt, count in ((2, 30), (9, 5), (10, 7)):
        write_metrics(tmp_path, count, attempt)
    assert last_step(tmp_path) == 7
    (tmp_path / "attempts" / "11").mkdir()
    assert last_step(tmp_path) is None, "it has not come to its first step yet"


@pytest.mark.parametrize(
    ("written", "step"),
    [
        ("", None),
        ('{"step": 3}\n{"step": 4', 3),
        ('{"step": 3}\nnonsense\n', 3),
        ('{"step": 3}\n{"values": {}}\n', 3),
        ('{"step": 3}\n{"step": "NaN"}\n{"step": Infinity}\n[]\n', 3),
    ],
)
def test_damaged_and_torn_lines_are_passed_over(tmp_path: Path, written: str, step: int | None) -> None:
    folder = tmp_path / "attempts" / "01"
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text(written)
    assert last_step(tmp_path) == step


def test_only_the_end_of_a_long_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_metrics(tmp_path, 1000)
    monkeypatch.setattr(steps, "TAIL_BYTES", 100)
    assert last_step(tmp_path) == 1000


def test_looked_up_now_and_then_with_the_steps_of_the_runs_own_config(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path)
    folder.run_config("p01").parent.mkdir(parents=True)
    folder.run_config("p01").write_text(CONFIG)
    write_metrics(tmp_path / "p01", 12)
    looks = Steps(folder)
    assert looks.of("p01", 100.0) == Progress(12, 240)
    write_metrics(tmp_path / "p01", 20, attempt=2)
    assert looks.of("p01", 100.0 + LOOK_EVERY_S / 2) == Progress(12, 240)
    assert looks.of("p01", 100.0 + LOOK_EVERY_S) == Progress(20, 240)


@pytest.mark.parametrize("config", ["a: [", "steps: 3\n", None])
def test_a_config_that_does_not_tell_the_number_of_steps(tmp_path: Path, config: str | None) -> None:
    folder = SweepFolder(tmp_path)
    if config is not None:
        folder.run_config("p01").parent.mkdir(parents=True)
        folder.run_config("p01").write_text(config)
    assert Steps(folder).of("p01", 0.0) == Progress(None, None)


def test_a_display_reads_few_configs_at_once(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path)
    for run in ("p01", "p02", "p03"):
        folder.run_config(run).parent.mkdir(parents=True)
        folder.run_config(run).write_text(CONFIG)
    looks = Steps(folder, configs_at_once=2)
    assert [looks.of(run, 1.0).total for run in ("p01", "p02", "p03")] == [240, 240, None]
    assert [looks.of(run, 1.5).total for run in ("p01", "p02", "p03")] == [240, 240, 240]
