"""A stand-in for `pynvml`: the driver of GPUs that a test makes up."""

# ruff: noqa: N801, N802, N815, N818 - the names are those of pynvml

import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

MIB = 1 << 20


class NVMLError(Exception):
    """As `pynvml.NVMLError`."""


class FakeNvml:
    """`gpus`: (UUID, MiB in use), memory of 81559 MiB each; a text instead of the number is a fault, None a
    device that reports none. `users`: pid → UUID. `fails`: what the driver says instead of answering."""

    NVMLError = NVMLError
    nvmlMemory_v2 = 2

    class NVMLError_LibraryNotFound(NVMLError):
        """No driver."""

    class NVMLError_DriverNotLoaded(NVMLError):
        """No driver."""

    class NVMLError_NotSupported(NVMLError):
        """A device does not report this."""

    def __init__(
        self,
        gpus: Sequence[tuple[str, int | str | None]] = (),
        users: Mapping[int, str] | None = None,
        fails: str = "",
    ) -> None:
        self.gpus, self.users, self.fails = list(gpus), dict(users or {}), fails

    def nvmlInit(self) -> None:
        if self.fails:
            raise NVMLError(self.fails)
        if not self.gpus:
            raise self.NVMLError_LibraryNotFound("NVML Shared Library Not Found")

    def __getattr__(self, name: str) -> Any:
        plain = {
            "nvmlShutdown": None,
            "nvmlSystemGetDriverVersion": "550.54",
            "nvmlDeviceGetCount": len(self.gpus),
        }
        if name in plain:
            return lambda: plain[name]
        of_device = {
            "nvmlDeviceGetHandleByIndex": lambda index: self.gpus[index],
            "nvmlDeviceGetUUID": lambda gpu: gpu[0],
            "nvmlDeviceGetName": lambda gpu: "NVIDIA H100 80GB HBM3",
            "nvmlDeviceGetUtilizationRates": lambda gpu: SimpleNamespace(gpu=37),
            "nvmlDeviceGetComputeRunningProcesses": self._processes,
        }
        return of_device[name]

    def nvmlDeviceGetMemoryInfo(self, gpu: Any, version: int = 1) -> Any:
        if isinstance(gpu[1], str):
            raise NVMLError(gpu[1])
        if gpu[1] is None:
            raise self.NVMLError_NotSupported("Not Supported")
        return SimpleNamespace(used=gpu[1] * MIB, total=81559 * MIB)

    def _processes(self, gpu: Any) -> list[Any]:
        return [SimpleNamespace(pid=pid) for pid, uuid in self.users.items() if uuid == gpu[0]]


def stand_in(monkeypatch: pytest.MonkeyPatch, *gpus: tuple[str, int | str | None], **more: Any) -> FakeNvml:
    """Put a driver with these GPUs in place for one test."""
    fake = FakeNvml(gpus, **more)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake
