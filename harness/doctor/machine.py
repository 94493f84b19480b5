"""What the machine still has: disk on every mount that is written, memory, shared memory."""

import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

from harness.doctor.launch import PlannedLaunch
from harness.doctor.model_files import hub_cache, is_hub_name, model_folder, model_name, weights_bytes
from harness.doctor.types import Finding, fine, problem, warning

MIN_FREE_BYTES = 200 * 2**20
"""Less than this where the results go, and nothing is launched."""
_MIN_FREE_INODES = 1000
_MIN_FREE_SCRATCH = 100 * 2**20
_MIN_FREE_HUB = 2 * 2**30
_FULL_STATE = 7.0
"""Bytes of a checkpoint with optimizer per byte of bfloat16 weights: the weights, and three copies in
float32 (parameters, two moments)."""
_SMALL_SHM = 64 * 2**20
_LITTLE_SHM = 32 * 2**20
_CGROUP = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")
_SHM = Path("/dev/shm")
_OUTPUT_KEYS = (
    "trainer.default_local_dir",
    "ajet.trainer_common.checkpoint_base_dir",
    "output_dir",
    "training.output_dir",
    "checkpoint_dir",
    "save_dir",
)


def disk_of_results(launch: PlannedLaunch) -> Iterator[Finding]:
    """Where the results go there is room, in bytes and in files."""
    folder = _existing(launch.result_dir)
    free = shutil.disk_usage(folder).free
    if free < MIN_FREE_BYTES:
        yield problem(
            f"only {in_words(free)} are free on the disk of {launch.result_dir}",
            "make room there",
            "disk_full",
        )
        return
    state = os.statvfs(folder)
    if state.f_files and state.f_favail < _MIN_FREE_INODES:
        text = f"only {state.f_favail} more files can be made on the disk of {launch.result_dir}"
        yield problem(text, "delete files there that nobody needs", "disk_full")
        return
    yield fine(f"{in_words(free)} are free for the results")


def disk_of_others(launch: PlannedLaunch) -> Iterator[Finding]:
    """The other disks that a training writes to: scratch files, the hub's cache."""
    scratch = launch.environment.get("TMPDIR") or "/tmp"
    folder = Path(scratch)
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        yield warning(
            f"TMPDIR is {scratch}, which cannot be written to",
            "make that folder, or unset TMPDIR",
            "path_not_found",
        )
    elif (free := shutil.disk_usage(folder).free) < _MIN_FREE_SCRATCH:
        yield warning(
            f"only {in_words(free)} are free in {scratch}, where scratch files go",
            "make room, or set TMPDIR",
            "disk_full",
        )
    else:
        yield fine(f"{in_words(free)} are free in {scratch}")
    named = model_name(launch)
    if named and is_hub_name(launch, named[1]) and model_folder(launch) is None:
        cache = _existing(hub_cache(launch.environment))
        if (free := shutil.disk_usage(cache).free) < _MIN_FREE_HUB:
            text = f"{named[1]} is to be downloaded; only {in_words(free)} are free for it in {cache}"
            yield warning(text, "make room there, or set HF_HOME to another disk", "disk_full")


