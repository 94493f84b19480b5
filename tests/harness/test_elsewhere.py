"""A result folder that another machine worked in last."""

import json
import os
import socket
from pathlib import Path

import pytest

from harness.elsewhere import WATCHED_S, check_taken_over, silence
from harness.errors import UserError
from harness.journal import Journal, Owner
from harness.state import AttemptState
from monitors.processes import boot_id, read_process
from tests.harness.runs import created

NOW = 1e9


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of the machine `far`, whose first attempt trains there."""
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append(created())
        journal.append(Owner(7, "far"))
    return trains_on(tmp_path, "far", NOW)


def trains_on(folder: Path, host: str, beat_at: float) -> Path:
    started = folder / "attempts/01/started"
    started.mkdir(parents=True, exist_ok=True)
    (started / "supervisor.json").write_text(json.dumps({"attempt_id": "x", "pid": 7, "host": host}))
    (started.parent / "heartbeat").write_text(json.dumps({"time": beat_at, "pid": 7, "state": "command"}))
    return folder


class Time:
    """What was waited for and said; `changes` after so many seconds."""

    def __init__(self, folder: Path, changes: tuple[float, str] = (1e9, "")) -> None:
        self.folder, self.changes = folder, changes
        self.waited_s = 0.0
        self.said: list[str] = []

    def wait(self, seconds: float) -> None:
        self.waited_s += seconds
        if self.waited_s >= self.changes[0]:
            with (self.folder / self.changes[1]).open("a") as file:
                file.write(" ")

    def take_over(self) -> str:
        check_taken_over(self.folder, self.said.append, self.wait)
        return "\n".join(self.said)


@pytest.mark.parametrize("sign", ["attempts/01/heartbeat", "journal.jsonl", "p01-s0/attempts/02/heartbeat"])
def test_while_the_other_machine_gives_signs_of_life_it_keeps_the_run(folder: Path, sign: str) -> None:
    (folder / sign).parent.mkdir(parents=True, exist_ok=True)
    time = Time(folder, (5.0, sign))
    with pytest.raises(UserError, match="far still works in"):
        time.take_over()
    assert time.waited_s < WATCHED_S


def test_a_machine_that_is_silent_loses_it_and_its_lock_may_outlive_it(folder: Path) -> None:
    time = Time(folder)
    said = time.take_over()
    assert time.waited_s == WATCHED_S and "run on far (process 7)" in said
    assert "far has given no sign of life" in said and "cannot be ended from here" in said
    with (
        Journal(folder / "journal.jsonl"),
        pytest.raises(UserError, match="still held"),
    ):
        time.take_over()


def test_a_machine_that_got_another_name_goes_on_with_what_it_trains(folder: Path) -> None:
    own = read_process(os.getpid())
    assert own is not None
    info = {"attempt_id": "x", "pid": own.pid, "start_ticks": own.start_ticks, "boot_id": boot_id()}
    (folder / "attempts/01/started/supervisor.json").write_text(json.dumps({**info, "host": "far"}))
    assert Time(folder, (5.0, "attempts/01/heartbeat")).take_over() == ""


def test_what_this_machine_ran_and_what_is_over_is_not_watched(folder: Path) -> None:
    with Journal(folder / "journal.jsonl") as journal:
        journal.append(Owner.this_process())
    assert Time(folder).take_over() == ""
    with Journal(folder / "journal.jsonl") as journal:
        journal.append(Owner(7, "far"))
    (folder / "finish.flag").touch()
    assert Time(folder).take_over() == ""


@pytest.mark.parametrize(
    ("host", "beat_s", "says"),
    [
        ("far", -5.0, ""),
        ("far", 7200.0, ""),
        (socket.gethostname(), -7200.0, ""),
        ("far", -7200.0, "its machine far has given no sign of life for 2h 00m"),
    ],
)
def test_a_machine_that_seems_to_be_gone_is_named(folder: Path, host: str, beat_s: float, says: str) -> None:
    trains_on(folder, host, NOW + beat_s)
    attempt = AttemptState(1, "session", "x", "first", launched_at=NOW - 9000.0)
    assert silence(folder, attempt, NOW) == says
