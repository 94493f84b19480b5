"""The GPUs: there are as many as asked for, they are free, the driver runs the torch that is installed."""

import re
from collections.abc import Iterator

from harness.doctor.interpreter_probe import ProbeError
from harness.doctor.launch import PlannedLaunch
from harness.doctor.nvidia import GpuInfo, GpuState
from harness.doctor.types import Finding, fine, problem, warning

_UTILIZATION = (
    "actor_rollout_ref.rollout.gpu_memory_utilization",
    "ajet.rollout.gpu_memory_utilization",
    "vllm_gpu_memory_utilization",
    "gpu_memory_utilization",
)
_MUCH_USED = 0.1
"""Share of a GPU's memory that somebody else may hold without a word."""


def enough(launch: PlannedLaunch) -> Iterator[Finding]:
    """As many GPUs are visible as the settings ask for."""
    asked = launch.workers
    state = launch.gpus() if asked else None
    if state is None:
        if not launch.gpus_asked:
            return  # workers of a launcher can do without
        yield problem(
            f"{asked} GPU(s) are asked for, and nvidia-smi shows none on this machine",
            "run it where there are GPUs (in a container: start it with --gpus all)",
            "driver_or_arch",
        )
        return
    visible, unknown = _visible(launch, state)
    for word in unknown:
        yield problem(
            f"CUDA_VISIBLE_DEVICES names {word}, this machine has GPUs 0 to {len(state.gpus) - 1}",
            "correct CUDA_VISIBLE_DEVICES",
            "gpu_placement",
        )
    if len(visible) < asked and not unknown:
        make = problem if launch.gpus_asked else warning
        yield make(
            f"{asked} GPU(s) per machine are asked for, {len(visible)} can be used here",
            f"ask for {len(visible)}, or make more visible (CUDA_VISIBLE_DEVICES)",
            "gpu_placement",
        )
    elif not unknown:
        yield fine(f"{len(visible)} GPU(s) are there, {asked} asked for")


def are_free(launch: PlannedLaunch) -> Iterator[Finding]:
    """Nobody else holds the memory that the training asks for."""
    state = launch.gpus() if launch.workers else None
    if state is None:
        return
    share = launch.settings.number(*_UTILIZATION)
    for gpu in _visible(launch, state)[0][: launch.workers]:
        used = gpu.used / gpu.total if gpu.total else 0.0
        users = _users(state, gpu)
        if share is not None and share > 1 - used:
            yield warning(
                f"GPU {gpu.index} has {gpu.free / 2**30:.1f} of {gpu.total / 2**30:.1f} GiB free, "
                f"gpu_memory_utilization {share} asks for {share * gpu.total / 2**30:.1f}{users}",
                "wait until it is free, use another GPU, or lower gpu_memory_utilization",
                "gpu_occupied",
            )
        elif used > _MUCH_USED:
            text = f"GPU {gpu.index} is in use: {gpu.used / 2**30:.1f} of {gpu.total / 2**30:.1f} GiB{users}"
            yield warning(text, "wait until it is free, or use another GPU", "gpu_occupied")
        else:
            yield fine(f"GPU {gpu.index} ({gpu.name}) is free")


def driver_fits(launch: PlannedLaunch) -> Iterator[Finding]:
    """The CUDA that torch was built with runs on this driver."""
    probe = launch.probe()
    state = launch.gpus() if launch.workers else None
    if state is None or isinstance(probe, ProbeError) or "torch" not in probe.folders:
        return
    file = probe.folders["torch"] / "version.py"
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    match = re.search(r"^cuda[^=]*=\s*(?:'(\d+)\.(\d+)'|(None))", text, re.MULTILINE)
    if match is None:
        return
    if match[3]:
        mend = "install a CUDA build of torch (https://pytorch.org/get-started/locally)"
        yield problem(
            f"the torch of {launch.python} is built without CUDA, {launch.workers} GPU(s) are asked for",
            mend,
            "driver_or_arch",
        )
        return
    built = (int(match[1]), int(match[2]))
    if state.driver_cuda is not None and built[0] > state.driver_cuda[0]:
        newest = ".".join(map(str, state.driver_cuda))
        yield problem(
            f"torch is built with CUDA {built[0]}.{built[1]}, the driver runs {newest}",
            f"install a torch for CUDA {state.driver_cuda[0]}, or have the driver updated",
            "driver_or_arch",
        )
    else:
        yield fine(f"torch is built with CUDA {built[0]}.{built[1]}, which the driver runs")


def _visible(launch: PlannedLaunch, state: GpuState) -> tuple[list[GpuInfo], list[str]]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves, and its words that name none."""
    given = launch.environment.get("CUDA_VISIBLE_DEVICES")
    if given is None or "$" in given:
        return list(state.gpus), []
    visible, unknown = [], []
    for word in filter(None, (word.strip() for word in given.split(","))):
        if word == "-1":
            break
        found = [gpu for gpu in state.gpus if str(gpu.index) == word or gpu.uuid.startswith(word)]
        visible += found
        unknown += [] if found or word.startswith("MIG-") else [word]
    return visible, unknown


def _users(state: GpuState, gpu: GpuInfo) -> str:
    """Who uses a GPU: names, pids and users, as far as the system tells."""
    import psutil

    names = []
    for user in state.users:
        if user.uuid != gpu.uuid:
            continue
        try:
            process = psutil.Process(user.pid)
            names.append(f"{process.name()} (pid {user.pid}, {process.username()})")
        except psutil.Error:
            names.append(f"pid {user.pid}")
    return f"; used by {', '.join(names)}" if names else ""
