"""The GPUs that a process may use, and who is on them.

In: the variables of the process, and the driver's answer. Out: `Device`s as CUDA_VISIBLE_DEVICES wants them.
Where the driver does not answer no GPU is called idle: `GpuError`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from monitors.gpus import GpuError, GpuState, read_gpus

__all__ = ["Device", "GpuError", "GpuState", "read_gpus", "usable", "users_of", "visible"]

BUSY_SHARE = 0.1
"""Share of a GPU's memory in use from which on somebody uses it, also where processes are hidden from us."""


@dataclass(frozen=True)
class Device:
    """One GPU, or a part of one (MIG). `word`: as CUDA_VISIBLE_DEVICES wants it; `uuid`: what it is, whatever
    it is called. `users`: who uses it, in words, "" where it is idle. `state` is None for a part."""

    word: str
    uuid: str
    users: str = ""
    state: GpuState | None = None


def usable(environment: Mapping[str, str]) -> tuple[Device, ...]:
    """The GPUs that a process with these variables may use; () where there are none. Raises GpuError."""
    return visible(read_gpus().gpus, environment.get("CUDA_VISIBLE_DEVICES"))[0]


def visible(gpus: Sequence[GpuState], given: str | None) -> tuple[tuple[Device, ...], str]:
    """What CUDA_VISIBLE_DEVICES leaves of these, in its order, and the first word that names none of them;
    like CUDA, nothing behind such a word. Indices are those of CUDA_DEVICE_ORDER=PCI_BUS_ID. UUIDs stay as
    they were given, so do those of MIG instances, whose users are not known."""
    if given is None:
        return tuple(Device(str(gpu.index), gpu.uuid, _use(gpu), gpu) for gpu in gpus), ""
    chosen: dict[str, Device] = {}
    for word in (word.strip() for word in given.split(",")):
        found = list(_named(gpus, word))
        if len(found) != 1:
            return tuple(chosen.values()), word
        chosen.setdefault(found[0].uuid, found[0])
    return tuple(chosen.values()), ""


def _named(gpus: Sequence[GpuState], word: str) -> Iterator[Device]:
    if word.startswith("MIG-"):
        yield Device(word, word)
    for gpu in gpus:
        if word.isdigit() and gpu.index == int(word):
            yield Device(str(gpu.index), gpu.uuid, _use(gpu), gpu)
        elif word and not word.isdigit() and gpu.uuid.startswith(word):
            yield Device(word, gpu.uuid, _use(gpu), gpu)


def _use(gpu: GpuState) -> str:
    if gpu.fault:
        return f"its state cannot be read: {gpu.fault}"
    if gpu.pids:
        return f"process {', '.join(map(str, gpu.pids))}"
    if gpu.memory_used_bytes > BUSY_SHARE * gpu.memory_total_bytes:
        used, total = gpu.memory_used_bytes >> 20, gpu.memory_total_bytes >> 20
        return f"{used} of {total} MiB of its memory are in use"
    return ""


def users_of(gpu: GpuState) -> str:
    """Names, pids and users of the processes on a GPU, as far as the system shows them; "" for none."""
    import psutil

    names = []
    for pid in gpu.pids:
        try:
            process = psutil.Process(pid)
            names.append(f"{process.name()} (pid {pid}, {process.username()})")
        except psutil.Error:
            names.append(f"pid {pid}")
    return ", ".join(names)
