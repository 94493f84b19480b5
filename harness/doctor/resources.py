"""What the machine still has: disk where it is written, memory, shared memory, limits of the shell."""

import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

from harness.doctor.findings import Finding, fine, problem, warning
from harness.doctor.launch import PlannedLaunch, spellings
from harness.doctor.model_files import weights_bytes
from harness.machine import disk
from harness.machine.disk import in_words
from harness.machine.memory import memory_available, processes_left

_FEW_FREE_FILES = 1000
_LITTLE_SCRATCH = 100 * 2**20
_LITTLE_MEMORY = 512 * 2**20
_FULL_STATE = 7.0
"""Bytes of a checkpoint with optimizer per byte of bfloat16 weights: the weights, and three copies in
float32 (parameters, two moments)."""
_SMALL_SHM, _LITTLE_SHM = 64 * 2**20, 32 * 2**20
_SHM = Path("/dev/shm")
_FEW_OPEN_FILES, _FEW_OPEN_FILES_CLUSTER = 256, 4096
_FEW_PROCESSES, _FEW_PROCESSES_CLUSTER = 64, 1024
_OUTPUT_KEYS = "trainer.default_local_dir output_dir training.output_dir checkpoint_dir save_dir"
_SAVE_KEYS = "trainer.save_freq ajet.trainer_common.save_freq save_steps"
_STEPS_KEYS = "trainer.total_training_steps ajet.trainer_common.total_training_steps max_steps"
_WORKERS = ("num_workers", "dataloader_num_workers")
_NARROW = (
    (resource.RLIMIT_FSIZE, "f", 100 * 2**30, "disk_full", "a file may have {} bytes at most"),
    (
        resource.RLIMIT_CPU,
        "t",
        resource.RLIM_INFINITY,
        "time_limit",
        "a process is ended after {} s of CPU time",
    ),
    (
        resource.RLIMIT_AS,
        "v",
        16 * 2**30,
        "host_oom",
        "the address space is {} bytes, torch alone may reserve more",
    ),
)
"""(limit, its letter for `ulimit`, what is enough, the family of the failure, what it means)."""


def disk_of_results(launch: PlannedLaunch) -> Iterator[Finding]:
    """Where the results go there is room, in bytes and in files."""
    free, files = disk.free_bytes(launch.result_dir), disk.free_files(launch.result_dir)
    where = f"on the disk of {launch.result_dir}"
    if free < disk.MIN_FREE_BYTES:
        yield problem(f"only {in_words(free)} are free {where}", "make room there", "disk_full")
    elif files is not None and files < _FEW_FREE_FILES:
        fix = "delete files there that are not needed"
        yield problem(f"only {files} more files can be made {where}", fix, "disk_full")
    else:
        yield fine(f"{in_words(free)} are free for the results")


def scratch(launch: PlannedLaunch) -> Iterator[Finding]:
    """Scratch files can be written."""
    folder = Path(launch.environment.get("TMPDIR") or "/tmp")
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        fix = "make that folder, or unset TMPDIR"
        yield warning(f"TMPDIR is {folder}, which cannot be written to", fix, "path_not_found")
    elif (free := disk.free_bytes(folder)) < _LITTLE_SCRATCH:
        text = f"only {in_words(free)} are free in {folder}, where scratch files go"
        yield warning(text, "make room, or set TMPDIR", "disk_full")
    else:
        yield fine(f"{in_words(free)} are free in {folder}")


