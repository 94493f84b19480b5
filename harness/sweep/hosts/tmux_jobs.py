"""Jobs of a sweep on this machine: each a supervised process in a tmux session of its own.

In: `Job`s and their folders. Out: processes, and how they ended. The supervisor's files in a job's folder say
where it stands (`monitors.files.AttemptFiles`), so nothing is kept here but the name of its session.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import shlex
import signal
import zlib
from pathlib import Path

from harness.redaction import is_secret
from harness.sweep.hosts import HostError, Job
from harness.sweep.hosts.leases import Process
from monitors.files import AttemptFiles
from monitors.launch import LaunchError, LaunchSpec, kill_leftovers, launch, withdraw
from monitors.records import write_atomically
from monitors.tmux import Session, TmuxError, session_name
from monitors.wait import Waiter, WakeReason

_log = logging.getLogger(__name__)


def start(job: Job) -> None:
    """Start the job, unless it was started before. Takes some 50 ms; may be called in any thread.

    Raises HostError when tmux refuses, the folder cannot be written, or the job cannot be described.
    """
    number = re.search(r"\d+$", job.folder.name)
    unique = f"{zlib.crc32(job.lease.id.encode()):08x}"
    spec = LaunchSpec(
        attempt_dir=job.folder,
        attempt_id=job.lease.id,
        session_name=session_name(f"watch_{job.run}", unique, int(number[0]) if number else 1),
        command=shlex.join(job.command),
        cwd=job.cwd,
        env=dict(job.environment),
        secret_env={name: value for name, value in job.environment.items() if is_secret(name, value)},
        spare_daemons=True,
    )
    try:
        job.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(
            _note(job.folder), {"name": spec.session_name, "socket": Session(spec.session_name).socket}
        )
        launch(spec)
    except (TmuxError, LaunchError) as error:
        why = f"run {job.run} cannot be started: {error}. Fix: correct that, then resume the sweep"
        raise HostError(why) from error
    except OSError as error:
        raise HostError(
            f"run {job.run} cannot be started from {job.folder}: {error.strerror or error};"
            " make room there and make it writable, then resume the sweep"
        ) from error


async def ended(files: AttemptFiles) -> int | None:
    """Wait for the job's end and tidy up after it: its session is closed, and what a supervisor that was
    killed has left of the harness is ended, so that another job can take the run on. Its training, which has
    a supervisor of its own, goes on. Cancelling is safe."""
    session = await asyncio.to_thread(_session, files.dir)
    waiter = Waiter(files, session)
    while True:
        wake = await waiter.wait()
        if wake.reason in (WakeReason.EXITED, WakeReason.LOST):
            break
        if wake.reason == WakeReason.SESSION_GONE and files.state() == "not_started" and withdraw(files):
            await asyncio.to_thread(close_session, files)
            return None
    info = files.supervisor()
    if wake.reason == WakeReason.LOST and info is not None:
        await asyncio.to_thread(kill_leftovers, files, info.attempt_id)
    await asyncio.to_thread(close_session, files)
    return wake.exit.status if wake.exit is not None else None


def close_session(files: AttemptFiles) -> None:
    """Close the job's tmux session, if it is there; that of a job that runs or is starting is left alone."""
    session, state = _session(files.dir), files.state()
    if session is None or state == "running" or (state == "not_started" and files.started.exists()):
        return
    try:
        session.kill()
        _note(files.dir).unlink(missing_ok=True)
    except (TmuxError, OSError) as error:
        _log.warning("the tmux session %s stays open: %s", session.name, error)


def ask_to_stop(files: AttemptFiles) -> None:
    """Send SIGUSR1 to the job's harness. One that cannot listen yet would die of it and is not asked: ask
    again."""
    info = files.supervisor()
    if info is None or info.command_pid is None or files.state() != "running":
        return
    command = Process(info.command_pid, info.command_start_ticks, info.boot_id)
    if command.lives() and _listens_to(command.pid, signal.SIGUSR1):
        try:
            os.kill(command.pid, signal.SIGUSR1)
        except ProcessLookupError:
            return  # it has just ended by itself


def _listens_to(pid: int, signum: int) -> bool:
    """True if the process does something of its own with this signal, or where that is not known."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return not Path("/proc").is_dir()
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (signum - 1) & 1)


def _note(job_folder: Path) -> Path:
    return job_folder / "session.json"


def _session(job_folder: Path) -> Session | None:
    """The session that was made for the job, whether or not it is there; None after it was closed."""
    try:
        note = json.loads(_note(job_folder).read_text(encoding="utf-8"))
        return Session(note["name"], note["socket"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
