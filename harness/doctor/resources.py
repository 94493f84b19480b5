"""What the machine still has: disk where it is written, memory, GPUs, ports, open files, a terminal."""

import errno
import re
import resource
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from harness.config import edit
from harness.doctor.findings import Finding, fine, problem, warning
from harness.doctor.launch import PlannedLaunch
from harness.doctor.model import weights_bytes
from harness.doctor.settings import spellings
from harness.machine import disk
from harness.machine.disk import in_words
from harness.machine.gpus import BUSY_SHARE, Device, users_of, visible
from harness.machine.memory import memory_available
from harness.machine.ports import a_free_port, holder, is_taken
from harness.machine.sandboxes import INSTALL, kind_here, not_covered
from harness.redaction import WORD, is_secret
from monitors.launch import is_secret_name, state_home
from monitors.metrics import families
from monitors.sandbox import landlock_abi

_FEW_FREE_FILES = 1000
_LITTLE_MEMORY = 512 * 2**20
_FULL_STATE = 7.0
"""Bytes of a checkpoint with optimizer per byte of bfloat16 weights: the weights, and three copies in
float32 (parameters, two moments)."""
_SMALL_SHM = 64 * 2**20
_SHM = Path("/dev/shm")
_FEW_OPEN_FILES, _FEW_OPEN_FILES_CLUSTER = 256, 4096
_OUTPUT_KEYS = "trainer.default_local_dir output_dir training.output_dir checkpoint_dir save_dir"
_SAVE_KEYS = "trainer.save_freq ajet.trainer_common.save_freq save_steps"
_STEPS_KEYS = "trainer.total_training_steps ajet.trainer_common.total_training_steps max_steps"
_LISTENS = re.compile(
    r"(?:^|[._])(?:master_port|main_process_port|interchange_server_port|dashboard_port|rollout_server_port"
    r"|listen_port|bind_port|tensorboard_port)$"
)
"""Settings that surely mean "listen here": the port of a judge or a database is taken, and should be."""
_HERE = ("", "localhost", "127.0.0.1", "0.0.0.0", "::1", "::", "[::]", socket.gethostname())
_DEVICE = re.compile(r"(?:^|[._])(?:device|accelerator)$")
_GPU_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg", "/dev/nvhost-gpu", "/dev/nvgpu", "/dev/accel")
_TORCHRUN, _RAY = 29500, 6379
_OTHER_RENDEZVOUS = re.compile(r"--standalone|--rdzv|--master[-_]port|--node[-_]rank")


# --- disk and memory --------------------------------------------------------------------------------------


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


def state_folder(launch: PlannedLaunch) -> Iterator[Finding]:
    """Secrets can be handed to the training, and the list of runs be written: below the home folder, where
    nothing else is named. Nothing stays there."""
    folder = state_home()
    try:
        there = next(parent for parent in (folder, *folder.parents) if parent.exists())
        tempfile.TemporaryFile(dir=there).close()
        yield fine("the list of runs can be written")
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):  # the launch is held until there is room
            return
        needed = any(is_secret_name(name) or is_secret(name, value) for name, value in launch.given.items())
        finding, what = (problem, "hand secrets over") if needed else (warning, "list the run")
        text = f"the harness cannot {what} in {folder}: {error.strerror}"
        yield finding(text, "name a folder of yours: `export XDG_STATE_HOME=/a/folder`", "permission")


def secrets(launch: PlannedLaunch) -> Iterator[Finding]:
    """No secret is a word that any text may hold."""
    words = [name for name, value in launch.given.items() if WORD.fullmatch(value) and is_secret(name, value)]
    if words:
        text = f"the value of {', '.join(words)} is too common a word to be masked wherever it stands"
        yield warning(f"{text}: only behind its name is it", "give it a value that is no word")


def metric_formats(launch: PlannedLaunch) -> Iterator[Finding]:
    """Formats of metric lines that the user has added can be used."""
    for text in families.broken():
        yield warning(f"{text}; its lines are read without it", "correct the file, or remove it")


