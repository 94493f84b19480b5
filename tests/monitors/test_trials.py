"""No false exits: randomised trials of the situations in which watching the pane's command cries wolf, for
commands that were launched and for lines that somebody typed."""

from __future__ import annotations

import asyncio
import random
import shutil
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from monitors.clock import SystemClock
from monitors.files import AttemptFiles
from monitors.launch import launch
from monitors.tmux import Session
from monitors.unmanaged_session import SETTLE_S, wait_for_pane
from monitors.wait import Waiter, WakeReason
from tests.monitors.tmux_world import spec_for, until

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


def typed_line(random_: random.Random) -> str:
    """A line that ends by creating `done`, with moments in which its shell has no child."""
    pause = [f"{random_.uniform(0, 0.4):.3f}" for _ in range(3)]
    spin = f"for j in $(seq {random_.randint(1, 20000)}); do :; done"
    line = random_.choice(
        [
            f"bash -c 'sleep {pause[0]}; sleep {pause[1]}'; touch done",
            f"for i in 1 2 3 4; do sleep {pause[0]}; {spin}; done; touch done",
            f"{{ bash -c 'sleep {pause[0]}; sleep {pause[1]}'; {spin}; touch done; }} | cat",
            f"bash -c 'bash -c \"sleep {pause[0]}\"; sleep {pause[1]}; true'; {spin}; touch done",
            f"sleep {pause[0]}; {spin}; sleep {pause[1]}; {spin}; sleep {pause[2]}; touch done",
            f"sleep {pause[0]} | cat; sleep {pause[1]} & wait; (sleep {pause[2]}); touch done",
        ]
    )
    return f"touch begun; sleep {random_.uniform(1, 1.4):.3f}; {line}"


async def typed_trial(number: int, seed: int, top: Path, gate: asyncio.Semaphore) -> float | str:
    """Wait for a line that somebody typed; return how many seconds late its end was known, or a problem."""
    random_ = random.Random(f"{seed}-{number}")
    folder = top / f"{number:04d}"
    folder.mkdir()
    line = typed_line(random_)
    async with gate:
        session = await asyncio.to_thread(Session.create, f"trial_{number:04d}", folder)
        await asyncio.to_thread(session.type_line, line)
        await until((folder / "begun").exists, "the line")
        ending = await wait_for_pane(session, time.time() + 60, SystemClock())
        known_at = time.time()
        await asyncio.to_thread(session.kill)
    if ending != "idle" or not (folder / "done").exists():
        return f"trial {number}: {ending}, {line}"
    return known_at - (folder / "done").stat().st_mtime


Found = TypeVar("Found")


async def run_trials(
    count: int, seed: int, top: Path, trial: Callable[..., Awaitable[Found | None]]
) -> list[Found]:
    keeper = Session.create("ajet_keeper", top)  # else the server would come and go
    gate = asyncio.Semaphore(AT_ONCE)
    found = await asyncio.gather(*(trial(number, seed, top, gate) for number in range(count)))
    keeper.kill()
    return [problem for problem in found if problem]


async def run_typed_trials(count: int, top: Path) -> None:
    """Of lines typed into a shell: no false exit, and the end known soon."""
    found: list[float | str] = await run_trials(count, 3, top, typed_trial)
    late = sorted(one for one in found if isinstance(one, float))
    p50, p99 = (late[len(late) * percent // 100] for percent in (50, 99))
    print(f"{len(late)} ends known after p50 {p50:.3f} s, p99 {p99:.3f} s, worst {late[-1]:.3f} s")
    assert [one for one in found if isinstance(one, str)] == []
    assert p50 < SETTLE_S


async def test_no_false_exit_in_a_sample(tmp_path: Path) -> None:
    assert await run_trials(30, 1, tmp_path, trial) == []


SHELLS = [shell for shell in ("dash", "bash", "zsh") if shutil.which(shell)]


@pytest.mark.parametrize("shell", SHELLS)
async def test_no_false_exit_of_typed_lines_in_a_sample(
    tmp_path: Path, shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", shutil.which(shell) or "")
    await run_typed_trials(12, tmp_path)


@pytest.mark.soak
async def test_no_false_exit_in_a_thousand(tmp_path: Path) -> None:
    assert await run_trials(1000, 2, tmp_path, trial) == []


@pytest.mark.soak
@pytest.mark.parametrize("shell", SHELLS)
async def test_no_false_exit_of_typed_lines_in_a_thousand(
    tmp_path: Path, shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", shutil.which(shell) or "")
    await run_typed_trials(1000, tmp_path)
