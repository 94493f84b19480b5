"""The NVIDIA GPUs of this machine, as its driver reports them (NVML).

Out: a `GpuReading`; no GPUs where there is no driver. A driver that does not answer is a `GpuError`, never a
machine without GPUs. GPUs of other makers are not known here.
"""

import threading
from dataclasses import dataclass
from typing import Any

LIMIT_S = 30.0


class GpuError(Exception):
    """The driver does not answer, or not with what can be understood."""


@dataclass(frozen=True)
class GpuState:
    """One GPU. `index`: as CUDA counts with CUDA_DEVICE_ORDER=PCI_BUS_ID. Memory in bytes, 0 where it is not
    reported. `pids`: compute processes on it, as far as they are visible (in a container they may not be).
    `fault`: why its state cannot be read; "" where it can."""

    index: int
    uuid: str
    name: str
    busy_percent: float
    memory_used_bytes: int
    memory_total_bytes: int
    pids: tuple[int, ...] = ()
    fault: str = ""


@dataclass(frozen=True)
class GpuReading:
    """All GPUs, and the driver's version."""

    gpus: tuple[GpuState, ...] = ()
    driver: str = ""


def read_gpus(limit_s: float = LIMIT_S) -> GpuReading:
    """Ask the driver. Takes milliseconds; one that hangs is given up after `limit_s`. Raises GpuError."""
    found: list[GpuReading | GpuError] = []
    asking = threading.Thread(target=lambda: found.append(_answer()), name="read GPUs", daemon=True)
    asking.start()
    asking.join(limit_s)
    if not found:
        raise GpuError(f"the GPU driver has not answered within {limit_s:g} s")
    if isinstance(found[0], GpuError):
        raise found[0]
    return found[0]


def _answer() -> GpuReading | GpuError:
    import pynvml

    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded):
        return GpuReading()
    except pynvml.NVMLError as error:
        return GpuError(f"the GPU driver says: {error}")
    try:
        gpus = tuple(_gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount()))
        return GpuReading(gpus, pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError as error:
        return GpuError(f"the GPU driver says: {error}")
    finally:
        pynvml.nvmlShutdown()


def _gpu(nvml: Any, index: int) -> GpuState:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    uuid, name = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)
    busy, used, total, pids = 0.0, 0, 0, tuple[int, ...]()
    try:
        used, total = _memory(nvml, handle)
        pids = tuple(process.pid for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle))
        busy = float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    except nvml.NVMLError_NotSupported:  # a device that shares the host's memory, or is cut up (MIG)
        pass
    except nvml.NVMLError as error:
        return GpuState(index, uuid, name, 0.0, 0, 0, (), str(error))
    return GpuState(index, uuid, name, busy, used, total, pids)


def _memory(nvml: Any, handle: Any) -> tuple[int, int]:
    """(used, total), without what the driver keeps for itself where it says so."""
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except nvml.NVMLError:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    return int(memory.used), int(memory.total)
