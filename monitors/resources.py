"""What a training uses: CPU and memory of its process tree, free memory and disk, GPUs if there are any."""

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from monitors.gpus import GpuError, read_gpus

GPU_LIMIT_S = 10.0
OF_A_GPU = ("index", "name", "busy_percent", "memory_used_bytes", "memory_total_bytes")


@dataclass(frozen=True)
class Sample:
    """One sample. `cpu_percent`: the tree since the last sample, 100 per core; `time`: epoch seconds.
    `gpus`: of each what `OF_A_GPU` names."""

    time: float
    cpu_percent: float
    rss_bytes: int
    mem_available_bytes: int
    disk_free_bytes: int
    gpus: tuple[dict[str, object], ...] = ()


class ResourceSampler:
    """Samples the process tree under one pid, and the disk that `folder` is on."""

    def __init__(self, pid: int, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._pid = pid
        self._folder = folder
        self._clock = clock
        self._last: tuple[float, dict[int, float]] | None = None

    def sample(self) -> Sample:
        """Take a sample; a tree that is gone uses nothing. CPU is 0 in the first one."""
        import psutil

        now = self._clock()
        rss, cpu_s = 0, dict[int, float]()
        with contextlib.suppress(psutil.NoSuchProcess):
            root = psutil.Process(self._pid)
            for process in (root, *root.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    rss += process.memory_info().rss
                    times = process.cpu_times()
                    cpu_s[process.pid] = times.user + times.system
        return Sample(
            time=now,
            cpu_percent=self._cpu_percent(now, cpu_s),
            rss_bytes=rss,
            mem_available_bytes=psutil.virtual_memory().available,
            disk_free_bytes=disk_free(self._folder),
            gpus=gpus(),
        )

    def _cpu_percent(self, now: float, cpu_s: dict[int, float]) -> float:
        before, self._last = self._last, (now, cpu_s)
        if before is None or now <= before[0]:
            return 0.0
        used = sum(seconds - before[1].get(pid, 0.0) for pid, seconds in cpu_s.items())
        return round(100.0 * max(0.0, used) / (now - before[0]), 1)


def append_sample(path: Path, sample: Sample) -> None:
    """Add a sample to a JSONL file; a link that a training has put there is not followed."""
    if path.is_symlink():
        path.unlink()
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600), "a", encoding="utf-8"
    ) as file:
        file.write(json.dumps(asdict(sample)) + "\n")


def disk_free(folder: Path) -> int:
    """Return the bytes an ordinary user can still write where `folder` is."""
    return shutil.disk_usage(folder).free


def gpus() -> tuple[dict[str, object], ...]:
    """The GPUs of this machine; () where there are none or their driver does not answer."""
    try:
        return tuple({key: getattr(each, key) for key in OF_A_GPU} for each in read_gpus(GPU_LIMIT_S).gpus)
    except GpuError:
        return ()
