"""Pass rates against enumeration and the published table."""

import itertools
import json
import math
from pathlib import Path

import pytest

from trainer_core.types import Episode, Task
from trainer_core.validation.files import ValidationFiles
from trainer_core.validation.pass_rates import (
    KEPT_SAMPLES,
    TaskResult,
    ValidationResult,
    first_k_pass_rate,
    summarize,
    unbiased_pass_at_k,
)


def result(step: int, *rows: str) -> ValidationResult:
    """Rows such as "1001": attempts in their order, 1 for a success."""
    tasks = tuple(
        TaskResult(f"t{number}", tuple(map(float, row)), tuple(digit == "1" for digit in row))
        for number, row in enumerate(rows)
    )
    return ValidationResult(step, tasks)


@pytest.mark.parametrize(
    ("attempts", "successes", "k", "expected"),
    [
        (8, 1, 2, 0.25),
        (8, 2, 4, 0.785714),
        (8, 3, 2, 0.642857),
        (8, 5, 4, 1.0),
        (4, 1, 4, 1.0),
        (4, 2, 2, 0.833333),
    ],
)
def test_unbiased_pass_at_k_table(attempts: int, successes: int, k: int, expected: float) -> None:
    assert unbiased_pass_at_k(attempts, successes, k) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("successes", range(6))
def test_unbiased_is_the_mean_of_first_k_over_all_orders(successes: int) -> None:
    attempts = [True] * successes + [False] * (5 - successes)
    orders = list(itertools.permutations(attempts))
    for k in range(2, 6):
        rates = [first_k_pass_rate([TaskResult("t", (0.0,) * 5, order)], k) for order in orders]
        assert unbiased_pass_at_k(5, successes, k) == pytest.approx(sum(rates) / len(rates))


def test_metrics_by_hand() -> None:
    metrics = result(3, "1111", "0010", "0000").metrics()
    assert metrics["val/task_pass_rate@1"] == pytest.approx(5 / 12)
    assert metrics["val/task_pass_rate@2"] == pytest.approx(1 / 3)  # the second task fails twice first
    assert metrics["val/task_pass_rate@4"] == pytest.approx(2 / 3)
    assert metrics["val/unbiased_pass@2"] == pytest.approx((1 + 0.5 + 0) / 3)
    assert metrics["val/num_all_success_tasks"] == 1
    assert metrics["val/num_pass_n_tasks"] == 2
    assert metrics["val/mean_reward"] == pytest.approx(5 / 12)
    assert metrics["val/std_reward"] == pytest.approx(math.sqrt(5 / 12 * 7 / 12))
    assert (metrics["val/total_tasks"], metrics["val/pass_n"]) == (3, 4)
    assert "val/task_pass_rate@8" not in metrics


def test_success_is_the_judges_word_and_not_the_reward() -> None:
    partly = ValidationResult(0, (TaskResult("t", (0.5, 0.5), (True, False)),))
    assert partly.metrics()["val/task_pass_rate@1"] == 0.5
    assert partly.metrics()["val/mean_reward"] == 0.5


def files(folder: Path, resume_step: int | None = None, pass_n: int = 1) -> ValidationFiles:
    table = folder / "deep" / "validation.md"
    return ValidationFiles(folder / "validation.jsonl", table, pass_n, resume_step=resume_step)


def test_markdown_table_is_one_a_markdown_parser_reads(tmp_path: Path) -> None:
    from markdown_it import MarkdownIt

    written = files(tmp_path, pass_n=2)
    written.write(result(0, "10", "00"))
    written.write(result(20, "11", "01"))
    tokens = MarkdownIt().enable("table").parse((tmp_path / "deep" / "validation.md").read_text())
    cells = [token.content for token in tokens if token.type == "inline"]
    columns = [
        *("step", "pass_n", "total_tasks", "num_all_success_tasks", "num_pass_n_tasks"),
        *("task_pass_rate@1", "task_pass_rate@2", "mean_reward", "std_reward"),
    ]
    assert cells[: len(columns)] == columns
    assert cells[len(columns) :] == [
        *["0", "2", "2", "0", "1", "0.25", "0.5", "0.25", "0.433013"],
        *["20", "2", "2", "1", "2", "0.75", "1", "0.75", "0.433013"],
    ]


@pytest.mark.parametrize(("resume_step", "left"), [(20, ["0", "20", "30"]), (None, ["30"]), (0, ["0", "30"])])
def test_resumed_table_repeats_no_row(tmp_path: Path, resume_step: int | None, left: list[str]) -> None:
    written = files(tmp_path)
    for step in (0, 20, 40):
        written.write(result(step, "1"))
    files(tmp_path, resume_step).write(result(30, "0"))
    rows = (tmp_path / "deep" / "validation.md").read_text().splitlines()[2:]
    assert [row.split(" ")[1] for row in rows] == left


def test_record_per_task_is_cut_back_on_resume(tmp_path: Path) -> None:
    path = tmp_path / "validation.jsonl"
    written = files(tmp_path, pass_n=2)
    written.write(result(0, "10", "01"))
    written.write(result(5, "11", "11"))
    with path.open("a") as file:
        file.write('{"step": 5, "task')  # a crash in the middle of a line
    files(tmp_path, 0, pass_n=2).write(result(4, "00"))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row["step"], row["task_id"]) for row in rows] == [(0, "t0"), (0, "t1"), (4, "t0")]
    assert rows[0] == {"step": 0, "task_id": "t0", "rewards": [1.0, 0.0], "successes": [True, False]}


def test_the_answers_to_the_first_tasks_are_kept_as_samples(tmp_path: Path) -> None:
    episodes = [
        Episode(Task(f"t{task}", f"sort {task}"), repeat, (), f"{task}-{repeat}", reward=1.0, is_success=True)
        for task in range(KEPT_SAMPLES + 2)
        for repeat in range(2)
    ]
    path = tmp_path / "validation.jsonl"
    ValidationFiles(path, None, 2, resume_step=None).write(summarize(3, episodes))
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert (rows[1]["query"], rows[1]["texts"]) == ("sort 1", ["1-0", "1-1"])
    assert ["texts" in row for row in rows] == [True] * KEPT_SAMPLES + [False] * 2


def test_a_failed_episode_is_no_success_and_has_no_reward(tmp_path: Path) -> None:
    task = Task("t", "q")
    good = Episode(task, 0, (), reward=1.0, is_success=True)
    half = Episode(task, 1, (), reward=0.5)
    failed = Episode(task, 2, (), error="boom")
    validation = summarize(1, [good, half, failed])
    metrics = validation.metrics()
    assert metrics["val/task_pass_rate@1"] == pytest.approx(1 / 3)
    assert (metrics["val/mean_reward"], metrics["val/std_reward"]) == (0.75, 0.25)
    assert metrics["val/failed_episodes"] == 1
    assert "val/failed_episodes" not in summarize(1, [good, half]).metrics()
    path = tmp_path / "validation.jsonl"
    ValidationFiles(path, None, 3, resume_step=None).write(validation)
    assert json.loads(path.read_text())["rewards"] == [1.0, 0.5, None]
