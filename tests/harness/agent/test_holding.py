"""A run whose disk or folder cannot be used stands still until it can, or until a person wants an end."""

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import index
from harness.actions import Check, Diagnose, Report
from harness.agent import holding
from harness.agent.executor import Executor
from harness.attempt import Diagnosis
from harness.diagnosis import diagnose as diagnose_log
from harness.experiment import Experiment
from harness.journal import Entry, Event
from harness.journal.events import Checked, Diagnosed, Held, Intent, Owner, StopAsked, SupervisorSeen
from harness.repair.apply_changes import check
from harness.state import Outcome, Verdict
from monitors.files import SupervisorInfo
from monitors.launch import state_home
from monitors.processes import ATTEMPT_VARIABLE, boot_id
from tests.harness.agent.world import World, launch, new_experiment
from tests.harness.runs import record

AND_THEN = ". The run is held until then"
DONE = Verdict(Outcome.SUCCEEDED, "it ran to its end")


@pytest.fixture
def executor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Executor]:
    monkeypatch.setattr(holding, "FIRST_LOOK_S", 0.01)
    experiment = new_experiment(tmp_path / "run", World([]))
    yield Executor(experiment)
    experiment.close()


def trouble(number: int, path: Path | str | None = None) -> OSError:
    return OSError(number, os.strerror(number), str(path)) if path else OSError(number, os.strerror(number))


class Work:
    """Fails as often as there are troubles, each time in the middle of an action, then is done."""

    def __init__(self, executor: Executor, *troubles: OSError) -> None:
        self.executor, self.troubles, self.said = executor, list(troubles), list[str]()
        executor.on_held = self.said.append

    async def __call__(self) -> Verdict:
        if self.troubles:
            self.executor.experiment.record(Intent("report"))
            raise self.troubles.pop(0)
        return DONE


@pytest.mark.parametrize(
    ("number", "where", "what_to_do"),
    [
        (errno.ENOSPC, None, "make room"),
        (errno.EDQUOT, "results", "make room"),
        (errno.EIO, None, "see to that disk"),
        (errno.ESTALE, None, "see to that disk"),
        (errno.EROFS, "results", "make it writable again"),
        (errno.EACCES, "results", "make it writable again"),
        (errno.EPERM, "state", "make it writable again"),
        (errno.EACCES, "elsewhere", ""),
        (errno.ENOENT, "results", ""),  # the folder is there
        (errno.ENOENT, "elsewhere", ""),
        (errno.EBADF, None, ""),
    ],
)
async def test_what_passes_is_waited_for_and_said_once(
    executor: Executor, number: int, where: str | None, what_to_do: str
) -> None:
    folder = executor.experiment.dir
    places = {"results": folder / "result.md", "state": state_home() / "lessons.jsonl"}
    path = places.get(where, "/usr/elsewhere") if where else None
    work = Work(executor, *(trouble(number, path) for _ in range(3)))
    if not what_to_do:
        with pytest.raises(OSError, match=os.strerror(number)):
            await holding.carry_through(executor, work)
        return
    assert await holding.carry_through(executor, work) is DONE
    assert len(work.said) == 1 and str(path or folder) in work.said[0] and what_to_do in work.said[0]
    held = [
        entry.event.reason for entry in executor.experiment.journal.entries if isinstance(entry.event, Held)
    ]
    assert held[0] in work.said[0] and held[-1] == "" and executor.experiment.state.held == ""


async def test_where_nothing_can_be_recorded_a_person_is_notified_all_the_same(executor: Executor) -> None:
    experiment, told, is_full = executor.experiment, list[Entry](), True
    experiment.listeners.append(lambda state, entry: told.append(entry))
    append = experiment.journal.append

    def on_full_disk(event: Event) -> Entry:
        if is_full:
            raise trouble(errno.ENOSPC)
        return append(event)

    experiment.journal.append = on_full_disk
    work = Work(executor, trouble(errno.ENOSPC))
    holds = asyncio.ensure_future(holding.carry_through(executor, work))
    await asyncio.sleep(0.05)
    is_full = False
    work.troubles.clear()
    assert await holds is DONE
    assert [entry.event for entry in told] == [Held(work.said[0].removesuffix(AND_THEN)), Held("")]