def disk_for_checkpoints(launch: PlannedLaunch) -> Iterator[Finding]:
    """The checkpoints of the whole run fit on their disk, by the size of the model's files."""
    model = model_folder(launch)
    settings = launch.settings
    weights = weights_bytes(model) if model else 0
    every = settings.whole("trainer.save_freq", "ajet.trainer_common.save_freq", "save_steps")
    if not weights or not every:
        return
    keep = settings.whole(
        "trainer.max_actor_ckpt_to_keep", "ajet.trainer_common.max_checkpoints_to_keep", "save_total_limit"
    )
    steps = settings.whole(
        "trainer.total_training_steps", "ajet.trainer_common.total_training_steps", "max_steps"
    )
    count = min(keep or 10**9, steps // every if steps else 10**9)
    count = 1 if count == 10**9 else max(1, count)
    folder = _checkpoints(launch)
    free = shutil.disk_usage(_existing(folder)).free
    one = int(weights * _FULL_STATE)
    if one * count > free:
        yield warning(
            f"{count} checkpoint(s) of about {in_words(one)} do not fit into {in_words(free)} for {folder}",
            "keep fewer checkpoints, save them elsewhere, or make room",
            "disk_full",
            f"weights {in_words(weights)} × {_FULL_STATE:g} for parameters and optimizer in float32",
        )
    else:
        yield fine(f"{count} checkpoint(s) of about {in_words(one)} fit into {in_words(free)}")


def _checkpoints(launch: PlannedLaunch) -> Path:
    given = launch.settings.get(*_OUTPUT_KEYS)
    if launch.is_bundled or not isinstance(given, str) or "$" in given or given == "auto":
        return launch.result_dir
    return launch.codebase / Path(given).expanduser()


def memory(launch: PlannedLaunch) -> Iterator[Finding]:
    """The memory left, inside the container's limit, holds the model."""
    available = memory_available()
    model = model_folder(launch)
    weights = weights_bytes(model) if model else 0
    on_cpu = not launch.uses_cluster and launch.gpus() is None
    need = int(weights * (_FULL_STATE + 1)) if on_cpu else weights
    if weights and need > available:
        what = "training it on the CPU" if on_cpu else "loading it"
        yield warning(
            f"about {in_words(available)} of memory are left; {what} takes about {in_words(need)}",
            "use a machine or container with more memory, or end other programs of yours",
            "host_oom",
        )
    elif available < 512 * 2**20:
        yield warning(
            f"only {in_words(available)} of memory are left", "end other programs of yours", "host_oom"
        )
    else:
        yield fine(f"{in_words(available)} of memory are available")
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < 16 * 2**30:
        yield warning(
            f"the limit on address space is {in_words(limit)} (ulimit -v), which torch alone may reserve",
            "run `ulimit -v unlimited` before the start",
            "host_oom",
        )


def memory_available(cgroup: Path = _CGROUP, own: Path = _OWN_GROUPS) -> int:
    """Bytes that can still be used: what the machine has, or what the container's limit leaves."""
    import psutil

    free = int(psutil.virtual_memory().available)
    for folder in cgroups(cgroup, own):
        limit = number_in(folder / "memory.max") or number_in(folder / "memory.limit_in_bytes")
        used = number_in(folder / "memory.current") or number_in(folder / "memory.usage_in_bytes") or 0
        if limit is not None and limit < 2**60:
            free = min(free, max(0, limit - used + _reclaimable(folder)))
    return free


def cgroups(root: Path = _CGROUP, own: Path = _OWN_GROUPS) -> Iterator[Path]:
    """The groups this process is in, from its own up to the root (version 2), or the one of version 1."""
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            folder = root / path.strip("/")
            yield from (folder, *(parent for parent in folder.parents if root in (parent, *parent.parents)))
        elif "memory" in controllers.split(","):
            yield root / "memory"


def _reclaimable(folder: Path) -> int:
    """Bytes of file cache in a group, which the kernel gives up before it kills."""
    try:
        lines = (folder / "memory.stat").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    stat = dict(line.split(" ", 1) for line in lines if " " in line)
    return int(stat.get("inactive_file", 0))


def number_in(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def shared_memory(launch: PlannedLaunch, shm: Path = _SHM) -> Iterator[Finding]:
    """/dev/shm is large enough for loader workers, NCCL and object stores, where there are such."""
    if not shm.is_dir():
        return
    usage = shutil.disk_usage(shm)
    workers = any(
        isinstance(value, int) and value > 0
        for _, value in launch.settings.ending("num_workers", "dataloader_num_workers")
    )
    needs = launch.uses_cluster or launch.workers > 1 or workers
    if usage.total <= _SMALL_SHM and needs:
        yield warning(
            f"{shm} has {in_words(usage.total)}, too little for several processes that share data",
            "start the container with --shm-size=16g or --ipc=host",
            "shm_exhausted",
        )
    elif usage.free < _LITTLE_SHM:
        yield warning(
            f"{shm} has {in_words(usage.free)} left",
            "delete files there that you left behind",
            "shm_exhausted",
        )
    else:
        yield fine(f"{in_words(usage.free)} are free in {shm}")


def in_words(count: float) -> str:
    """`1536` MiB → `1.5 GiB`."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def _existing(path: Path) -> Path:
    return next((parent for parent in (path, *path.parents) if parent.is_dir()), Path("/"))
