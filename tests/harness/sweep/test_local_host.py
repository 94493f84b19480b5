"""Jobs on this machine: real processes in real tmux sessions, started once, followed, stopped."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from harness.sweep.hosts import HostError, Job, Lease, Needs
from harness.sweep.hosts.leases import Capacity
from harness.sweep.hosts.local import LocalHost
from monitors.files import AttemptFiles
from tests.monitors.tmux_world import log_shows, until

PATIENCE_S = 60.0
ROOT = Path(__file__).parents[3]
LISTENS = (
    "import signal, sys; signal.signal(signal.SIGUSR1, lambda *_: sys.exit(130)); print('listens');"
    "signal.sigtimedwait([], 60)"
)
DEAF = "import signal; print('starts'); signal.sigtimedwait([], 60)"


def a_host() -> LocalHost:
    return LocalHost(machine=Capacity(1.0, 2**30))


def a_job(folder: Path, code: str, host: LocalHost, **variables: str) -> Job:
    """A job that runs some Python, with a lease on the whole machine."""
    place = {"folder": folder / "jobs/run-01", "result_dir": folder / "run"}
    lease = host.reserve("s1-run-01", Needs(), *map(str, place.values()))
    assert lease is not None
    environment = {"PATH": os.environ["PATH"], "NAME": "a 'quoted' value", **lease.environment(), **variables}
    more = {"command": (sys.executable, "-c", code), "cwd": folder, "environment": environment}
    return Job(run="lr=1e-5,seed=0", lease=lease, **place, **more)


def room_for_another(folder: Path) -> bool:
    other = folder / "other"
    return a_host().reserve("s2-other-01", Needs(), str(other / "job"), str(other / "run")) is not None


async def started(host: LocalHost, job: Job) -> tuple[int, int]:
    """The processes of a DEAF job that has started: its supervisor's and its own."""
    host.start(job)
    files = AttemptFiles(job.folder)
    await log_shows(files, "starts")
    info = files.supervisor()
    assert info is not None and info.command_pid is not None
    return info.pid, info.command_pid


async def end_of(host: LocalHost, job: Job) -> int | None:
    return await asyncio.wait_for(host.ended(str(job.folder)), PATIENCE_S)


