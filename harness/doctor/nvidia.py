"""What `nvidia-smi` tells: GPUs, their memory, the driver, and whose processes are on them.

In: the variables of the launch. Out: `GpuState`, None where there is no NVIDIA GPU or no answer.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

LIMIT_S = 8.0
_FIELDS = "index,uuid,name,memory.used,memory.total"


@dataclass(frozen=True)
class GpuInfo:
    """One GPU; memory in bytes."""

    index: int
    uuid: str
    name: str
    used: int
    total: int

    @property
    def free(self) -> int:
        return self.total - self.used


@dataclass(frozen=True)
class GpuUser:
    """A process that uses a GPU."""

    pid: int
    uuid: str


@dataclass(frozen=True)
class GpuState:
    """All GPUs, the processes on them, and the newest CUDA that the driver runs, such as (12, 4)."""

    gpus: tuple[GpuInfo, ...]
    users: tuple[GpuUser, ...]
    driver_cuda: tuple[int, int] | None


def ask_gpus(environment: Mapping[str, str]) -> GpuState | None:
    """Ask nvidia-smi. Takes up to a few seconds on a machine with many GPUs; never raises."""
    program = shutil.which("nvidia-smi", path=environment.get("PATH"))
    if program is None:
        return None
    table = _ask([program, f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits"])
    gpus = read_gpus(table)
    if not gpus:
        return None
    users = read_users(_ask([program, "--query-compute-apps=pid,gpu_uuid", "--format=csv,noheader,nounits"]))
    return GpuState(gpus, users, read_cuda(_ask([program])))


def read_gpus(table: str) -> tuple[GpuInfo, ...]:
    """The rows of the query of GPUs."""
    found = []
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 5 and cells[0].isdigit() and cells[3].isdigit() and cells[4].isdigit():
            used, total = int(cells[3]) << 20, int(cells[4]) << 20
            found.append(GpuInfo(int(cells[0]), cells[1], cells[2], used, total))
    return tuple(found)


def read_users(table: str) -> tuple[GpuUser, ...]:
    """The rows of the query of processes."""
    rows = [[cell.strip() for cell in line.split(",")] for line in table.splitlines()]
    return tuple(GpuUser(int(row[0]), row[1]) for row in rows if len(row) == 2 and row[0].isdigit())


def read_cuda(text: str) -> tuple[int, int] | None:
    """The CUDA version in the heading of the plain answer."""
    match = re.search(r"CUDA Version:\s*(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else None


def _ask(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout
