"""Leases: never one part for two, nothing lost with a process that dies, and room announced at once."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.sweep.hosts import HostError, Lease, Needs, NeverFitsError
from harness.sweep.hosts.leases import Capacity, Ledger
from harness.sweep.hosts.local import LOOK_AGAIN_S, LocalHost
from monitors.processes import ATTEMPT_VARIABLE, boot_id, read_process
from tests.nvml import stand_in
from tests.small_disk import small_disk

GPUS = (("GPU-aaa", 4), ("GPU-bbb", 4))
GIB = 2**30
ONE = Needs(cpus=1.0, memory_bytes=GIB)
ROOT = Path(__file__).parents[3]

SETUP = """
import asyncio, os, sys
from pathlib import Path
from tests.harness.sweep.test_leases import host_of, reserve
folder = Path(sys.argv[1])
"""


def host_of(cores: float = 4.0, **variables: str) -> LocalHost:
    return LocalHost(machine=Capacity(cores, 8 * GIB), environment=variables)


def reserve(host: LocalHost, folder: Path, name: str, needs: Needs = ONE) -> Lease | None:
    return host.reserve(name, needs, str(folder / "jobs" / name), str(folder / name))


def held(host: LocalHost, folder: Path, name: str, needs: Needs = ONE) -> Lease:
    lease = reserve(host, folder, name, needs)
    assert lease is not None
    return lease


@contextlib.contextmanager
def other_process(folder: Path, code: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Run some code after SETUP in another process; it is killed at the end."""
    command, pipe = [sys.executable, "-c", SETUP + code, str(folder), *more], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as process:
        try:
            yield process
        finally:
            process.kill()


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@contextlib.contextmanager
def living(**variables: str) -> Iterator[int]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env={**os.environ, **variables}) as process:
        yield process.pid
        process.kill()


def supervised_by(attempt: Path, pid: int, attempt_id: str = "some-attempt") -> None:
    """Files as they are while this process supervises an attempt."""
    (attempt / "started").mkdir(parents=True)
    entry = read_process(pid)
    assert entry is not None
    info = {"attempt_id": attempt_id, "pid": pid, "start_ticks": entry.start_ticks, "boot_id": boot_id()}
    (attempt / "started/supervisor.json").write_text(json.dumps(info))


def lease_file(name: str) -> Path:
    return Ledger().folder / f"{name}.json"


def abandon(name: str, **reserver: object) -> None:
    """Make the lease look as if another process had reserved it: by default one that is gone."""
    record = json.loads(lease_file(name).read_text())
    record["reserver"].update(reserver or {"start_ticks": 1})
    lease_file(name).write_text(json.dumps(record))


def test_shares_add_up_to_the_machine(tmp_path: Path) -> None:
    host = host_of(2.0)
    third = Needs(cpus=2 / 3, memory_bytes=GIB)
    leases = [held(host, tmp_path, f"run-{number}", third) for number in range(3)]
    assert reserve(host, tmp_path, "run-3", third) is None, "no core is left"
    assert len({lease.ports["MASTER_PORT"] for lease in leases}) == 3
    for _ in range(2):  # the second time it is not held any more
        host.release("run-1")
    assert reserve(host, tmp_path, "run-3", third) is not None


def test_memory_counts_and_what_is_not_said_is_an_equal_share(tmp_path: Path) -> None:
    host = host_of()
    held(host, tmp_path, "half", Needs(cpus=1.0, memory_bytes=5 * GIB))
    assert reserve(host, tmp_path, "other", Needs(cpus=1.0, memory_bytes=4 * GIB)) is None
    assert reserve(host, tmp_path, "any", Needs()) is None
    host.release("half")
    lease = held(host, tmp_path, "any", Needs())
    assert (lease.cpus, lease.memory_bytes, lease.gpus) == (4.0, 8 * GIB, ())
    assert held(host_of(), tmp_path, "any", Needs()) == lease, "what is held is handed back as it is"


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        (Needs(cpus=4.5), r"4\.5 cores of 4 "),
        (Needs(memory_bytes=9 * GIB), r"9\.0 GiB of 8\.0 GiB memory"),
        (Needs(gpus=3), r"3 GPUs of 2 \(visible: 0, 1;"),
        (Needs(ports=tuple(f"P{number}" for number in range(10_001))), "10001 ports"),
    ],
)
def test_what_never_fits_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needs: Needs, words: str
) -> None:
    stand_in(monkeypatch, *GPUS)
    with pytest.raises(NeverFitsError, match=words):
        reserve(host_of(), tmp_path, "run", needs)


def test_a_port_that_somebody_else_bound_is_left_out(tmp_path: Path) -> None:
    host = host_of()
    port = held(host, tmp_path, "run").ports["MASTER_PORT"]
    host.release("run")
    with socket.socket() as theirs:
        theirs.bind(("127.0.0.1", port))
        assert held(host, tmp_path, "run").ports["MASTER_PORT"] != port