def checkpoints(launch: PlannedLaunch) -> Iterator[Finding]:
    """The checkpoints of the whole run fit on their disk, by the size of the model's files."""
    settings = launch.settings
    weights, every = weights_bytes(launch), settings.whole(*_SAVE_KEYS.split())
    if not weights or not every:
        return
    keep, steps = settings.whole(*spellings("kept_checkpoints")), settings.whole(*_STEPS_KEYS.split())
    counts = [keep or 0, (steps or 0) // every]
    count = min(filter(None, counts), default=1)
    given = settings.text(*_OUTPUT_KEYS.split())
    is_ours = launch.is_bundled or not given or "$" in given
    folder = launch.result_dir if is_ours else launch.codebase / Path(given).expanduser()
    free, one = disk.free_bytes(folder), int(weights * _FULL_STATE)
    text = f"{count} checkpoint(s) of about {in_words(one)} (parameters and optimizer in float32)"
    if one * count > free:
        fix = "keep fewer checkpoints, save them elsewhere, or make room"
        yield warning(f"{text} do not fit into {in_words(free)} for {folder}", fix, "disk_full")
    else:
        yield fine(f"{text} fit into {in_words(free)}")


def memory(launch: PlannedLaunch) -> Iterator[Finding]:
    """The memory left, inside the container's limit, holds the model."""
    available, weights = memory_available(), weights_bytes(launch)
    on_cpu = bool(weights) and not launch.uses_cluster and not launch.gpus.gpus
    need = int(weights * (_FULL_STATE + 1)) if on_cpu else weights
    if need > available:
        what = "training it on the CPU" if on_cpu else "loading it"
        text = f"about {in_words(available)} of memory are left; {what} takes about {in_words(need)}"
        fix = "use a machine or container with more memory, or end other programs of yours"
        yield warning(text, fix, "host_oom")
    elif available < _LITTLE_MEMORY:
        text = f"only {in_words(available)} of memory are left"
        yield warning(text, "end other programs of yours", "host_oom")
    else:
        yield fine(f"{in_words(available)} of memory are available")


def shared_memory(launch: PlannedLaunch, shm: Path = _SHM) -> Iterator[Finding]:
    """/dev/shm is large enough for loader workers, NCCL and object stores, where there are such."""
    if not shm.is_dir():
        return
    usage = shutil.disk_usage(shm)
    loads = any(
        isinstance(value, int) and value > 0
        for key, value in launch.settings.values.items()
        if key.rpartition(".")[2] in _WORKERS
    )
    if usage.total <= _SMALL_SHM and (loads or launch.uses_cluster or launch.workers > 1):
        text = f"{shm} has {in_words(usage.total)}, too little for several processes that share data"
        yield warning(text, "start the container with --shm-size=16g or --ipc=host", "shm_exhausted")
    elif usage.free < _LITTLE_SHM:
        text = f"{shm} has {in_words(usage.free)} left"
        yield warning(text, "delete files there that you left behind", "shm_exhausted")
    else:
        yield fine(f"{in_words(usage.free)} are free in {shm}")


def limits(launch: PlannedLaunch) -> Iterator[Finding]:
    """What the shell and the container allow: open files, processes, sizes of files and memory, CPU time."""
    found = [*_open_files(launch), *_processes(launch)]
    for limit, letter, enough, family, meaning in _NARROW:
        allowed = resource.getrlimit(limit)[0]
        if allowed != resource.RLIM_INFINITY and (allowed < enough or enough == resource.RLIM_INFINITY):
            text = f"{meaning.format(allowed)} (ulimit -{letter})"
            found.append(warning(text, f"run `ulimit -{letter} unlimited` before the start", family))
    yield from found or [fine("limits of open files, processes, file size and CPU time are wide enough")]


def _open_files(launch: PlannedLaunch) -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for call in launch.calls:
        sets_it = call.program == "ulimit" and any(word[:1] == "-" and "n" in word for word in call.words[1:])
        if sets_it and call.words[-1].isdigit():
            soft = int(call.words[-1])
    few = _FEW_OPEN_FILES_CLUSTER if launch.uses_cluster else _FEW_OPEN_FILES
    if soft != resource.RLIM_INFINITY and soft < few:
        most = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
        text = f"a process may open {soft} files (ulimit -n)"
        yield warning(text, f"run `ulimit -n {most}` before the start", "os_limit")


def _processes(launch: PlannedLaunch) -> Iterator[Finding]:
    few = _FEW_PROCESSES_CLUSTER if launch.uses_cluster else _FEW_PROCESSES
    soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    if soft != resource.RLIM_INFINITY and os.geteuid() != 0 and (left := soft - _own_threads()) < few:
        text = f"{left} more processes or threads may be started (ulimit -u)"
        yield warning(text, "run `ulimit -u unlimited`, or end other programs of yours", "os_limit")
    group = processes_left()
    if group is not None and group[0] - group[1] < few:
        text = f"the container allows {group[0]} processes and threads, {group[1]} are running"
        yield warning(text, "start it with a larger --pids-limit", "os_limit")


def _own_threads() -> int:
    """Threads of all processes of this user, which is what the limit counts."""
    import psutil

    processes = (process.info for process in psutil.process_iter(["uids", "num_threads"]))
    return sum(
        each["num_threads"] or 1 for each in processes if each["uids"] and each["uids"].real == os.getuid()
    )