async def test_a_full_disk_after_the_end_of_the_journal_is_only_said(executor: Executor) -> None:
    record(executor.experiment, "finish", outcome="failed", reason="it ended")
    entries = len(executor.experiment.journal.entries)
    work = Work(executor)
    troubles = [trouble(errno.ENOSPC)]

    async def seal() -> Verdict:
        if troubles:
            raise troubles.pop()
        return DONE

    assert await holding.carry_through(executor, seal) is DONE
    assert len(work.said) == 1 and len(executor.experiment.journal.entries) == entries


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("is_stopped", [False, True])
async def test_an_attempt_whose_files_are_gone_for_good_is_concluded(
    executor: Executor, monkeypatch: pytest.MonkeyPatch, is_stopped: bool, is_known: bool
) -> None:
    """After its supervisor, or all of it where that was never seen; or as soon as a person wants the run to
    stop, whoever supervises."""
    monkeypatch.setattr(holding, "GONE_PATIENCE_S", 60.0 if is_stopped else 0.05)
    launch(executor.experiment)
    dead = SupervisorInfo("x", pid=2**22, start_ticks=1, boot_id=boot_id(), host=socket.gethostname())
    if is_known:
        executor.experiment.record(SupervisorSeen(1, dead))
    if is_stopped:
        executor.experiment.record(StopAsked("a person"))

    async def work() -> Verdict:
        executor.observe()
        return DONE

    assert await holding.carry_through(executor, work) is DONE
    assert executor.experiment.attempt_files(1).state() == "lost"
    ended = executor.monitor(executor.experiment.state.attempts[0]).ended()
    assert ended.reason == "lost" and "folder was removed" in ended.detail


def moved(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))


def deleted(folder: Path) -> None:
    (folder / "journal.jsonl").unlink()


def attempt_gone(folder: Path) -> None:
    (folder / "attempts" / "01").rename(folder / "attempts" / "elsewhere")


async def test_what_another_machine_may_have_launched_is_not_concluded_from_here(
    executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "GONE_PATIENCE_S", 0.05)
    executor.experiment.record(Owner(1, "elsewhere"))
    launch(executor.experiment)

    async def work() -> Verdict:
        executor.observe()
        raise AssertionError

    with pytest.raises(FileNotFoundError):
        await holding.carry_through(executor, work)


@pytest.mark.parametrize("gone", [moved, deleted, attempt_gone])
async def test_a_folder_that_does_not_come_back_ends_the_watch_and_nothing_is_made_in_its_place(
    executor: Executor, monkeypatch: pytest.MonkeyPatch, gone: Callable[[Path], None]
) -> None:
    monkeypatch.setattr(holding, "GONE_PATIENCE_S", 0.05)
    folder = executor.experiment.dir
    launch(executor.experiment)
    trains = {ATTEMPT_VARIABLE: executor.experiment.state.attempts[0].attempt_id}
    files = executor.experiment.attempt_files(1)
    files.dir.mkdir(parents=True)
    files.script.touch()
    executor.observe()
    gone(folder)
    before = sorted(folder.rglob("*")) if folder.exists() else []

    async def work() -> Verdict:
        executor.observe()
        raise AssertionError

    training = await asyncio.create_subprocess_exec("sleep", "60", env=os.environ | trains)
    with pytest.raises(FileNotFoundError) as told:
        await holding.carry_through(executor, work)
    training.kill()
    await training.wait()
    assert str(folder) in str(told.value)
    assert ("moved to" in str(told.value)) == (gone is moved)
    assert (folder.with_name("moved") in index.unfinished()) == (gone is moved)
    assert (sorted(folder.rglob("*")) if folder.exists() else []) == before