GPU = Needs(gpus=1, cpus=1.0, memory_bytes=0)


def test_gpus_are_given_once_by_whatever_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, *GPUS)
    first = held(host_of(CUDA_VISIBLE_DEVICES="1"), tmp_path, "one", GPU)
    by_name = host_of(CUDA_VISIBLE_DEVICES="GPU-bbb,GPU-aaa")
    second = held(by_name, tmp_path, "two", GPU)
    assert (first.gpus, second.gpus) == (("1",), ("GPU-aaa",))
    assert reserve(host_of(), tmp_path, "three", GPU) is None
    by_name.release("one")
    assert held(host_of(), tmp_path, "three", GPU).gpus == ("1",)


def test_a_gpu_in_use_is_left_to_those_who_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, *GPUS, users={77: "GPU-aaa"})
    host = host_of()
    assert reserve(host, tmp_path, "run", replace(GPU, gpus=2)) is None
    assert held(host, tmp_path, "one", GPU).gpus == ("1",)
    assert reserve(host, tmp_path, "two", GPU) is None
    sharing = replace(GPU, share_gpus=True)
    assert held(host, tmp_path, "two", sharing).gpus == ("0",)
    assert reserve(host, tmp_path, "three", sharing) is None, "leases never share"


def test_silence_of_the_driver_is_borne_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver, host = stand_in(monkeypatch, *GPUS), host_of()
    held(host, tmp_path, "one", GPU)
    driver.fails = "GPU is lost"
    assert reserve(host, tmp_path, "two", GPU) is None
    assert held(host, tmp_path, "one", GPU).gpus == ("0",), "what is held needs no answer"
    monkeypatch.setattr("harness.sweep.hosts.local.GPU_PATIENCE_S", 0.0)
    for unanswered in (host, host_of()):
        with pytest.raises(HostError, match="GPU is lost"):
            reserve(unanswered, tmp_path, "two", GPU)


@pytest.mark.parametrize("runs", ["jobs/theirs", "theirs/attempts/02"])
def test_a_job_or_a_training_that_runs_holds_the_lease_of_a_dead_reserver(tmp_path: Path, runs: str) -> None:
    host = host_of(1.0)
    held(host, tmp_path, "theirs")
    abandon("theirs")
    (tmp_path / "theirs/attempts/01").mkdir(parents=True)
    with living() as pid:
        supervised_by(tmp_path / runs, pid)
        assert reserve(host, tmp_path, "mine") is None
    assert reserve(host, tmp_path, "mine") is not None


@pytest.mark.parametrize("gone", [{"start_ticks": 1}, {"boot_id": "the boot before"}, None])
def test_what_is_surely_gone_holds_nothing(tmp_path: Path, gone: dict[str, object] | None) -> None:
    host = host_of(1.0)
    held(host, tmp_path, "theirs")
    if gone is None:
        lease_file("theirs").write_text("")
    else:
        abandon("theirs", **gone)
    assert reserve(host, tmp_path, "mine") is not None


def test_a_launch_that_is_only_just_typed_holds_the_lease(tmp_path: Path) -> None:
    host = host_of(1.0)
    held(host, tmp_path, "theirs")
    abandon("theirs")
    script = tmp_path / "jobs/theirs/launch.sh"
    script.parent.mkdir(parents=True)
    script.touch()
    assert reserve(host, tmp_path, "mine") is None
    os.utime(script, (time.time() - 120, time.time() - 120))
    assert reserve(host, tmp_path, "mine") is not None


def test_what_a_training_left_behind_holds_its_lease(tmp_path: Path) -> None:
    host = host_of(1.0)
    held(host, tmp_path, "theirs")
    abandon("theirs")
    attempt = tmp_path / "theirs/attempts/01"
    with living(**{ATTEMPT_VARIABLE: "leaves-a-child"}):
        with living() as supervisor:
            supervised_by(attempt, supervisor, "leaves-a-child")
        assert reserve(host, tmp_path, "mine") is None
        (attempt / "exit.json").write_text('{"attempt_id": "leaves-a-child", "reason": "exited"}')
        assert reserve(host, tmp_path, "mine") is None
    assert reserve(host, tmp_path, "mine") is not None


def test_a_training_that_outlives_its_job_keeps_its_part_for_the_next_job(tmp_path: Path) -> None:
    host = host_of(2.0)
    first = held(host, tmp_path, "run")
    with living() as pid:
        supervised_by(tmp_path / "run/attempts/01", pid)
        host.release("run")
        held(host, tmp_path, "other")
        assert reserve(host, tmp_path, "third") is None, "the training still uses its core"
        again = host.reserve("run-02", ONE, str(tmp_path / "jobs/run-02"), str(tmp_path / "run"))
        assert again is not None
        assert (again.id, again.ports, again.cpus) == ("run-02", first.ports, first.cpus)
        assert not lease_file("run").exists()
    host.release("run-02")
    assert reserve(host, tmp_path, "third") is not None


