"""Console lines, the metrics file, outside services."""

import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from trainer_core.timeline import merge, to_batch
from trainer_core.tracking.atomic import cut_back, write_atomically
from trainer_core.tracking.batch_metrics import batch_metrics
from trainer_core.tracking.metrics import MetricsLog, console_line
from trainer_core.tracking.services import Outside, connect
from trainer_core.types import Call, Episode, FinishReason, Task, TrainingError


def test_console_line_has_the_agreed_shape() -> None:
    line = console_line(
        12, {"actor/kl_loss": 0.001234567, "critic/rewards/mean": 1.0, "val/pass_n": 4, "x": 3e-7}
    )
    assert line == "step:12 - actor/kl_loss:0.00123457 - critic/rewards/mean:1.0 - val/pass_n:4 - x:3e-07"


def test_metrics_log_writes_console_and_file(tmp_path: Path) -> None:
    console = io.StringIO()
    log = MetricsLog(tmp_path / "metrics.jsonl", console, resume_step=None)
    log.write(0, {"val/task_pass_rate@1": 0.25})
    log.write(1, {"actor/kl_loss": 1 / 3})
    assert console.getvalue().splitlines() == [
        "step:0 - val/task_pass_rate@1:0.25",
        "step:1 - actor/kl_loss:0.333333",
    ]
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert rows == [{"step": 0, "val/task_pass_rate@1": 0.25}, {"step": 1, "actor/kl_loss": 1 / 3}]


@pytest.mark.parametrize(("resume_step", "steps"), [(None, []), (0, [0]), (2, [0, 1, 2]), (9, [0, 1, 2, 3])])
def test_rows_after_the_checkpoint_are_dropped(
    tmp_path: Path, resume_step: int | None, steps: list[int]
) -> None:
    path = tmp_path / "metrics.jsonl"
    log = MetricsLog(path, io.StringIO(), resume_step=None)
    for step in range(4):
        log.write(step, {"a": 0.5})
    with path.open("a") as file:
        file.write('{"step": 4, "a": 0.')  # a crash in the middle of a line
    resumed = MetricsLog(path, io.StringIO(), resume_step=resume_step)
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == steps
    assert resumed.last_step == (steps[-1] if steps else None)


def test_atomic_write_leaves_the_old_file_when_it_fails(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "new \ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_cutting_back_makes_a_missing_file_and_splits_at_newlines_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "validation.jsonl"
    assert cut_back(path, 5) is None
    assert path.read_text() == ""
    odd = "".join(f'{{"step": {step}, "task_id": "a\u2028b\u0085c"}}\n' for step in (1, 2, 3))
    path.write_text(odd, encoding="utf-8")
    assert cut_back(path, 2) == 2
    assert path.read_text(encoding="utf-8").count("\n") == 2


def test_batch_metrics_by_hand() -> None:
    task = Task("t", "?")
    calls = [Call((1, 2), (5, 6, 7), (-0.5,) * 3, FinishReason.LENGTH), Call((1, 2), (5,), (-1.0,))]
    episodes = [
        Episode(task, 0, (calls[0],), reward=1.0, is_success=True),
        Episode(task, 1, (calls[1],), reward=0.25),
        Episode(task, 2, (), error="the engine failed"),
    ]
    batch, _ = to_batch(merge(episodes).sequences)
    batch = replace(batch, advantage=torch.where(batch.segment == 0, 1.0, -1.0))
    metrics = batch_metrics(episodes, batch, longest_response=3)
    expected = {
        "critic/rewards/mean": 0.625,
        "critic/rewards/max": 1.0,
        "critic/rewards/min": 0.25,
        "critic/advantages/mean": 0.5,
        "critic/success_rate": 0.5,
        "critic/failed_episodes": 1,
        "response_length/mean": 2.0,
        "response_length/clip_ratio": 0.5,
        "prompt_length/mean": 2.0,
        "perf/total_num_tokens": 8,
    }
    assert {name: metrics[name] for name in expected} == pytest.approx(expected)


class Breaking:
    """A service whose network dies after the first row."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def log(self, values: Any, step: int) -> None:
        if self.rows:
            raise ConnectionError("network is unreachable")
        self.rows.append(step)

    def finish(self) -> None:
        raise AssertionError("a broken service is left alone")


def test_a_service_that_dies_is_reported_once_and_training_goes_on() -> None:
    said: list[str] = []
    service = Breaking()
    outside = Outside("swanlab", lambda: service, said.append)
    for step in range(4):
        outside.log({"a": 1.0}, step)
    outside.finish()
    assert service.rows == [0]
    assert len(said) == 1
    assert said[0].startswith(
        "warning: swanlab failed and gets no more rows (ConnectionError: network is unreachable)"
    )


def test_a_service_that_is_not_installed_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "swanlab", None)
    with pytest.raises(TrainingError, match="pip install swanlab"):
        Outside("swanlab", lambda: connect("swanlab", "p", "e", {}, tmp_path), lambda _: None)


SWANLAB_SCRIPT = """
import sys
from pathlib import Path
from trainer_core.tracking.services import Outside, connect

folder = Path(sys.argv[1])
outside = Outside("swanlab", lambda: connect("swanlab", "project", "run", {"lr": 0.1}, folder), print)
outside.log({"actor/kl_loss": 0.125}, 1)
outside.log({"actor/kl_loss": 0.375}, 2)
outside.finish()
"""


def test_swanlab_takes_rows_without_a_network(tmp_path: Path) -> None:
    """In a process of its own, because swanlab takes over its process's console."""
    subprocess.run(
        [sys.executable, "-c", SWANLAB_SCRIPT, str(tmp_path)],
        env={**os.environ, "SWANLAB_MODE": "local", "HOME": str(tmp_path)},
        check=True,
        capture_output=True,
        timeout=120,
    )
    logged = "".join(path.read_text() for path in tmp_path.glob("swanlog/run-*/logs/*/*.log"))
    assert "0.125" in logged and "0.375" in logged
