"""No false exits: randomised trials of the situations in which watching the pane's command cries wolf."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

import pytest

from monitors.files import AttemptFiles
from monitors.launch import launch
from monitors.tmux import Session
from monitors.wait import Waiter, WakeReason
from tests.monitors.tmux_world import spec_for

AT_ONCE = 6


def situation(kind: str, random_: random.Random, folder: Path) -> tuple[str, int]:
    """Return a command that ends by creating `done`, and its exit status."""
    status = random_.choice([0, 1, 2, 3, 17, 137, 255])
    pauses = [f"{random_.uniform(0, 0.25):.3f}" for _ in range(random_.randint(1, 4))]
    done = folder / "done"
    child = f'{sys.executable} -I -S -c "import time; time.sleep({pauses[0]})"'
    if kind == "script":
        script = folder / "train.sh"
        script.write_text(f"#!/bin/bash\n{child}\nsleep {pauses[-1]}\ntouch {done}\nexit {status}\n")
        return f"bash {script}", status
    if kind == "loop":
        body = f"for pause in {' '.join(pauses)}; do sleep $pause; for i in $(seq 300); do :; done; done"
        return f"{body}\ntouch {done}\nexit {status}", status
    if kind == "nested":
        return (
            f"bash -c 'bash -c \"sleep {pauses[0]}\"; sleep {pauses[-1]}; touch {done}; exit {status}'",
            status,
        )
    return f"sleep {pauses[0]}; touch {done}; exit {status}", status


async def trial(number: int, seed: int, top: Path, gate: asyncio.Semaphore) -> str | None:
    """Run one trial; return what went wrong, or None."""
    random_ = random.Random(f"{seed}-{number}")
    kind = random_.choice(["script", "loop", "nested", "plain"])
    folder = top / f"{number:04d}"
    folder.mkdir()
    command, status = situation(kind, random_, folder)
    async with gate:
        name = f"ajet_trial_{number:04d}"
        spec = spec_for(folder / "01", command, name)
        session = await asyncio.to_thread(launch, spec)
        files = AttemptFiles(spec.attempt_dir)
        waiter = Waiter(files, session)
        while True:  # at once after typing, again and again, at random moments
            wake = await waiter.wait(timeout=random_.uniform(0.01, 0.3))
            if wake.reason != WakeReason.TICK:
                break
        finished = (folder / "done").exists()
        await asyncio.to_thread(session.kill)
    if wake.reason != WakeReason.EXITED or wake.exit is None:
        return f"trial {number} ({kind}): {wake}"
    if not finished:
        return f"trial {number} ({kind}): false exit, {wake}"
    if wake.exit.status != status:
        return f"trial {number} ({kind}): status {wake.exit.status} instead of {status}"
    return None


async def run_trials(count: int, seed: int, top: Path) -> list[str]:
    keeper = Session.create("ajet_keeper", top)  # else the server would come and go
    gate = asyncio.Semaphore(AT_ONCE)
    found = await asyncio.gather(*(trial(number, seed, top, gate) for number in range(count)))
    keeper.kill()
    return [problem for problem in found if problem]


async def test_no_false_exit_in_a_sample(tmp_path: Path) -> None:
    assert await run_trials(30, 1, tmp_path) == []


@pytest.mark.soak
async def test_no_false_exit_in_a_thousand(tmp_path: Path) -> None:
    assert await run_trials(1000, 2, tmp_path) == []
