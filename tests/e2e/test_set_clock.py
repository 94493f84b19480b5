"""The clock of the whole machine is set by hours while a run is under way, watched or not: a limit counts the
time that passes, and nothing is waited for that is over. `make soak` does all of them."""

import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.journal import events_of
from harness.journal.events import Paused
from tests.e2e.bench import Bench, until
from tests.e2e.short_run import TRAIN
from tests.e2e.trials import often, try_all
from tools.chaos_machine import Machine

HOUR_S = 3600


@dataclass(frozen=True)
class Case:
    """What happens when the log of the first attempt shows a text: `+5` or `-5` sets the clock so many
    hours ahead, `kill` kills the harness, `kill all` everything, `resume` goes on. `passed_s`: the least and
    the most that the run may take; `paused_s`: the most that it may pause."""

    name: str
    story: tuple[tuple[str, str], ...]
    command: str = "python train.py 10 0.3"
    outcome: str = "succeeded"
    attempts: int = 1
    max_time: str = "10 minutes"
    passed_s: tuple[float, float] = (0.0, 60.0)
    paused_s: float = 2.0


FAILS_ONCE = "python train.py 10 0.3 fail-once"
FAILS_THEN_ENDLESS = "python train.py 2000 0.3 fail-once"
LIMIT: dict[str, Any] = {"outcome": "timed_out", "max_time": "20 seconds", "passed_s": (15.0, 60.0)}
CASES = [
    Case("ahead before a retry", (("step=2 ", "+5"),), FAILS_ONCE, attempts=2),
    Case(
        "killed, back, and a retry that has no end",
        (("step=2 ", "kill"), ("step=2 ", "-5"), ("step=2 ", "resume")),
        FAILS_THEN_ENDLESS,
        attempts=2,
        **LIMIT,
    ),
    Case("back, and a retry that has no end", (("step=2 ", "-5"),), FAILS_THEN_ENDLESS, attempts=2, **LIMIT),
    Case("ahead, and a retry that has no end", (("step=2 ", "+5"),), FAILS_THEN_ENDLESS, attempts=2, **LIMIT),
    Case("back before a retry", (("step=2 ", "-5"),), FAILS_ONCE, attempts=2),
    Case("ahead", (("step=2 ", "+5"),)),
    Case("back", (("step=2 ", "-5"),)),
    Case("ahead, then killed", (("step=2 ", "+5"), ("step=3 ", "kill"), ("step=5 ", "resume"))),
    Case("killed, then back", (("step=2 ", "kill"), ("step=3 ", "-5"), ("step=5 ", "resume"))),
    Case(
        "killed, ahead, and a retry",
        (("step=2 ", "kill"), ("step=2 ", "+5"), ("LeaseTakenError", "resume")),
        FAILS_ONCE,
        attempts=2,
    ),
    Case(
        "everything killed, then back",
        (("step=2 ", "kill all"), ("step=2 ", "-5"), ("step=2 ", "resume")),
        attempts=2,
        passed_s=(0.0, 120.0),
        paused_s=60.0,
    ),
    Case("a storm", tuple((f"step={step} ", hours) for step, hours in enumerate(["+5", "-5"] * 5, start=1))),
]


def strike(machine: Machine, bench: Bench, life: subprocess.Popen[bytes], what: str) -> None:
    if what == "kill":
        life.kill()
        life.wait()
    elif what == "kill all":
        machine.kill_everything()
        life.wait()
    elif what != "resume":
        machine.set_clock(int(what) * HOUR_S)


@often(2, 0)
def test_the_clock_of_the_machine_is_set(tmp_path: Path, count: int) -> None:
    """Some of them, and in `make soak` (0) every one."""
    cases = CASES[:count] if count else CASES

    def trial(number: int) -> None:
        case = cases[number]
        (tmp_path / str(number)).mkdir()
        machine = Machine(tmp_path / str(number))
        if "clock" in machine.missing:
            pytest.skip(machine.missing["clock"])
        try:
            play(machine, case)
        finally:
            machine.close()

    try_all([case.name for case in cases], trial)


def play(machine: Machine, case: Case) -> None:
    bench = Bench(machine.top / "run")
    bench.script("train.py", TRAIN)
    bench.plan(case.command, max_time=case.max_time)
    output = machine.top / "output.txt"
    begun = time.monotonic()
    life = machine.start("run", str(bench.blueprint), output=output)
    for text, what in case.story:
        until(lambda text=text: text in bench.log(), text)
        strike(machine, bench, life, what)
        if what == "resume":
            life = machine.start("resume", str(bench.result_dir), output=output)
    life.wait(case.passed_s[1] + 60)
    passed_s = time.monotonic() - begun
    flag = bench.flag
    assert (flag["outcome"], flag["attempts"]) == (case.outcome, case.attempts), flag["reason"]
    assert case.passed_s[0] <= passed_s <= case.passed_s[1]
    starts = Counter((bench.codebase / "starts").read_text().split())
    assert set(starts.values()) == {1}, starts
    entries = bench.entries()
    times = [entry.time for entry in entries]
    assert times == sorted(times) and times[-1] - times[0] < case.passed_s[1]
    assert sum(pause.paused_s for pause in events_of(entries, Paused)) < case.paused_s
