"""A machine whose jobs are small processes, and which keeps everything in files: so that a scheduler that is
killed leaves behind what a real one would. As a program, it is that scheduler."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

from harness.sweep.hosts import Job, JobState, Lease, Needs
from harness.sweep.scheduler import Scheduler
from harness.sweep.state import Sweep, SweepReported
from monitors.alarms import until

DIES_ONCE = "p02-s0"  # its first job ends without a finish.flag
LOOK_EVERY_S = 0.005
JOB = """
mkdir "$JOB/started" 2>/dev/null || exit 0
mkdir -p "$RESULT"
echo "$LEASE" >> "$RESULT/starts"
sleep 0.05
if [ -n "$DIES" ] && mkdir "$RESULT/died" 2>/dev/null; then
    status=137
else
    status=0
    mkdir -p "$RESULT/attempts/01"
    printf '{"step": 1, "values": {"loss": 0.5}}\\n' > "$RESULT/attempts/01/metrics.jsonl"
    printf '{"outcome": "succeeded", "reason": "done"}' > "$RESULT/flag"
    mv "$RESULT/flag" "$RESULT/finish.flag"
fi
echo $status > "$JOB/status"
mv "$JOB/status" "$JOB/exit"
"""


class ProcessHost:
    """`folder`: where the leases are, a file each; `slots`: how many there may be."""

    def __init__(self, folder: Path, slots: int) -> None:
        self._folder = folder
        self._slots = slots
        self._released = folder.with_suffix(".released")
        folder.mkdir(exist_ok=True)

    def reserve(self, lease_id: str, needs: Needs, job_folder: str, result_dir: str) -> Lease | None:
        held = [lease.name for lease in self._folder.iterdir()]
        if lease_id not in held and len(held) >= self._slots:
            return None
        (self._folder / lease_id).touch()
        return Lease(lease_id)

    def release(self, lease_id: str) -> None:
        (self._folder / lease_id).unlink(missing_ok=True)
        self._released.write_text(lease_id)

    async def room(self) -> None:
        await until(lambda: len(list(self._folder.iterdir())) < self._slots, self._released)

    def start(self, job: Job) -> None:
        job.folder.mkdir(parents=True, exist_ok=True)
        names = {"JOB": job.folder, "RESULT": job.result_dir, "LEASE": job.lease.id}
        dies = {"DIES": "yes"} if job.run == DIES_ONCE else {}
        env = {**os.environ, **{name: str(value) for name, value in names.items()}, **dies}
        subprocess.Popen(["sh", "-c", JOB], env=env, start_new_session=True)
        while not (job.folder / "started").exists():
            time.sleep(LOOK_EVERY_S)

    def state(self, job_folder: str) -> JobState:
        if not (Path(job_folder) / "started").exists():
            return "not_started"
        return "ended" if (Path(job_folder) / "exit").exists() else "running"

    async def ended(self, job_folder: str) -> int | None:
        await until(lambda: self.state(job_folder) == "ended", Path(job_folder) / "exit")
        return int((Path(job_folder) / "exit").read_text())

    def stop(self, job_folder: str) -> None:
        raise NotImplementedError("nobody stops these jobs")


async def _report(sweep: Sweep) -> SweepReported:
    return SweepReported((f"{sum(run.status == 'ended' for run in sweep.state.compared)} runs",))


def schedule(folder: Path, slots: int) -> None:
    print("ready", flush=True)
    sweep = Sweep.open(folder)
    asyncio.run(Scheduler(sweep, ProcessHost(folder / "leases", slots), dict, _report, pause_s=0.0).run())
    sweep.close()


if __name__ == "__main__":
    schedule(Path(sys.argv[1]), int(sys.argv[2]))
