"""Gives the calling process its `Limits`, for good. To be called in a child that is about to become the
program; its control groups are made and removed by its parent."""

import ctypes
import os
import resource
import signal
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.faults.lab.types import Limits

GROUPS = Path("/sys/fs/cgroup")
_CLONE_NEWNS, _MS_RDONLY, _MS_REC, _MS_PRIVATE = 0x00020000, 1, 16384, 1 << 18
_PR_CAPBSET_DROP, _RIGHTS_OVER_MODES = 24, (1, 2, 3)  # DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER
_RESOURCES = {
    "address_space": resource.RLIMIT_AS,
    "open_files": resource.RLIMIT_NOFILE,
    "file_size": resource.RLIMIT_FSIZE,
    "cpu_s": resource.RLIMIT_CPU,
}


def confine(limits: Limits, folder: Path, groups: Sequence[Path] = ()) -> None:
    """Apply the limits to this process; `folder` is its working folder. `modes_hold` holds after an exec."""
    for group in groups:
        (group / "cgroup.procs").write_text(str(os.getpid()))
    if limits.disk or limits.shm or limits.read_only:
        _own_file_systems(limits, folder)
    if limits.modes_hold and os.getuid() == 0:
        for right in _RIGHTS_OVER_MODES:
            _checked(_libc().prctl(_PR_CAPBSET_DROP, right, 0, 0, 0), "give up a right of root")
    for name, number in _RESOURCES.items():
        if (most := getattr(limits, name)) is not None:
            resource.setrlimit(number, (most, most if name != "cpu_s" else most + 1))


@contextmanager
def control_groups(limits: Limits) -> Iterator[list[Path]]:
    """Control groups with these limits (none where none is asked), removed afterwards."""
    unified = (GROUPS / "cgroup.controllers").exists()
    name = f"fault-lab-{uuid.uuid4().hex[:8]}"
    settings = {}
    if limits.memory:
        file = "memory.max" if unified else "memory/{}/memory.limit_in_bytes"
        settings[file] = limits.memory
    if limits.processes:
        settings["pids.max" if unified else "pids/{}/pids.max"] = limits.processes
    made: list[Path] = []
    try:
        for file, most in settings.items():
            path = GROUPS / (f"{name}/{file}" if unified else file.format(name))
            if path.parent not in made:
                path.parent.mkdir()
                made.append(path.parent)
            path.write_text(str(most))
        yield made
    finally:
        for group in made:
            _remove(group)


def cannot(limits: Limits) -> str | None:
    """Why this machine cannot give these limits."""
    if limits.needs_root and os.getuid() != 0:
        return "needs root for a mount or a control group"
    try:
        with control_groups(limits):
            return None
    except OSError as error:
        return f"cannot make a control group: {error}"


def _remove(group: Path) -> None:
    """Remove a group as soon as the last of its processes, all of them killed, has gone."""
    give_up = time.monotonic() + 10.0
    while (left := (group / "cgroup.procs").read_text().split()) and time.monotonic() < give_up:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.01)
    group.rmdir()


def _own_file_systems(limits: Limits, folder: Path) -> None:
    def mount(where: Path, size: int, flags: int) -> None:
        options = f"size={size},mode=1777".encode()
        made = _libc().mount(b"tmpfs", str(where).encode(), b"tmpfs", flags, options)
        _checked(made, f"mount over {where}")

    _checked(_libc().unshare(_CLONE_NEWNS), "make a mount namespace")
    _checked(_libc().mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None), "keep mounts to itself")
    if limits.disk or limits.read_only:
        (folder / "disk").mkdir(exist_ok=True)
        mount(folder / "disk", limits.disk or 1 << 20, _MS_RDONLY if limits.read_only else 0)
    if limits.shm:
        mount(Path("/dev/shm"), limits.shm, 0)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"cannot {what}")
