"""The waiter's decisions with a faked clock and faked files; test_supervise has real ones."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from monitors.files import AttemptFiles, Exit
from monitors.processes import boot_id, read_process
from monitors.rules import Event
from monitors.wait import BACKOFF, Waiter, WakeReason, describe
from monitors.watch import Watch


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
    record = json.loads(files.supervisor_file.read_text())
    files.supervisor_file.write_text(json.dumps(record | {"start_ticks": 1}))  # it is gone
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


async def test_an_end_that_the_training_wrote_itself_is_not_believed(files: AttemptFiles) -> None:
    files.exit_file.write_text(json.dumps({"attempt_id": "a", "reason": "exited", "status": 0}))
    assert (files.state(), files.exit()) == ("running", None)


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


async def test_supervisor_of_another_boot_is_lost(files: AttemptFiles) -> None:
    record = json.loads(files.supervisor_file.read_text()) | {"boot_id": "another"}
    files.supervisor_file.write_text(json.dumps(record))
    assert (await Waiter(files, clock=FakeClock()).wait()).reason == WakeReason.LOST


async def test_new_line_wakes_through_the_file_system(files: AttemptFiles) -> None:
    files.pane_log.write_text("start\n")
    waiting = asyncio.ensure_future(Waiter(files, watch=Watch(files)).wait(timeout=20))
    await asyncio.sleep(0)
    with files.pane_log.open("a") as log:
        log.write("ValueError: a needle\n")
    wake = await waiting
    assert (wake.reason, wake.detail) == (WakeReason.EVENT, "ValueError: a needle")
    assert wake.waited_s < 10


class BusyLog(FakeClock):
    """Time in which a log grows by a line every 50 ms; `errors`: at which moments one of them is an error."""

    def __init__(self, log: Path, errors: list[float]) -> None:
        super().__init__()
        self._log = log.open("ab", buffering=0)
        self.errors = [self.now + at for at in errors]

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end and not event.is_set():
            self.now += 0.05
            self._log.write(b"Engine 000: throughput 812.4 tokens/s, KV cache usage 41.3%\n" * 40)
            if self.errors and self.errors[0] <= self.now:
                self._log.write(b"ValueError: %d\n" % self.errors.pop(0))
            await asyncio.sleep(0)


async def test_busy_log_is_read_seldom_but_its_first_error_is_told_within_a_second(
    files: AttemptFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = BusyLog(files.pane_log, errors=[20.3])
    watch = Watch(files, clock=clock.time)
    polls: list[float] = []
    poll = watch.poll_piece

    def noted(final: bool) -> list[Event]:
        polls.append(clock.now)
        return poll(final)

    monkeypatch.setattr(watch, "poll_piece", noted)
    wake = await Waiter(files, watch=watch, clock=clock).wait(timeout=60)
    assert (wake.reason, wake.detail) == (WakeReason.EVENT, f"ValueError: {1_000_020}")
    assert wake.waited_s == pytest.approx(20.3, abs=1.1)
    assert len(polls) < 25


async def test_huge_log_is_read_in_pieces_that_can_be_interrupted(files: AttemptFiles) -> None:
    lines = b"Engine 000: throughput 812.4 tokens/s, KV cache usage 41.3%\n" * 5000
    files.pane_log.write_bytes(b"step:1 - loss:0.5\n" + 8 * lines + b"step:2 - loss:0.25\n")
    watch = Watch(files)
    waiter = Waiter(files, watch=watch)
    waiting = asyncio.ensure_future(waiter.wait(timeout=20))
    for _ in range(4):
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert 0 < watch.bytes_read < 2 << 20 and watch.rows.count == 1
    wake = await waiter.wait(timeout=20)
    assert [event.kind for event in wake.events] == [
        "first_step"
    ]  # found before the interrupt, told after it
    assert watch.bytes_read == files.pane_log.stat().st_size and watch.rows.count == 2


async def test_error_is_found_behind_many_pieces(files: AttemptFiles) -> None:
    files.pane_log.write_bytes(b"noise and nothing but noise\n" * 60_000 + b"KeyError: 'needle'\n")
    clock = FakeClock()
    wake = await Waiter(files, watch=Watch(files, clock=clock.time), clock=clock).wait(timeout=60)
    assert [(event.kind, event.line_number) for event in wake.events] == [("error_line", 60_001)]
    assert wake.waited_s == 0


async def test_cancelled_waits_leave_no_descriptor_behind(files: AttemptFiles) -> None:
    async def begin_and_cancel() -> None:
        waiting = [asyncio.ensure_future(Waiter(files, watch=Watch(files)).wait()) for _ in range(5)]
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


@pytest.mark.parametrize(
    ("reason", "pid", "sentence"),
    [
        ("deadline", None, "its deadline passed before the command was started"),
        ("stopped", None, "it was stopped before the command was started"),
        ("deadline", 7, "the command was ended at its deadline, exit status 143"),
    ],
)
def test_how_an_attempt_ended_is_said(reason: str, pid: int | None, sentence: str) -> None:
    assert describe(Exit("a", reason, None if pid is None else 143, pid=pid)) == sentence
