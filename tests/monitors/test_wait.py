"""The waiter's decisions with a faked clock and faked files; test_supervise has real ones."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from monitors.files import AttemptFiles
from monitors.processes import boot_id, read_process
from monitors.wait import BACKOFF, Waiter, WakeReason


class FakeClock:
    """Time that passes only by waiting; `then` is called after each wait with the new time."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.then: list[tuple[float, object]] = []

    def time(self) -> float:
        return self.now

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        await asyncio.sleep(0)
        if not event.is_set():
            self.now += seconds
            while self.then and self.then[0][0] <= self.now:
                self.then.pop(0)[1]()  # type: ignore[operator]


@pytest.fixture
def files(tmp_path: Path) -> AttemptFiles:
    """An attempt supervised by this very process, so that it surely runs."""
    made = AttemptFiles(tmp_path)
    entry = read_process(os.getpid())
    assert entry is not None
    made.started.mkdir()
    record = {"attempt_id": "a", "pid": os.getpid(), "start_ticks": entry.start_ticks, "boot_id": boot_id()}
    made.supervisor_file.write_text(json.dumps(record))
    return made


def end(files: AttemptFiles, **more: object) -> None:
    files.exit_file.write_text(json.dumps({"attempt_id": "a", "reason": "exited", "status": 0} | more))


async def test_back_off_schedule(files: AttemptFiles) -> None:
    clock = FakeClock()
    waiter = Waiter(files, clock=clock)
    waits = [await waiter.wait() for _ in range(8)]
    assert {wake.reason for wake in waits} == {WakeReason.TICK}
    assert [round(wake.waited_s) for wake in waits] == [30, 60, 120, 240, 480, 960, 960, 960]
    assert BACKOFF == (30, 60, 120, 240, 480, 960)


async def test_ended_attempt_returns_at_once(files: AttemptFiles) -> None:
    end(files, status=3, leftovers=[5])
    clock = FakeClock()
    wake = await Waiter(files, clock=clock).wait()
    assert (wake.reason, wake.waited_s) == (WakeReason.EXITED, 0)
    assert wake.exit is not None and (wake.exit.status, wake.exit.leftovers) == (3, (5,))


async def test_slow_check_finds_an_end_that_nothing_announced(files: AttemptFiles) -> None:
    clock = FakeClock()
    clock.then = [(clock.now + 61, lambda: end(files))]
    wake = await Waiter(files, clock=clock).wait(timeout=3600)
    assert wake.reason == WakeReason.EXITED
    assert wake.waited_s <= 91


async def test_deadline_comes_before_the_interval(files: AttemptFiles) -> None:
    clock = FakeClock()
    wake = await Waiter(files, clock=clock).wait(timeout=500, deadline=clock.now + 45)
    assert wake.reason == WakeReason.DEADLINE
    assert wake.waited_s == 45


async def test_attempt_that_has_not_started_is_waited_for(tmp_path: Path) -> None:
    wake = await Waiter(AttemptFiles(tmp_path), clock=FakeClock()).wait()
    assert wake.reason == WakeReason.TICK


async def test_script_killed_before_its_supervisor_came_up_is_lost(tmp_path: Path) -> None:
    files = AttemptFiles(tmp_path)
    files.started.mkdir()
    assert files.state() == "not_started"
    later = files.started.stat().st_mtime + 61
    assert AttemptFiles(tmp_path, clock=lambda: later).state() == "lost"


async def test_supervisor_of_another_boot_is_lost(files: AttemptFiles) -> None:
    record = json.loads(files.supervisor_file.read_text()) | {"boot_id": "another"}
    files.supervisor_file.write_text(json.dumps(record))
    assert (await Waiter(files, clock=FakeClock()).wait()).reason == WakeReason.LOST


async def test_watched_lines_come_one_by_one_and_once(files: AttemptFiles) -> None:
    files.pane_log.write_text("start\nstep 1\nnoise\nstep 2\nstep 3 unfinished")
    waiter = Waiter(files, clock=FakeClock())
    seen = [await waiter.wait(patterns=[r"^step \d"]) for _ in range(3)]
    assert [(wake.reason, wake.line and wake.line.number) for wake in seen] == [
        (WakeReason.LINE, 2),
        (WakeReason.LINE, 4),
        (WakeReason.TICK, None),
    ]


async def test_new_line_wakes_through_the_file_system(files: AttemptFiles) -> None:
    files.pane_log.write_text("start\n")
    waiting = asyncio.ensure_future(Waiter(files).wait(timeout=20, patterns=["needle"]))
    await asyncio.sleep(0)
    with files.pane_log.open("a") as log:
        log.write("a needle\n")
    wake = await waiting
    assert wake.reason == WakeReason.LINE
    assert wake.waited_s < 10


async def test_cancelled_waits_leave_no_descriptor_behind(files: AttemptFiles) -> None:
    async def begin_and_cancel() -> None:
        waiting = [asyncio.ensure_future(Waiter(files).wait(patterns=["x"])) for _ in range(5)]
        await asyncio.sleep(0)
        for task in waiting:
            task.cancel()
        assert all(
            isinstance(r, asyncio.CancelledError)
            for r in await asyncio.gather(*waiting, return_exceptions=True)
        )

    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    await begin_and_cancel()
    before = descriptors()
    await begin_and_cancel()
    assert descriptors() == before
