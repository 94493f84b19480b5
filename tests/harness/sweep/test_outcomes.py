"""What became of a run, from the small files that it leaves."""

import json
from pathlib import Path

import pytest

from harness.sweep.outcomes import RunEnd, last_words, run_end, value_at_end


def with_facts(folder: Path, facts: dict[str, object]) -> Path:
    content = {"facts": [{"id": name, "value": value} for name, value in facts.items()]}
    (folder / "result.json").write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize(
    ("metric", "facts", "value"),
    [
        ("", {"key/pass_rate_end": 0.7, "key/reward_recent": 0.5}, 0.7),
        ("", {"key/reward_recent": 0.5}, 0.5),
        ("", {"key/steps": 3}, None),
        ("val/task_pass_rate@1", {"key/pass_rate_end": 0.7, "key/pass_rate_best": 0.9}, 0.7),
        ("task_pass_rate@1", {"key/pass_rate_end": 0.7}, 0.7),
        ("val/mean_reward", {"val/20/mean_reward": 0.2, "val/100/mean_reward": 0.4, "val/100/x": 9}, 0.4),
        ("loss", {"metric/loss/last": 1.5, "metric/loss/lowest": 1.0}, 1.5),
        ("critic/rewards/mean", {"metric/critic/rewards/mean/last": 0.25}, 0.25),
        ("loss", {"metric/loss/last": None}, None),
    ],
)
def test_the_value_is_that_of_the_end(
    tmp_path: Path, metric: str, facts: dict[str, object], value: float | None
) -> None:
    assert value_at_end(with_facts(tmp_path, facts), metric) == value


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"facts": []}'])
def test_a_result_that_cannot_be_read_has_no_value(tmp_path: Path, text: str) -> None:
    (tmp_path / "result.json").write_text(text)
    assert value_at_end(tmp_path, "") is None


def test_a_run_has_ended_when_its_flag_is_there(tmp_path: Path) -> None:
    assert run_end(tmp_path) is None
    (tmp_path / "finish.flag").write_text('{"outcome": "failed", "reason": "out of memory"}')
    assert run_end(tmp_path) == RunEnd("failed", "out of memory")


def test_last_words_are_the_last_line_that_says_something(tmp_path: Path) -> None:
    (tmp_path / "pane.log").write_bytes(b"one\r\nharness: the codebase is gone\r\n\r\n")
    assert last_words(tmp_path) == "the codebase is gone"
    assert last_words(tmp_path / "nowhere") == "it printed nothing"


def test_a_reward_is_the_mean_of_the_last_rows_as_the_comparison_takes_it(tmp_path: Path) -> None:
    facts = [
        {"id": "key/reward_recent", "value": 0.4, "recipe": "mean", "note": "reward"},
        {"id": "metric/reward/last", "value": 0.9, "recipe": "value"},
    ]
    (tmp_path / "result.json").write_text(json.dumps({"facts": facts}))
    assert value_at_end(tmp_path, "reward") == 0.4
