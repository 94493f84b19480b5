"""What a watch tells from logs, rows, the clock and the disk."""

from __future__ import annotations

import json
import math
import os
import tracemalloc
from pathlib import Path

import pytest

from monitors.files import AttemptFiles
from monitors.metrics import MetricPatterns
from monitors.rules import Event, MetricSource, WatchRules, plateau
from monitors.watch import Watch
from tests.monitors.metric_records import read_metrics

START = 1_000_000.0


class World:
    """An attempt's folder that tests write into, and the time there."""

    def __init__(self, folder: Path) -> None:
        self.files = AttemptFiles(folder)
        self.now = START
        self.file_server_s = 0.0  # how far its clock is ahead of ours
        self.files.started.mkdir()
        self.files.trainer.mkdir()
        record = {"attempt_id": "a", "pid": 1, "started_at": START, "command_started_at": START}
        self.files.supervisor_file.write_text(json.dumps(record))

    def watch(self, source: MetricSource = MetricSource.CONSOLE, **rules: object) -> Watch:
        return Watch(self.files, source, WatchRules(**rules), clock=lambda: self.now)  # type: ignore[arg-type]

    def log(self, *lines: str) -> None:
        self._append(self.files.pane_log, lines)

    def row(self, **values: object) -> None:
        self._append(self.files.trainer_metrics, [json.dumps(values)])

    def samples(self, *samples: dict[str, float]) -> None:
        self._append(self.files.resources, map(json.dumps, samples))

    def _append(self, path: Path, lines: object) -> None:
        with path.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)  # type: ignore[attr-defined]
        written_at = self.now + self.file_server_s
        os.utime(path, (written_at, written_at))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def waking(events: list[Event]) -> list[str]:
    return [event.kind for event in events]


def test_first_step_needs_the_kl_loss_where_there_is_one(world: World) -> None:
    watch = world.watch(expects_kl=True)
    world.log("step:0 - val/task_pass_rate@1:0.25", "step:1 - actor/pg_loss:0.1")
    assert waking(watch.poll()) == []
    world.log("step:2 - actor/kl_loss:0.001")
    (event,) = watch.poll()
    assert (event.kind, event.step, event.line_number) == ("first_step", 2, 3)
    world.log("step:3 - actor/kl_loss:0.001")
    assert waking(watch.poll()) == []


def test_first_step_is_the_first_training_row_otherwise(world: World) -> None:
    watch = world.watch()
    world.log("step:0 - val/task_pass_rate@1:0.25")
    assert waking(watch.poll()) == []
    world.log("{'loss': 0.5, 'epoch': 0.1}")
    assert waking(watch.poll()) == ["first_step"]


def test_first_step_by_the_users_own_pattern(world: World) -> None:
    watch = world.watch(patterns=MetricPatterns.compile(first_step="engine warmed up"))
    world.log("step:1 - loss:0.5")
    assert waking(watch.poll()) == []
    world.log("engine warmed up")
    assert waking(watch.poll()) == ["first_step"]


def test_rows_come_from_one_source_only(world: World) -> None:
    world.log("step:1 - critic/rewards/mean:0.5")
    world.row(step=1, **{"critic/rewards/mean": 0.5})
    for source in MetricSource:
        watch = world.watch(source)
        watch.poll()
        assert watch.rows.count == 1
        (record,) = read_metrics(world.files.metrics)
        assert record["source"] == {"file": source.value, "line": 1}
        assert watch.rows.rewards == [(1, 0.5)]
        watch.close()


def test_metrics_file_is_written_again_by_a_new_watch_and_tolerates_a_torn_line(world: World) -> None:
    world.log("step:1 - loss:0.5")
    world.watch().poll()
    with world.files.metrics.open("a") as file:
        file.write('{"step": 2, "val')
    assert [record["step"] for record in read_metrics(world.files.metrics)] == [1]
    world.log("step:2 - loss:0.25")
    world.watch().poll()
    assert [record["values"] for record in read_metrics(world.files.metrics)] == [
        {"loss": 0.5},
        {"loss": 0.25},
    ]


def test_trainer_that_resumes_replaces_its_rows(world: World) -> None:
    watch = world.watch(MetricSource.TRAINER)
    for step in (1, 2, 3):
        world.row(step=step, loss=0.5)
    watch.poll()
    world.files.trainer_metrics.write_text('{"step": 1, "loss": 0.5}\n')
    watch.poll()
    world.row(step=2, loss=0.1)
    watch.poll()
    assert [record["step"] for record in read_metrics(world.files.metrics)] == [1, 2]
    assert watch.rows.step == 2


