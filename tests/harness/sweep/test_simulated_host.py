"""Many runs through the queue, on a machine whose jobs are timers."""

import asyncio
import random
from pathlib import Path

from harness import journal
from harness.sweep.events import SWEEP
from harness.sweep.scheduler import Scheduler
from harness.sweep.sweep import load_state
from tests.harness.sweep.plans import begun, plan
from tests.harness.sweep.simulated_host import SimulatedHost

SLOTS = 10


async def test_a_hundred_runs_on_ten_slots(tmp_path: Path) -> None:
    made = plan(20, 5, parallel=SLOTS)
    sweep = begun(tmp_path, made)
    host = SimulatedHost(SLOTS, lambda run: random.Random(run).lognormvariate(-5.0, 1.0))
    verdict = await asyncio.wait_for(Scheduler(sweep, host, dict, None).run(), 60)
    sweep.close()
    assert verdict.outcome.value == "succeeded"
    runs = [life.run for life in host.lives.values()]
    assert sorted(runs) == sorted({"canary", *(run.name for run in made.runs)}), "each once, and none lost"
    assert host.twice == [] and host.most <= SLOTS
    assert {run.outcome for run in load_state(tmp_path).all_runs} == {"succeeded"}
    starts = [
        entry.data["run"]
        for entry in journal.read(tmp_path / "sweep.jsonl", SWEEP)
        if entry.kind == "started"
    ]
    assert starts == ["canary", *(run.name for run in made.runs)]