async def test_a_full_disk_holds_another_attempt_and_refuses_the_first(
    executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Checked(False, ("it is full",), (), (Diagnosis("disk_full", None, "it is full"),))
    monkeypatch.setattr("harness.repair.apply_changes.check", lambda *_: full)
    assert await executor.act(Check()) == full
    launch(executor.experiment, reason="lost", status=None)
    with pytest.raises(OSError, match="another attempt") as told:
        await executor.act(Check())
    assert told.value.errno == errno.ENOSPC and holding.is_of_the_disk(told.value, executor)
    monkeypatch.setattr(executor.experiment, "clock", lambda: executor.experiment.state.deadline_at)
    with pytest.raises(FileNotFoundError):  # the check is over, and the attempt has no files here
        await executor.act(Check())


async def test_a_read_only_folder_holds_and_says_nothing_against_a_launch(
    executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it can be written again before the check is over."""
    folder, access, is_read_only = executor.experiment.dir, os.access, True
    monkeypatch.setattr(
        os, "access", lambda path, *rest: not (is_read_only and path == folder) and access(path, *rest)
    )
    with pytest.raises(OSError, match="Read-only") as told:
        await executor.act(Check())
    assert holding.is_of_the_disk(told.value, executor) and str(folder) in str(told.value)
    checked = check(executor.experiment, executor.experiment.state.draft)
    assert not [text for text in checked.problems if str(folder) in text]
    is_read_only = False
    assert isinstance(await executor.act(Check()), Checked)


async def test_what_was_concluded_while_the_folder_was_away_does_not_count(
    executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = executor.experiment.dir
    launch(executor.experiment, reason="exited", status=1)
    files = executor.experiment.attempt_files(1)
    files.dir.mkdir(parents=True)
    files.pane_log.write_text("Traceback (most recent call last):\nKeyError: 'reward'\n")
    away = folder.with_name("away")

    def diagnose(*arguments: Any) -> Diagnosis:
        folder.rename(away)
        return diagnose_log(*arguments)

    monkeypatch.setattr("harness.diagnosis.diagnose", diagnose)
    with pytest.raises(FileNotFoundError):
        await executor.act(Diagnose())
    away.rename(folder)
    monkeypatch.undo()
    found = await executor.act(Diagnose())
    assert isinstance(found, Diagnosed) and "reward" in found.diagnosis.cause


async def test_what_comes_back_goes_on_also_as_another_file(
    executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that was unmounted: it is waited for longer than for what was moved."""
    monkeypatch.setattr(holding, "GONE_PATIENCE_S", 0.0)
    monkeypatch.setattr(Experiment, "is_gone_for_good", lambda self: False)
    folder = executor.experiment.dir
    away = folder.rename(folder.with_name("away"))

    async def work() -> Verdict:
        executor.observe()
        record(executor.experiment, "stop_asked", by="somebody")
        return DONE

    holds = asyncio.ensure_future(holding.carry_through(executor, work))
    await asyncio.sleep(0.1)
    assert not holds.done()
    journal = (away / "journal.jsonl").read_bytes()
    folder.mkdir()
    (folder / "journal.jsonl").write_bytes(journal)
    assert await holds is DONE
    assert b"somebody" in (folder / "journal.jsonl").read_bytes()


async def test_a_person_ends_the_waiting(executor: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "FIRST_LOOK_S", 60.0)
    work = Work(executor, trouble(errno.ENOSPC))
    holds = asyncio.ensure_future(holding.carry_through(executor, work))
    await asyncio.sleep(0.05)
    executor.ask_to_stop("`harness stop`")
    with pytest.raises(InterruptedError, match="No space left"):
        await holds


@pytest.mark.parametrize(("number", "is_passed_on"), [(errno.EROFS, True), (errno.EIO, True), (None, False)])
async def test_only_a_report_that_no_disk_hinders_is_done_without(
    executor: Executor, monkeypatch: pytest.MonkeyPatch, number: int | None, is_passed_on: bool
) -> None:
    error = trouble(number) if number else ValueError("arange: cannot compute length")

    def fails(*arguments: object) -> None:
        raise error

    monkeypatch.setattr("harness.results.report.build_report", fails)
    if is_passed_on:
        with pytest.raises(OSError, match=os.strerror(number or 0)):
            await executor.act(Report())
    else:
        assert "arange" in (await executor.act(Report())).error