def test_nan_is_told_once_for_each_metric(world: World) -> None:
    watch = world.watch()
    world.log("step:1 - loss:0.5 - timing:nan", "step:2 - loss:nan", "step:3 - loss:nan")
    assert waking(watch.poll()) == ["first_step", "nan"]
    assert math.isnan(watch.rows.values["loss"])
    world.log("step:4 - loss:0.5", "step:5 - loss:inf", "step:6 - loss:0.4 - grad_norm:nan")
    assert waking(watch.poll()) == ["nan"]


def test_errors_are_told_at_once_then_gathered(world: World) -> None:
    watch = world.watch()
    world.log("loading", "Traceback (most recent call last):", "KeyError: 'a'")
    (event,) = watch.poll()
    assert (event.kind, event.line_number) == ("error_line", 2)
    world.now += 59
    assert watch.poll() == []
    world.now += 1
    assert [event.text for event in watch.poll()] == ["KeyError: 'a'"]
    assert watch.poll() == []
    world.now += 100
    world.log(
        "Traceback (most recent call last):",
        "no error: all fine",
        "torch.OutOfMemoryError: CUDA out of memory",
    )
    assert [event.text for event in watch.poll()] == ["torch.OutOfMemoryError: CUDA out of memory"]


@pytest.mark.parametrize("file_server_s", [0.0, -18_000.0, 18_000.0])
def test_first_step_timeout_and_hang(world: World, file_server_s: float) -> None:
    """Whatever the times of the files: a clock may be set."""
    world.file_server_s = file_server_s
    watch = world.watch()

    def told_until(end: float) -> list[str]:
        """What is told by looks every five minutes and at the end."""
        found = []
        while world.now < end:
            world.now = min(world.now + 300, end)
            found += waking(watch.poll())
        return found

    assert watch.poll() == []
    assert told_until(START + 1200) == []
    assert told_until(START + 1201) == ["first_step_timeout"]
    assert told_until(START + 1800) == []
    assert told_until(START + 1801) == ["hang"]
    world.log("alive again")
    assert waking(watch.poll()) == []
    assert told_until(START + 1801 + 1800) == []
    assert told_until(START + 1801 + 1801) == ["hang"]


def test_plateau(world: World) -> None:
    watch = world.watch()
    for step, rate in enumerate([0.2, 0.5, 0.505, 0.49, 0.5, 0.4, 0.45, 0.3, 0.7]):
        world.log(f"step:{step} - val/task_pass_rate@1:{rate}")
        told = waking(watch.poll())
        assert told == (["plateau"] if step == 6 else []), step
    assert watch.rows.pass_rates[-1] == (8, 0.7)


def test_plateau_is_known_with_its_evidence_for_as_long_as_it_lasts(world: World) -> None:
    watch = world.watch()
    for step, rate in enumerate([0.5, 0.4, 0.45, 0.44, 0.43, 0.5]):
        world.log(f"step:{step} - val/task_pass_rate@1:{rate}")
    watch.poll()
    assert watch.plateau is not None
    assert (
        "0.5: 0.4 at step 1, 0.45 at step 2, 0.44 at step 3, 0.43 at step 4, 0.5 at step 5" in watch.plateau
    )
    world.log("step:6 - val/task_pass_rate@1:0.6")
    watch.poll()
    assert watch.plateau is None


@pytest.mark.parametrize("source", list(MetricSource))
def test_fatal_signs_name_file_and_line_and_go_when_the_run_recovers(
    world: World, source: MetricSource
) -> None:
    watch = world.watch(source)
    for step in (1, 2, 3):
        world.log(f"step:{step} - actor/loss:nan")
        world.row(step=step, **{"actor/loss": math.nan})
    watch.poll()
    (why,) = watch.fatal(world.now)
    assert f"actor/loss is NaN at step 3 (line 3 of {source.value})" in why
    assert watch.fatal_sign(world.now) == "not_finite"
    world.log("step:4 - actor/loss:0.5")
    world.row(step=4, **{"actor/loss": 0.5})
    watch.poll()
    assert watch.fatal(world.now) == ()


