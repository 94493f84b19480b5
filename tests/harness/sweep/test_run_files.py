"""What a run's own files say: where it is, how it ended, the metric at its end."""

import json
from pathlib import Path

import pytest

from harness.sweep import run_files
from harness.sweep.folder import SweepFolder
from harness.sweep.run_files import Progress, last_step, last_words, progress, value_at_end
from tests.harness.sweep.sweep_states import write_metrics

Facts = dict[str, object]
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


@pytest.mark.parametrize(
    ("metric", "facts", "value"),
    [
        ("", {"key/pass_rate_end": 0.7, "key/reward_last": 0.5}, 0.7),
        ("", {"key/result_end": 0.6, "key/reward_last": 0.5}, 0.6),
        ("", {"key/reward_last": 0.5}, 0.5),
        ("", {"key/steps": 3}, None),
        ("val/task_pass_rate@1", {"key/pass_rate_end": 0.7, "key/pass_rate_best": 0.9}, 0.7),
        ("task_pass_rate@1", {"key/pass_rate_end": 0.7}, 0.7),
        ("val/mean_reward", {"val/20/mean_reward": 0.2, "val/100/mean_reward": 0.4, "val/100/x": 9}, 0.4),
        ("loss", {"metric/loss/last": 1.5, "metric/loss/lowest": 1.0}, 1.5),
        ("critic/rewards/mean", {"metric/critic/rewards/mean/last": 0.25}, 0.25),
        ("loss", {"metric/loss/last": None}, None),
    ],
)
def test_the_value_is_that_of_the_end(tmp_path: Path, metric: str, facts: Facts, value: float | None) -> None:
    content = [{"id": name, "value": value} for name, value in facts.items()]
    (tmp_path / "result.json").write_text(json.dumps({"facts": content}))
    assert value_at_end(tmp_path, metric) == value


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"facts": []}'])
def test_a_result_that_cannot_be_read_has_no_value(tmp_path: Path, text: str) -> None:
    (tmp_path / "result.json").write_text(text)
    assert value_at_end(tmp_path, "") is None


def test_last_words_are_the_last_line_that_says_something(tmp_path: Path) -> None:
    (tmp_path / "pane.log").write_bytes(b"one\r\nharness: the codebase is gone\r\n\r\n")
    assert last_words(tmp_path) == "the codebase is gone"
    assert last_words(tmp_path / "nowhere") == "it printed nothing"
