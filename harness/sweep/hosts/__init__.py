"""Where runs run. `Host` is all that the rest of a sweep knows of a machine; `local` is the machine we are
on.

Another kind of machine (over SSH, a Ray or Slurm cluster) is another implementation of `Host`: nothing else
changes.
"""

from typing import Literal, Protocol

from harness.sweep.types import Job, JobEnd, Lease, Needs

JobState = Literal["not_started", "running", "ended", "lost"]


class Host(Protocol):
    """A machine (or a cluster) that gives out leases and runs jobs in them.

    All methods may be called again after a crash of the caller, with the same arguments: a lease that is held
    is handed back as it is, and a job that was started is never started twice.
    """

    def reserve(self, lease_id: str, needs: Needs, job_folder: str, result_dir: str) -> Lease | None:
        """A part of the machine for one job, exclusively; None while there is no room.

        The lease holds from now on until `release`, or until neither its job nor a training below
        `result_dir` runs any more and the process that reserved it is gone. Raises NeverFitsError for what
        this machine could not give even when it is idle.
        """
        ...

    def release(self, lease_id: str) -> None:
        """Give a lease back; one that is not held is ignored. While its job or its training still runs the
        part
        stays held, for the run's next job."""
        ...

    async def room(self) -> None:
        """Wait until anybody on this machine gave a lease back or lost it since the last `reserve` that found
        no room. May also return without a word: ask `reserve` again. Cancelling is safe."""
        ...

    def start(self, job: Job) -> None:
        """Start the job, unless it was started before. Returns at once. Raises HostError when that cannot be
        done now."""
        ...

    def state(self, job_folder: str) -> JobState:
        """Where a job stands."""
        ...

    async def ended(self, job_folder: str) -> JobEnd:
        """Wait for the job's end. Cancelling is safe."""
        ...

    def stop(self, job_folder: str) -> None:
        """Ask the job's harness to end its run in good order (as `harness stop` does). Returns at once."""
        ...


class HostError(Exception):
    """The machine did not do what it was asked; the message says why, and what to do."""


class NeverFitsError(HostError):
    """The machine is too small for what one run needs."""