def test_a_full_disk_is_said_and_what_is_held_can_be_given_back(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1 / 16) as folder:
        host = LocalHost(machine=Capacity(4.0, 8 * GIB), ledger=Ledger(folder / "leases"))
        held(host, tmp_path, "run")
        with contextlib.suppress(OSError), (folder / "filler").open("wb") as filler:
            filler.write(b"x" * 2**20)
        with pytest.raises(HostError, match="No space left on device; make room there"):
            reserve(host, tmp_path, "other")
        host.release("run")
        assert list((folder / "leases").glob("*.json*")) == []


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    host = LocalHost(machine=Capacity(4.0, 8 * GIB), ledger=Ledger(tmp_path / "file/leases"))
    with pytest.raises(HostError, match="XDG_STATE_HOME"):
        reserve(host, tmp_path, "run")


CROWD = """
name, count, cores = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
mine = host_of(cores)
slots = folder / "slots"
async def main():
    for number in range(count):
        while (lease := reserve(mine, folder, f"{name}-{number}")) is None:
            await mine.room()
        mark = slots / str(lease.ports["MASTER_PORT"])
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        assert len(os.listdir(slots)) <= cores, os.listdir(slots)
        mark.unlink()
        mine.release(lease.id)
asyncio.run(main())
print("done", flush=True)
"""


@pytest.mark.parametrize(
    ("processes", "each", "cores"), [(4, 50, 2), pytest.param(12, 400, 3, marks=pytest.mark.soak)]
)
def test_no_slot_is_given_twice(tmp_path: Path, processes: int, each: int, cores: int) -> None:
    (tmp_path / "slots").mkdir()
    with contextlib.ExitStack() as all_of_them:
        crowd = [other_process(tmp_path, CROWD, f"p{at}", str(each), str(cores)) for at in range(processes)]
        started = [all_of_them.enter_context(process) for process in crowd]
        assert [answer(process) for process in started] == ["done"] * processes
    assert list(Ledger().folder.glob("*.json*")) == []


def test_processes_killed_at_any_instant_leave_nothing_held(tmp_path: Path) -> None:
    code = """
mine = host_of(1)
print("go", flush=True)
while True:
    if reserve(mine, folder, f"r{os.getpid()}") is not None:
        mine.release(f"r{os.getpid()}")
"""
    for _ in range(3):
        with other_process(tmp_path, code) as process:
            assert answer(process) == "go"
            process.send_signal(signal.SIGKILL)
    holds = "assert reserve(host_of(1), folder, 'theirs'); print('held', flush=True); sys.stdin.read()"
    with other_process(tmp_path, holds) as process:
        assert answer(process) == "held"
        assert reserve(host_of(1.0), tmp_path, "mine") is None
    assert reserve(host_of(1.0), tmp_path, "mine") is not None
    assert [path.name for path in Ledger().folder.glob("*.json")] == ["mine.json"]


async def waits_for_room(host: LocalHost) -> "asyncio.Task[None]":
    """A task that waits, and surely does so by now."""
    task = asyncio.ensure_future(host.room())
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.shield(task), 0.05)
    assert not task.done()
    return task


async def test_room_wakes_when_another_process_gives_back(tmp_path: Path) -> None:
    code = """
mine = host_of(1)
assert reserve(mine, folder, "theirs")
print("held", flush=True)
sys.stdin.readline()
mine.release("theirs")
print("released", flush=True)
sys.stdin.read()
"""
    with other_process(tmp_path, code) as process:
        assert await asyncio.to_thread(answer, process) == "held"
        host = host_of(1.0)
        assert reserve(host, tmp_path, "mine") is None
        task = await waits_for_room(host)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert await asyncio.to_thread(answer, process) == "released"
        await asyncio.wait_for(task, LOOK_AGAIN_S - 1)  # announced, and not looked for
        assert reserve(host, tmp_path, "mine") is not None


async def test_room_is_not_missed_and_can_be_cancelled_and_waited_for_again(tmp_path: Path) -> None:
    host, other = host_of(1.0), host_of(1.0)
    held(other, tmp_path, "theirs")
    assert reserve(host, tmp_path, "mine") is None
    other.release("theirs")
    await asyncio.wait_for(host.room(), 5)  # it came between the refusal and the wait
    held(host, tmp_path, "one")
    assert reserve(host, tmp_path, "two") is None
    task = await waits_for_room(host)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    task = await waits_for_room(host)
    host.release("one")
    await asyncio.wait_for(task, 5)


async def test_a_gpu_that_a_stranger_frees_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.sweep.hosts.local.LOOK_AGAIN_S", 0.01)
    driver, host = stand_in(monkeypatch, *GPUS[:1], users={77: "GPU-aaa"}), host_of()
    assert reserve(host, tmp_path, "run", GPU) is None
    await asyncio.wait_for(host.room(), 5)
    driver.users.clear()
    assert reserve(host, tmp_path, "run", GPU) is not None
