"""What a run's own files say: where it is, how it ended, the metric at its end."""

import json
from pathlib import Path

import pytest

from harness.sweep import run_files
from harness.sweep.plan import SweepFolder
from harness.sweep.run_files import Progress, has_value, last_step, last_words, progress
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
    monkeypatch.setattr(run_files, "TAIL_BYTES", 100)
    assert last_step(tmp_path) == 1000


@pytest.mark.parametrize(
    ("config", "total"), [(CONFIG, 240), ("a: [", None), ("steps: 3\n", None), (None, None)]
)
def test_steps_to_come_are_those_of_the_config(tmp_path: Path, config: str | None, total: int | None) -> None:
    folder = SweepFolder(tmp_path)
    if config is not None:
        folder.run_config("p01").parent.mkdir(parents=True)
        folder.run_config("p01").write_text(config)
    write_metrics(tmp_path / "p01", 12)
    assert progress(folder, "p01") == Progress(12, total)


def test_a_metric_is_seen_in_the_last_rows(tmp_path: Path) -> None:
    assert not has_value(tmp_path, "loss")
    write_metrics(tmp_path, 3)
    names = json.loads((tmp_path / "attempts/01/metrics.jsonl").read_text().splitlines()[-1])["values"]
    assert [has_value(tmp_path, name) for name in (*names, "other")] == [*(True for _ in names), False]


def test_last_words_are_the_last_line_that_says_something(tmp_path: Path) -> None:
    (tmp_path / "pane.log").write_bytes(b"one\r\nharness: the codebase is gone\r\n\r\n")
    assert last_words(tmp_path) == "the codebase is gone"
    assert last_words(tmp_path / "nowhere") == "it printed nothing"
