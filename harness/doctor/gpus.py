"""The GPUs: there are as many as asked for, they are free, the driver runs the torch that is installed."""

import re
from collections.abc import Iterator

from harness.doctor.asking import NoAnswer
from harness.doctor.findings import Finding, fine, problem, warning
from harness.doctor.launch import PlannedLaunch, spellings
from harness.machine.gpus import BUSY_SHARE, Device, users_of, visible


def enough(launch: PlannedLaunch) -> Iterator[Finding]:
    """As many GPUs are visible as the settings ask for."""
    asked, gpus = launch.workers, launch.gpus.gpus if launch.workers else ()
    if not gpus:
        if launch.gpus_asked:  # workers of a launcher can do without
            text = f"{asked} GPU(s) are asked for, and this machine shows none"
            fix = "run it where there are GPUs (in a container: start it with --gpus all)"
            yield problem(text, fix, "driver_or_arch")
        return
    found, unknown = _usable(launch)
    if unknown and unknown != "-1":
        text = f"CUDA_VISIBLE_DEVICES names {unknown}, this machine has GPUs 0 to {len(gpus) - 1}"
        yield problem(text, "correct CUDA_VISIBLE_DEVICES", "gpu_placement")
    elif len(found) < asked:
        text = f"{asked} GPU(s) per machine are asked for, {len(found)} can be used here"
        fix = f"ask for {len(found)}, or make more visible (CUDA_VISIBLE_DEVICES)"
        yield (problem if launch.gpus_asked else warning)(text, fix, "gpu_placement")
    else:
        yield fine(f"{len(found)} GPU(s) are there, {asked} asked for")


def are_free(launch: PlannedLaunch) -> Iterator[Finding]:
    """Nobody else holds the memory that the training asks for."""
    share = launch.settings.get(*spellings("engine_memory_share"), "gpu_memory_utilization")
    for device in _usable(launch)[0][: launch.workers] if launch.workers else ():
        gpu = device.state
        if gpu is None:
            continue
        used = gpu.memory_used_bytes / gpu.memory_total_bytes if gpu.memory_total_bytes else 0.0
        has = f"{gpu.memory_used_bytes / 2**30:.1f} of {gpu.memory_total_bytes / 2**30:.1f} GiB"
        who = f"; used by {users_of(gpu)}" if gpu.pids else ""
        if isinstance(share, int | float) and share > 1 - used:
            text = f"GPU {gpu.index} has {has} in use, gpu_memory_utilization asks for {share:.0%} of it{who}"
            fix = "wait until it is free, use another GPU, or lower gpu_memory_utilization"
            yield warning(text, fix, "gpu_occupied")
        elif used > BUSY_SHARE:
            fix = "wait until it is free, or use another GPU"
            yield warning(f"GPU {gpu.index} is in use: {has}{who}", fix, "gpu_occupied")
        else:
            yield fine(f"GPU {gpu.index} ({gpu.name}) is free")


def driver_fits(launch: PlannedLaunch) -> Iterator[Finding]:
    """The CUDA that torch was built with runs on this driver."""
    seen = launch.look
    driver = launch.gpus.driver_cuda if launch.workers else None
    if driver is None or isinstance(seen, NoAnswer) or seen.torch is None:
        return
    file = seen.torch / "version.py"
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    match = re.search(r"^cuda[^=]*=\s*(?:'(\d+)\.(\d+)'|None)", text, re.MULTILINE)
    if match is not None and match[1] is None:
        text = f"the torch of {launch.python} is built without CUDA, {launch.workers} GPU(s) are asked for"
        fix = "install a CUDA build of torch (https://pytorch.org/get-started/locally)"
        yield problem(text, fix, "driver_or_arch")
    elif match is not None and int(match[1]) > driver[0]:
        text = f"torch is built with CUDA {match[1]}.{match[2]}, the driver runs {driver[0]}.{driver[1]}"
        fix = f"install a torch for CUDA {driver[0]}, or have the driver updated"
        yield problem(text, fix, "driver_or_arch")
    elif match is not None:
        yield fine(f"torch is built with CUDA {match[1]}.{match[2]}, which the driver runs")


def _usable(launch: PlannedLaunch) -> tuple[tuple[Device, ...], str]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves, and its first word that names none."""
    given = launch.environment.get("CUDA_VISIBLE_DEVICES")
    return visible(launch.gpus.gpus, None if given is None or "$" in given else given)