def checkpoints(launch: PlannedLaunch) -> Iterator[Finding]:
    """The checkpoints of the whole run fit on their disk, by the size of the model's files."""
    settings = launch.settings
    weights, every = weights_bytes(launch), settings.whole(*_SAVE_KEYS.split())
    if not weights or not every:
        return
    keep, steps = settings.whole(*spellings("kept_checkpoints")), settings.whole(*_STEPS_KEYS.split())
    count = min(filter(None, [keep or 0, (steps or 0) // every]), default=1)
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
    on_cpu = bool(weights) and not launch.uses_cluster and not launch.gpus
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
    """/dev/shm is larger than Docker makes it, where several processes share data."""
    loaders = launch.settings.whole("num_workers", "dataloader_num_workers")
    if shm.is_dir() and (loaders or launch.uses_cluster or launch.workers > 1):
        total = shutil.disk_usage(shm).total
        if total <= _SMALL_SHM:
            text = f"{shm} has {in_words(total)}, too little for several processes that share data"
            yield warning(text, "start the container with --shm-size=16g or --ipc=host", "shm_exhausted")
        else:
            yield fine(f"{shm} has {in_words(total)}")


def open_files(launch: PlannedLaunch) -> Iterator[Finding]:
    """The shell lets a process open as many files as a training does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for call in launch.calls:
        sets_it = call.program == "ulimit" and any(word[:1] == "-" and "n" in word for word in call.words[1:])
        if sets_it and call.words[-1].isdigit():
            soft = int(call.words[-1])
    few = _FEW_OPEN_FILES_CLUSTER if launch.uses_cluster else _FEW_OPEN_FILES
    if soft == resource.RLIM_INFINITY or soft >= few:
        yield fine("a process may open enough files")
    else:
        most = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
        text = f"a process may open {soft} files (ulimit -n)"
        yield warning(text, f"run `ulimit -n {most}` before the start", "os_limit")


# --- GPUs -------------------------------------------------------------------------------------------------


def enough_gpus(launch: PlannedLaunch) -> Iterator[Finding]:
    """As many GPUs are visible as the settings ask for."""
    asked = launch.workers
    if asked and not launch.gpus and launch.gpus_asked:  # workers of a launcher can do without
        text = f"{asked} GPU(s) are asked for, and this machine shows none"
        fix = "run it where there are GPUs (in a container: start it with --gpus all)"
        yield problem(text, fix, "driver_or_arch")
    if not asked or not launch.gpus:
        return
    found, unknown = _usable(launch)
    if unknown and unknown != "-1":
        text = f"CUDA_VISIBLE_DEVICES names {unknown}, this machine has GPUs 0 to {len(launch.gpus) - 1}"
        yield problem(text, "correct CUDA_VISIBLE_DEVICES", "gpu_placement")
    elif len(found) < asked:
        text = f"{asked} GPU(s) per machine are asked for, {len(found)} can be used here"
        fix = f"ask for {len(found)}, or make more visible (CUDA_VISIBLE_DEVICES)"
        yield (problem if launch.gpus_asked else warning)(text, fix, "gpu_placement")
    else:
        yield fine(f"{len(found)} GPU(s) are there, {asked} asked for")


def accelerator(launch: PlannedLaunch) -> Iterator[Finding]:
    """The kind of accelerator that a setting or JAX_PLATFORMS names is there."""
    if launch.gpus or any(Path(device).exists() for device in _GPU_DEVICES) or sys.platform != "linux":
        return
    fix = "run it where there is one (in a container: start it with --gpus all), or ask for the CPU"
    given = launch.environment.get("JAX_PLATFORMS", "").lower()
    if given and "cpu" not in given and re.search(r"\b(cuda|gpu|rocm)\b", given):
        text = f"JAX_PLATFORMS={given} asks for an accelerator, and this machine shows none"
        yield problem(text, fix, "driver_or_arch")
    for key, value in launch.settings.texts():
        if _DEVICE.search(key) and re.fullmatch(r"(cuda|gpu)(:\d+)?", value):
            text = f"{key}: {value} asks for a GPU, and this machine shows none"
            yield warning(text, fix, "driver_or_arch")


def free_gpus(launch: PlannedLaunch) -> Iterator[Finding]:
    """Nobody else holds the memory that the training asks for."""
    share = launch.settings.get(*spellings("engine_memory_share"), "gpu_memory_utilization")
    for device in _usable(launch)[0][: launch.workers] if launch.workers else ():
        gpu = device.state
        if gpu is None:
            continue
        used = gpu.memory_used_bytes / gpu.memory_total_bytes if gpu.memory_total_bytes else 0.0
        has = f"{in_words(gpu.memory_used_bytes)} of {in_words(gpu.memory_total_bytes)} in use"
        text = f"GPU {gpu.index} has {has}{f'; used by {users_of(gpu)}' if gpu.pids else ''}"
        if isinstance(share, int | float) and share > 1 - used:
            fix = "wait until it is free, use another GPU, or lower gpu_memory_utilization"
            yield warning(f"{text}; gpu_memory_utilization asks for {share:.0%} of it", fix, "gpu_occupied")
        elif used > BUSY_SHARE:
            yield warning(text, "wait until it is free, or use another GPU", "gpu_occupied")
        else:
            yield fine(f"GPU {gpu.index} ({gpu.name}) is free")


def _usable(launch: PlannedLaunch) -> tuple[tuple[Device, ...], str]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves, and its first word that names none."""
    given = launch.environment.get("CUDA_VISIBLE_DEVICES")
    return visible(launch.gpus, None if given is None or "$" in given else given)


# --- ports and the terminal -------------------------------------------------------------------------------


def free_ports(launch: PlannedLaunch) -> Iterator[Finding]:
    """Nobody listens on the ports that the training will listen on."""
    for port, who in _ports(launch).items():
        if not is_taken(port):
            yield fine(f"port {port} ({who}) is free")
            continue
        make = warning if launch.prepares or who.endswith("default") else problem
        free = a_free_port()
        fix = f"choose another in {who}, such as {free}, or end what listens there if it is yours"
        found = make(f"port {port} ({who}) is taken{holder(port)}", fix, "port_in_use")
        known = {"port": str(port), "free_port": str(free)}
        if launch.given.get(who) == str(port):
            found = found.fixed_by("free_port", variable=who, **known)
        elif edit.get(launch.config, who) == port:
            found = found.fixed_by("free_port", **known)
        yield found


def _ports(launch: PlannedLaunch) -> dict[int, str]:
    """Port → who says that it will be listened on."""
    settings = launch.settings
    named = [(value, key) for key, value in settings.values.items() if _LISTENS.search(key)]
    named.append((_port_here(settings.text("rdzv_endpoint")), "--rdzv_endpoint"))
    variables = (launch.environment, *(call.variables for call in launch.calls))
    given = [each.get("MASTER_PORT", "") for each in variables]
    named += [(int(port), "MASTER_PORT") for port in given if port.isdigit()]
    found = {port: who for port, who in reversed(named) if isinstance(port, int) and 0 < port < 65536}
    for call in (*launch.calls, *(program.call for program in launch.programs)):
        is_torchrun = call.program.endswith("torchrun") and not _OTHER_RENDEZVOUS.search(" ".join(call.words))
        if is_torchrun and not found:
            found[_TORCHRUN] = "torchrun's default"
        if call.words[:3] == ("ray", "start", "--head") and settings.whole("port") is None:
            found.setdefault(_RAY, "ray start's default")
    return found


def _port_here(endpoint: str) -> int:
    """The port of `host:port` if the host is this one, else 0."""
    try:
        parts = urlsplit(f"//{endpoint}")
        return (parts.port or 0) if (parts.hostname or "") in _HERE else 0
    except ValueError:
        return 0


def changed_code(launch: PlannedLaunch) -> Iterator[Finding]:
    """A sandbox for code that a model changes, where the blueprint allows that."""
    if not launch.blueprint.code_changes:
        return
    kind = kind_here("auto")
    if kind is None:
        text = "code that a model changes would run as you, with all your files: there is no sandbox here"
        yield warning(text, INSTALL)
        return
    gaps = ", ".join(not_covered(kind, landlock_abi()))
    text = f"code that a model changes runs in a sandbox ({kind}), which does not cover: {gaps}"
    yield fine(text) if kind == "bubblewrap" else warning(text, INSTALL)


def tmux(launch: PlannedLaunch) -> Iterator[Finding]:
    """tmux, in whose sessions trainings run, is installed."""
    if shutil.which("tmux") is None:
        fix = "use your package manager, e.g. `apt-get install tmux`"
        yield problem("tmux is not installed", fix, "path_not_found")
    else:
        yield fine("tmux is installed")
