"""What is left of an attempt whose supervisor was killed: found in every way, and ended, by its deadline at
the latest."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from monitors.attempt_processes import make_group, remove_group
from monitors.files import AttemptFiles, SupervisorInfo
from monitors.launch import kill_leftovers, leftovers
from monitors.processes import ATTEMPT_VARIABLE, attempt_of, read_process, uptime
from monitors.wait import Waiter, WakeReason
from tests.monitors.tmux_world import ending, log_shows, python, start, until

REPOSITORY = Path(__file__).parents[2]
WITHOUT_GROUP = """#!{python} -IS
import runpy, sys
sys.path.append({repository!r})
import monitors.attempt_processes
monitors.attempt_processes.make_group = lambda attempt_id: None
sys.argv = sys.argv[3:]  # after -I and -S of the launch
runpy.run_path(sys.argv[0], run_name="__main__")
"""
STUBBORN = "trap '' HUP TERM; while :; do sleep 0.2; done"
FORGETS_ITS_ENVIRONMENT = f'env -i PATH=$PATH setsid bash -c "echo \\$\\$ >> left; {STUBBORN}" &'
OVERWRITES_ITS_ENVIRONMENT = python("""
import ctypes, os, signal, time
if os.fork() == 0:
    os.setsid()
    for signum in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)
    stat = open("/proc/self/stat").read().rpartition(")")[2].split()
    start, end = int(stat[47]), int(stat[48])  # as setproctitle does
    ctypes.memset(start, 120, end - start)
    print(os.getpid(), file=open("left", "a"), flush=True)
    time.sleep(1000)
""")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "01"


@pytest.fixture(scope="module")
def has_groups() -> bool:
    group = make_group("probe")
    remove_group(group)
    return group is not None


def python_without_groups(top: Path) -> str:
    """An interpreter for the supervisor, on whose machine there are no control groups."""
    program = top / "python-without-groups"
    program.write_text(WITHOUT_GROUP.format(python=sys.executable, repository=str(REPOSITORY)))
    program.chmod(0o700)
    return str(program)


def lives(pid: int | None) -> bool:
    entry = read_process(pid) if pid is not None else None
    return entry is not None and entry.state not in "ZX"


async def daemons(folder: Path, count: int) -> set[int]:
    """Return the pids that have been noted by the daemons themselves."""
    file = folder.parent / "left"
    await until(lambda: file.exists() and file.read_text().count("\n") == count, "the daemons")
    return {int(pid) for pid in file.read_text().split()}


async def info_of(files: AttemptFiles) -> SupervisorInfo:
    await until(lambda: (i := files.supervisor()) and i.command_pid, "the start")
    info = files.supervisor()
    assert info is not None
    return info


def noted(files: AttemptFiles) -> set[int]:
    beat = files.heartbeat()
    return {pid for pid, _ in beat.family} if beat is not None else set()


KILLED = {
    "the supervisor": (False, ("pid",)),
    "all of ours, with a control group": (True, ("guardian_pid", "pid", "front_pid")),
    "all of ours, without a control group": (False, ("guardian_pid", "pid", "front_pid")),
}


@pytest.mark.parametrize(("with_group", "killed"), KILLED.values(), ids=KILLED)
async def test_daemons_that_hide_are_found(
    folder: Path, has_groups: bool, with_group: bool, killed: tuple[str, ...]
) -> None:
    if with_group and not has_groups:
        pytest.skip("there is no cgroup v2 here that this user may write to")
    interpreter = sys.executable if with_group else python_without_groups(folder.parent)
    command = f"{FORGETS_ITS_ENVIRONMENT}\n{OVERWRITES_ITS_ENVIRONMENT}\n{STUBBORN}"
    files, _ = start(folder, command, supervisor_python=interpreter)
    hidden, info = await daemons(folder, 2), await info_of(files)
    if len(killed) > 1 and not with_group:
        await until(lambda: hidden <= noted(files), "the heartbeat to know them")
    waiting = asyncio.ensure_future(Waiter(files).wait(timeout=30))
    for name in killed:
        os.kill(getattr(info, name), signal.SIGKILL)
    assert (await waiting).reason == WakeReason.LOST
    assert (folder / "exit.json.tmp").exists()
    assert hidden <= leftovers(files, info.attempt_id)
    assert hidden <= await asyncio.to_thread(kill_leftovers, files, info.attempt_id, 0.3)
    assert not any(map(lives, hidden)) and leftovers(files, info.attempt_id) == set()
    assert not (folder / "exit.json.tmp").exists()


async def test_what_belongs_to_another_attempt_is_left_alone(folder: Path) -> None:
    command = f"{ATTEMPT_VARIABLE}=another-01 setsid sleep 1000 & echo $! > left; {STUBBORN}"
    files, _ = start(folder, command)
    (other,) = await daemons(folder, 1)
    await until(lambda: attempt_of(other) == "another-01", "the other attempt")
    info = await info_of(files)
    os.kill(info.pid, signal.SIGKILL)
    await asyncio.to_thread(kill_leftovers, files, info.attempt_id, 0.3)
    try:
        assert lives(other)
    finally:
        os.kill(other, signal.SIGKILL)
    await until(lambda: not lives(other), "its end")
    await asyncio.to_thread(kill_leftovers, files, info.attempt_id)  # the group is empty now


async def test_the_deadline_is_kept_when_the_supervisor_is_dead(folder: Path) -> None:
    deadline = uptime() + 3.0
    files, _ = start(folder, f"{FORGETS_ITS_ENVIRONMENT}\n{STUBBORN}", deadline_uptime=deadline, grace_s=0.3)
    (hidden,) = await daemons(folder, 1)
    info = await info_of(files)
    assert info.command_pid is not None and info.guardian_pid is not None
    os.kill(info.pid, signal.SIGKILL)
    await until(lambda: not lives(hidden) and not lives(info.command_pid), "the end of the training")
    assert 0 <= uptime() - deadline < 10
    await until(lambda: not lives(info.guardian_pid), "the end of the guardian")


async def test_a_guardian_holds_nothing_and_leaves_with_the_supervisor(folder: Path) -> None:
    files, session = start(folder, "echo up; read x")
    await log_shows(files, "up")
    info = await info_of(files)
    assert info.guardian_pid is not None
    there = Path(f"/proc/{info.guardian_pid}")
    held = {str(each.readlink()).partition(":")[0] for each in (there / "fd").iterdir()}
    assert held == {"/dev/null", "pipe"} and str((there / "cwd").readlink()) == "/"
    os.kill(info.guardian_pid, signal.SIGTERM)
    session.type_line("")
    end = await ending(files)
    assert (end.reason, end.leftovers) == ("exited", ())
    await until(lambda: not lives(info.guardian_pid), "the end of the guardian")
    await until(lambda: not leftovers(files, end.attempt_id), "the end of the front")