def sessions() -> list[str]:
    asked = ["tmux", "-L", os.environ["AJET_TMUX_SOCKET"], "list-sessions", "-F", "#{session_name}"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()


async def test_a_job_runs_once_in_its_environment_and_leaves_no_session(tmp_path: Path) -> None:
    host = a_host()
    code = (
        "import json, os; open('ran', 'a').write('x'); json.dump(dict(os.environ), open('seen', 'w'));"
        "raise SystemExit(3)"
    )
    secrets = {"WANDB_API_KEY": "not-for-files", "PLAIN": "hf_notForFiles0123456789abcd"}
    job = a_job(tmp_path, code, host, **secrets)
    assert host.state(str(job.folder)) == "not_started"
    host.start(job)
    (name,) = sessions()
    assert name.startswith("ajet_watch_lr_1e_5_seed_0-") and name.endswith("-01")
    host.start(job)
    a_host().start(job)  # as the next scheduler would after a crash
    assert await end_of(host, job) == 3
    assert host.state(str(job.folder)) == "ended"
    assert (tmp_path / "ran").read_text() == "x"
    seen: Mapping[str, str] = json.loads((tmp_path / "seen").read_text())
    expected = {**job.environment, **job.lease.environment()}
    assert {name: seen.get(name) for name in expected} == expected
    assert seen["CUDA_VISIBLE_DEVICES"] == "" and seen["MASTER_PORT"].isdigit()
    assert sessions() == []
    written = [path for path in job.folder.rglob("*") if path.is_file()]
    assert not [path for path in written for one in secrets.values() if one.encode() in path.read_bytes()]
    assert await end_of(a_host(), job) == 3, "the end can be asked for again"
    host.release(job.lease.id)
    host.start(job)  # still nothing


def test_gpus_are_counted_as_nvidia_smi_counts_them() -> None:
    by_index, by_name = (Lease("a", gpus=gpus).environment() for gpus in (("1", "0"), ("GPU-aaa",)))
    assert (by_index["CUDA_VISIBLE_DEVICES"], by_index["CUDA_DEVICE_ORDER"]) == ("1,0", "PCI_BUS_ID")
    assert by_name["CUDA_VISIBLE_DEVICES"] == "GPU-aaa" and "CUDA_DEVICE_ORDER" not in by_name


SCHEDULER = """
import sys
from pathlib import Path
from tests.harness.sweep.test_local_host import LISTENS, a_host, a_job
host = a_host()
host.start(a_job(Path(sys.argv[1]), LISTENS, host))
print("started", flush=True)
sys.stdin.read()
"""


async def test_a_job_outlives_a_scheduler_that_is_killed_and_keeps_its_lease(tmp_path: Path) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = (sys.executable, "-c", SCHEDULER, str(tmp_path))
    scheduler = await asyncio.create_subprocess_exec(*command, **pipes, cwd=ROOT)
    assert scheduler.stdout is not None
    assert (await scheduler.stdout.readline()).strip() == b"started"
    scheduler.kill()
    await scheduler.wait()
    folder = str(tmp_path / "jobs/run-01")
    await log_shows(AttemptFiles(Path(folder)), "listens")
    assert not room_for_another(tmp_path)
    host = a_host()
    assert host.state(folder) == "running"
    host.stop(folder)
    assert await asyncio.wait_for(host.ended(folder), PATIENCE_S) == 130
    assert sessions() == []
    assert room_for_another(tmp_path), "neither reserver nor job is there any more"


async def test_a_job_that_cannot_listen_yet_is_not_killed_by_asking(tmp_path: Path) -> None:
    host = a_host()
    job = a_job(tmp_path, DEAF, host)
    host.stop(str(job.folder))  # before it is started
    _, command = await started(host, job)
    host.stop(str(job.folder))
    host.release(job.lease.id)
    assert not room_for_another(tmp_path), "given back, but the job runs on"
    os.kill(command, signal.SIGTERM)
    assert await end_of(host, job) == 128 + signal.SIGTERM, "it lived until now"


async def test_a_job_whose_supervisor_was_killed_is_lost_and_its_harness_ended(tmp_path: Path) -> None:
    host = a_host()
    job = a_job(tmp_path, DEAF, host)
    supervisor, command = await started(host, job)
    ending = asyncio.ensure_future(end_of(host, job))
    os.kill(supervisor, signal.SIGKILL)
    assert await ending is None
    await until(lambda: not Path(f"/proc/{command}").exists(), "the end of the harness")
    assert sessions() == []
    assert host.state(str(job.folder)) == "lost"


async def test_a_job_whose_session_went_before_it_began_never_begins(tmp_path: Path) -> None:
    host = a_host()
    job = a_job(tmp_path, "open('ran', 'w')", host)
    job.folder.mkdir(parents=True)
    (job.folder / "session.json").write_text('{"name": "ajet_gone", "socket": null}')
    assert await end_of(host, job) is None
    host.start(job)
    assert not (job.folder / "launch.sh").exists()


def test_a_job_without_its_lease_is_not_started(tmp_path: Path) -> None:
    host = a_host()
    job = a_job(tmp_path, "", host)
    host.release(job.lease.id)
    with pytest.raises(HostError, match="lost its lease"):
        host.start(job)


def test_what_tmux_says_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = a_host()
    job = a_job(tmp_path, "", host)
    with pytest.raises(HostError, match=r"No such file or directory\. Fix: correct that, then resume"):
        host.start(replace(job, cwd=tmp_path / "none"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match="tmux is not installed"):
        host.start(job)
    (tmp_path / "file").touch()
    with pytest.raises(HostError, match="make room there"):
        host.start(replace(job, folder=tmp_path / "file/job"))
