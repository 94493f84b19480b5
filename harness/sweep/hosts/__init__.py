"""Where runs run. `Host` is all that the rest of a sweep knows of a machine; `local` is the machine we are
on.

Another kind of machine (over SSH, a Ray or Slurm cluster) is another implementation of `Host`: nothing else
changes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from harness.environment import LEASED

JobState = Literal["not_started", "running", "ended", "lost"]


@dataclass(frozen=True)
class Needs:
    """What one run needs of a machine.

    `gpus`: whole GPUs. `cpus`: cores, None for an equal share of those of the machine. `memory_bytes`: None
    for an equal share. `ports`: names of environment variables that each get a port of their own.
    `share_gpus`: a GPU that others use is good enough. `sharers`: among how many runs the machine is shared
    equally, where a share is not said.
    """

    gpus: int = 0
    cpus: float | None = None
    memory_bytes: int | None = None
    ports: tuple[str, ...] = ("MASTER_PORT",)
    share_gpus: bool = False
    sharers: int = 1


@dataclass(frozen=True)
class Lease:
    """A part of one machine. `id`: unique on it. `gpus`: their indices as CUDA_VISIBLE_DEVICES wants them.
    `ports`: environment variable to port."""

    id: str
    gpus: tuple[str, ...] = ()
    cpus: float = 1.0
    memory_bytes: int = 0
    ports: Mapping[str, int] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """What a process must have in its environment to keep to its part."""
        threads = str(max(1, int(self.cpus)))
        limits = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), threads)
        if any(word.isdigit() for word in self.gpus):
            limits["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # the order in which the driver counts them
        own = {
            **limits,
            "CUDA_VISIBLE_DEVICES": ",".join(self.gpus),
            **{name: str(port) for name, port in self.ports.items()},
        }
        return {**own, LEASED: " ".join(own)}


@dataclass(frozen=True)
class Job:
    """One process of the harness that carries a run. `folder`: the job's own, which
    the host fills (`AttemptFiles`). `result_dir`: of the run, whose training may outlive the job. `command`:
    argv.
    """

    run: str
    folder: Path
    result_dir: Path
    command: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str]
    lease: Lease


class Host(Protocol):
    """A machine (or a cluster) that gives out leases and runs jobs in them.

    All methods may be called again after a crash of the caller, with the same arguments: a lease that is held
    is handed back as it is, and a job that was started is never started twice.
    """

    def reserve(self, lease_id: str, needs: Needs, job_folder: str, result_dir: str) -> Lease | None:
        """A part of the machine for one job, exclusively; None while there is no room.

        It is held until `release`, or until neither its job nor a training below `result_dir` runs any more
        and the process that reserved it is gone. Raises NeverFitsError for what this machine could not give
        even when it is idle, HostError when it cannot be asked.
        """
        ...

    def release(self, lease_id: str) -> None:
        """Give a lease back; one that is not held is ignored. While its job or its training still runs the
        part stays held, for the run's next job."""
        ...

    async def room(self) -> None:
        """Wait until anybody gave a lease back or lost it since the last `reserve` that found no room. May
        also return without a word: ask `reserve` again. Cancelling is safe."""
        ...

    def start(self, job: Job) -> None:
        """Start the job, unless it was started before; returns at once. Raises HostError where that fails."""
        ...

    def state(self, job_folder: str) -> JobState:
        """Where a job stands."""
        ...

    async def ended(self, job_folder: str) -> int | None:
        """Wait for the job's end; its harness's exit status, None where it was lost. Cancelling is safe."""
        ...

    def stop(self, job_folder: str) -> None:
        """Ask the job's harness to end its run in good order (as `harness stop` does), where it can listen
        already. Returns at once."""
        ...


class HostError(Exception):
    """The machine did not do what it was asked; the message says why, and what to do."""


class NeverFitsError(HostError):
    """The machine is too small for what one run needs."""
