"""What an attempt's folder says about it, whatever the clocks say."""

import json
import socket
import time
from pathlib import Path

import pytest

from monitors.files import AttemptFiles
from monitors.processes import boot_id, uptime

HOUR_S = 3600.0


class Clock:
    """A clock and an uptime that a test moves."""

    def __init__(self) -> None:
        self.now, self.up = time.time(), 1000.0

    def files(self, folder: Path) -> AttemptFiles:
        return AttemptFiles(folder, lambda: self.now, lambda: self.up)


def supervised(folder: Path, **record: object) -> AttemptFiles:
    files = AttemptFiles(folder)
    files.started.mkdir(parents=True)
    files.supervisor_file.write_text(json.dumps({"attempt_id": "a-01", "pid": 1, **record}))
    return files


def beats(folder: Path, at: float) -> None:
    (folder / "heartbeat").write_text(json.dumps({"time": at, "pid": 1, "state": "command"}))


def test_a_launch_that_never_came_up_is_lost_after_a_minute(tmp_path: Path) -> None:
    clock = Clock()
    files = clock.files(tmp_path)
    files.started.mkdir()
    assert files.state() == "not_started"
    clock.now += 61
    clock.up += 61
    assert files.state() == "lost"


@pytest.mark.parametrize("jump_s", [HOUR_S, -HOUR_S])
def test_a_launch_that_is_coming_up_is_not_lost_because_a_clock_differs(
    tmp_path: Path, jump_s: float
) -> None:
    clock = Clock()
    files = clock.files(tmp_path)
    files.started.mkdir()
    clock.now += jump_s
    clock.up += 1
    assert files.state() == files.state() == "not_started"


def test_after_a_reboot_the_training_is_lost_at_once(tmp_path: Path) -> None:
    files = supervised(tmp_path, boot_id="the boot before", host=socket.gethostname())
    beats(tmp_path, time.time())
    assert files.state() == "lost"


@pytest.mark.parametrize(("beat_s", "state"), [(-5.0, "running"), (-HOUR_S, "lost"), (HOUR_S, "lost")])
def test_elsewhere_it_runs_while_its_heart_beats(tmp_path: Path, beat_s: float, state: str) -> None:
    files = supervised(tmp_path, boot_id="of another machine", host="another machine")
    beats(tmp_path, time.time() + beat_s)
    assert files.state() == state


def test_on_this_boot_times_are_told_by_the_uptime_and_elsewhere_by_the_clock(tmp_path: Path) -> None:
    now = time.time()
    here = {"boot_id": boot_id(), "command_started_uptime": uptime() - 5, "deadline_uptime": uptime() + 7}
    info = supervised(tmp_path, **here, command_started_at=now - HOUR_S).supervisor()
    assert info is not None
    assert info.running_s(now) == pytest.approx(5, abs=1)
    assert info.left_s(now - HOUR_S, now) == pytest.approx(7, abs=1)
    elsewhere = {**here, "boot_id": "of another machine"}
    info = supervised(tmp_path / "elsewhere", **elsewhere, command_started_at=now - 30).supervisor()
    assert info is not None
    assert (info.running_s(now), info.left_s(now + 60, now)) == pytest.approx((30, 60))
