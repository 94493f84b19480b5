"""Limits of the operating system: open files, processes, file size, CPU time, locked memory, watchers."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from harness.doctor.launch import PlannedLaunch
from harness.doctor.machine import cgroups, in_words, number_in
from harness.doctor.types import Finding, fine, warning

_FEW_FILES, _FEW_FILES_CLUSTER = 256, 4096
_FEW_PROCESSES, _FEW_PROCESSES_CLUSTER = 64, 1024
_FEW_WATCHES, _FEW_INSTANCES = 4096, 64
_SMALL_FILE = 100 * 2**30
_INOTIFY = Path("/proc/sys/fs/inotify")


def of_shell(launch: PlannedLaunch) -> Iterator[Finding]:
    """Open files, processes, file size, CPU time: what the shell allows."""
    found = [*_files_limit(launch), *_processes_limit(launch), *_other_limits(launch)]
    yield from found
    if not found:
        yield fine("limits of open files, processes, file size and CPU time are wide enough")


def _files_limit(launch: PlannedLaunch) -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = _of_command(launch, "-n") or soft
    few = _FEW_FILES_CLUSTER if launch.uses_cluster else _FEW_FILES
    if soft != resource.RLIM_INFINITY and soft < few:
        most = "65536" if hard == resource.RLIM_INFINITY else str(min(hard, 65536))
        yield warning(
            f"a process may open {soft} files (ulimit -n)",
            f"run `ulimit -n {most}` before the start",
            "os_limit",
        )


def _of_command(launch: PlannedLaunch, flag: str) -> int | None:
    """The number that `ulimit FLAG NUMBER` in the command sets; None where it sets none."""
    numbers = [
        call.words[-1]
        for call in launch.calls
        if call.program == "ulimit" and any(word[:1] == "-" and flag[1] in word for word in call.words[1:])
    ]
    return int(numbers[-1]) if numbers and numbers[-1].isdigit() else None


def _processes_limit(launch: PlannedLaunch) -> Iterator[Finding]:
    few = _FEW_PROCESSES_CLUSTER if launch.uses_cluster else _FEW_PROCESSES
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if soft != resource.RLIM_INFINITY and os.geteuid() != 0 and (left := soft - _own_threads()) < few:
        yield warning(
            f"{left} more processes or threads may be started (ulimit -u)",
            "run `ulimit -u unlimited`, or end other programs of yours",
            "os_limit",
        )
    for folder in cgroups():
        most, now = number_in(folder / "pids.max"), number_in(folder / "pids.current")
        if most is not None and now is not None and most - now < few:
            yield warning(
                f"the container allows {most} processes and threads, {now} are running",
                "start it with a larger --pids-limit",
                "os_limit",
            )
            return


def _own_threads() -> int:
    """Threads of all processes of this user, which is what the limit counts."""
    import psutil

    user, count = os.getuid(), 0
    for process in psutil.process_iter(["uids", "num_threads"]):
        uids = process.info["uids"]
        if uids is not None and uids.real == user:
            count += process.info["num_threads"] or 1
    return count


def _other_limits(launch: PlannedLaunch) -> Iterator[Finding]:
    size = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if size != resource.RLIM_INFINITY and size < _SMALL_FILE:
        yield warning(
            f"a file may have {in_words(size)} at most (ulimit -f)",
            "run `ulimit -f unlimited` before the start",
            "disk_full",
        )
    seconds = resource.getrlimit(resource.RLIMIT_CPU)[0]
    if seconds != resource.RLIM_INFINITY:
        yield warning(
            f"a process is ended after {seconds} s of CPU time (ulimit -t)",
            "run `ulimit -t unlimited` before the start",
            "time_limit",
        )
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    has_infiniband = Path("/sys/class/infiniband").is_dir() and any(Path("/sys/class/infiniband").iterdir())
    if has_infiniband and locked != resource.RLIM_INFINITY and launch.workers > 1:
        yield warning(
            f"{in_words(locked)} of memory can be locked (ulimit -l), InfiniBand needs more",
            "set it to unlimited",
            "network_interconnect",
        )


def inotify(launch: PlannedLaunch, settings: Path = _INOTIFY) -> Iterator[Finding]:
    """Watchers of files, which dashboards and trackers use."""
    watches = number_in(settings / "max_user_watches")
    instances = number_in(settings / "max_user_instances")
    if watches is None or instances is None:
        return
    if watches < _FEW_WATCHES or instances < _FEW_INSTANCES:
        text = f"{instances} inotify instances and {watches} watches are allowed per user"
        yield warning(text, "raise fs.inotify.max_user_watches and max_user_instances by sysctl", "os_limit")
    else:
        yield fine(f"{instances} inotify instances and {watches} watches are allowed")
