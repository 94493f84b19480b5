"""The GPUs of this machine that may be given out, as nvidia-smi and CUDA_VISIBLE_DEVICES tell.

In: the caller's variables. Out: `Device`s, each with whether somebody uses it. Strict where the doctor is
lenient: where nvidia-smi says nothing, or nothing that is understood, no GPU is given out. GPUs of other
makers are not known here.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from harness.sweep.hosts import HostError, NeverFitsError

LIMIT_S = 30.0
BUSY_SHARE = 0.1
"""Share of a GPU's memory in use from which on it is somebody's, also where processes are hidden from us (as
in a container)."""
_UNTOLD = ("[N/A]", "N/A", "[Not Supported]")
_MEND = "run `nvidia-smi` to see what is wrong; without its answer no GPU is given out"


@dataclass(frozen=True)
class Device:
    """One GPU, or a part of one (MIG). `word`: as CUDA_VISIBLE_DEVICES wants it; `uuid`: what it is, whatever
    it is called. `users`: who uses it, in words, "" for nobody."""

    word: str
    uuid: str
    users: str = ""


def visible_devices(environment: Mapping[str, str]) -> tuple[Device, ...]:
    """The GPUs that a process with these variables may use.

    Indices are those of nvidia-smi (CUDA_DEVICE_ORDER=PCI_BUS_ID). UUIDs stay as they were given, so do the
    UUIDs of MIG instances, of which nobody tells who uses them. Takes up to seconds. Raises HostError when
    nvidia-smi does not answer, NeverFitsError when there is none.
    """
    program = shutil.which("nvidia-smi", path=environment.get("PATH"))
    if program is None:
        raise NeverFitsError(
            "a run needs a GPU, and this machine has none that is known (there is no nvidia-smi on PATH);"
            " run the sweep where there are NVIDIA GPUs, or set `gpus: 0` under `each`"
        )
    table = _ask(program, "--query-gpu=index,uuid,memory.used,memory.total")
    users = _users(_ask(program, "--query-compute-apps=pid,gpu_uuid,used_memory"))
    devices = [_device(line, users) for line in table.splitlines() if line.strip()]
    return _chosen(devices, environment.get("CUDA_VISIBLE_DEVICES"))


def _device(line: str, users: Mapping[str, list[str]]) -> Device:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != 4 or not cells[0].isdigit() or not cells[1].startswith("GPU-"):
        raise HostError(f"nvidia-smi lists a GPU as {line.strip()!r}, which is not understood; {_MEND}")
    index, uuid, used, total = cells
    pids = users.get(uuid, [])
    if pids:
        return Device(index, uuid, f"process {', '.join(pids)}")
    if not (used.isdigit() and total.isdigit()):  # it has no memory of its own to tell of, or it is broken
        return Device(index, uuid, "" if used in _UNTOLD else f"nvidia-smi says {used}")
    if int(used) > BUSY_SHARE * int(total):
        return Device(index, uuid, f"{used} of {total} MiB of its memory are in use")
    return Device(index, uuid)


def _users(table: str) -> dict[str, list[str]]:
    """GPU to the processes on it; a process whose pid is hidden counts too."""
    found: dict[str, list[str]] = {}
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if not line.strip():
            continue
        if len(cells) < 2 or not cells[1].startswith(("GPU-", "MIG-")):
            raise HostError(f"nvidia-smi lists a process as {line.strip()!r}, not understood; {_MEND}")
        found.setdefault(cells[1], []).append(cells[0])
    return found


def _chosen(devices: list[Device], given: str | None) -> tuple[Device, ...]:
    """What CUDA_VISIBLE_DEVICES leaves, in its order; like CUDA, nothing after the first word that names
    none."""
    if given is None:
        return tuple(devices)
    chosen: dict[str, Device] = {}
    for word in (word.strip() for word in given.split(",")):
        if word.startswith("MIG-"):
            found = [Device(word, word)]
        elif word.isdigit():
            found = [device for device in devices if device.word == str(int(word))]
        else:
            found = [Device(word, d.uuid, d.users) for d in devices if word and d.uuid.startswith(word)]
        if len(found) != 1:
            break
        chosen.setdefault(found[0].uuid, found[0])
    return tuple(chosen.values())


def _ask(program: str, query: str) -> str:
    command = [program, query, "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise HostError(f"nvidia-smi has not answered within {LIMIT_S:.0f} s; {_MEND}") from None
    except OSError as error:
        raise HostError(f"{program} cannot be run: {error.strerror}; {_MEND}") from error
    if done.returncode != 0:
        said = " ".join((done.stdout + " " + done.stderr).split()) or "nothing"
        raise HostError(f"nvidia-smi ended with status {done.returncode} and said: {said[:300]}; {_MEND}")
    return done.stdout