@pytest.mark.parametrize("source", list(MetricSource))
def test_error_after_the_last_row_and_then_nothing_is_fatal(world: World, source: MetricSource) -> None:
    watch = world.watch(source)
    world.row(step=1, loss=0.5)
    world.log("step:1 - loss:0.5", "ValueError: broken", "    in layer 3")
    watch.poll()
    for _ in range(21):
        world.now += 30
        watch.poll()
    (why,) = watch.fatal(world.now)
    assert "630 s after the error in line 2: ValueError: broken" in why
    assert watch.fatal_sign(world.now) == "after_error"


@pytest.mark.parametrize("source", list(MetricSource))
def test_alarm_is_told_once_with_its_evidence_and_is_not_fatal(world: World, source: MetricSource) -> None:
    watch = world.watch(source)
    events = []
    for step in range(1, 131):
        world.log(f"step:{step} - critic/rewards/mean:0.0")
        world.row(step=step, **{"critic/rewards/mean": 0.0})
        events += watch.poll()
    (stuck,) = (event for event in events if event.kind == "reward_stuck")
    assert (stuck.step, stuck.line_number, stuck.data["rows"]) == (100, 1, 100)
    assert "exactly 0 in all 100 rows" in stuck.text
    assert watch.fatal(world.now) == ()
    assert [event for event in world.watch(source).poll() if event.kind == "reward_stuck"] == [stuck]


def test_alarm_that_comes_and_goes_is_told_a_few_times_only(world: World) -> None:
    watch = world.watch()
    steps = iter(range(1, 1000))
    world.log(*(f"step:{next(steps)} - loss:0.5" for _ in range(30)))
    for _ in range(6):
        world.log(*(f"step:{next(steps)} - loss:7000" for _ in range(6)))
        world.log(*(f"step:{next(steps)} - loss:0.5" for _ in range(3)))
    assert waking(watch.poll()) == ["first_step", *["divergence"] * 3]


def test_rows_that_stop_while_the_log_goes_on_are_a_stall(world: World) -> None:
    watch = world.watch()
    for step in range(1, 21):
        world.now += 30
        world.log(f"step:{step} - loss:0.5")
        watch.poll()
    events = []
    for minute in range(20):
        world.now += 60
        world.log(f"still here after {minute} minutes")
        events += watch.poll()
    assert [(event.kind, event.time) for event in events] == [("stall", world.now - 240)]
    world.log("step:21 - loss:0.5")
    assert watch.poll() == []


def test_disk_that_fills_is_told_from_the_samples(world: World) -> None:
    watch = world.watch(first_step_timeout_s=math.inf)
    events = []
    for number in range(90):
        world.now += 30
        world.log(f"sample {number}")
        free = {"disk_free_bytes": 10**11 - number * 10**9, "mem_available_bytes": 10**11}
        world.samples({"time": world.now, **free})
        events += watch.poll()
    assert waking(events) == ["disk_fills"]


def test_plateau_needs_something_to_compare_with() -> None:
    assert not plateau([0.5] * 5)
    assert plateau([0.5] * 6)


def test_long_log_leaves_no_more_behind_than_a_short_one(world: World) -> None:
    watch = world.watch()

    def go_on(first: int) -> int:
        steps = range(first, first + 1200)
        world.log(
            *(f"step:{step} - loss:0.5 - reward:0.5 - val/accuracy:{step % 7}" for step in steps),
            *(f"Error{chr(97 + step % 26)}{chr(97 + step // 26 % 26)}Error: {step}" for step in steps),
        )
        watch.poll()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        sizes = [go_on(first) for first in range(0, 6000, 1200)]
    finally:
        tracemalloc.stop()
    assert sizes[-1] - sizes[1] < 20_000
    assert watch.rows.count == 6000 and watch.rows.pass_rates[0] == (0, 0)


def test_one_piece_at_a_time_gives_the_same_as_all_at_once(world: World) -> None:
    world.log(*(f"step:{step} - loss:0.5 {'x' * 2000}" for step in range(1, 801)), "KeyError: 'a'")
    pieces = world.watch()
    events = pieces.poll_piece()
    assert not pieces.at_end and 0 < pieces.rows.count < 800
    events += pieces.poll()
    assert events == world.watch().poll()
    assert [event.kind for event in events] == ["first_step", "error_line"]
    assert pieces.rows.count == 800


def test_low_disk(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("monitors.watch.DISK_LOW_BYTES", 1 << 60)
    watch = world.watch()
    assert waking(watch.poll()) == ["disk_low"]
    world.now += 100
    assert waking(watch.poll()) == []
