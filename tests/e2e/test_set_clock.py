"""The machine's clock is set while a run trains: no limit and no pause changes, killed and resumed or not."""

import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from harness.journal import events_of
from harness.journal.events import Paused
from tests.e2e.bench import until
from tests.e2e.short_run import PATIENCE_S, ShortRun

HOURS_5 = 5 * 3600
HARNESS = [sys.executable, "-c", "from harness.cli.app import main; main()"]
CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, now);
    FILE *file = id == CLOCK_REALTIME ? fopen(AHEAD, "r") : 0;
    long ahead = 0;
    if (file && fscanf(file, "%ld", &ahead) == 1) now->tv_sec += ahead;
    if (file) fclose(file);
    return result;
}
"""
"""In every process of a run, CLOCK_REALTIME is ahead by the seconds in a file."""


@pytest.fixture
def clock(tmp_path: Path) -> Path:
    """The library, beside the file `ahead`."""
    made = tmp_path / "clock.so"
    define = f'-DAHEAD="{tmp_path / "ahead"}"'
    build = ["cc", "-shared", "-fPIC", define, "-x", "c", "-", "-o", str(made), "-ldl"]
    try:
        subprocess.run(build, input=CLOCK, text=True, check=True)
    except OSError as error:
        pytest.skip(f"no C compiler for a clock that can be set: {error}")
    return made


@pytest.mark.parametrize("is_killed", [False, True], ids=["watched", "killed"])
@pytest.mark.parametrize(
    ("set_by", "steps", "max_time", "outcome"),
    [(HOURS_5, 8, "10 minutes", "succeeded"), (-HOURS_5, 2000, "15 seconds", "timed_out")],
)
def test_a_clock_that_is_set_before_a_retry_changes_no_limit(
    tmp_path: Path, clock: Path, set_by: int, steps: int, max_time: str, outcome: str, is_killed: bool
) -> None:
    with ShortRun(tmp_path / "run", f"python train.py {steps} 0.5 fail-once", max_time=max_time) as run:
        environment = {**os.environ, **run.env, "LD_PRELOAD": str(clock)}

        def harness(*arguments: str) -> subprocess.Popen[bytes]:
            return subprocess.Popen([*HARNESS, *arguments], env=environment, cwd=run.folder)

        began = time.monotonic()
        life = harness("run", str(run.blueprint))
        until(lambda: "step=2 " in run.log(), "step 2")
        (tmp_path / "ahead").write_text(str(set_by))
        if is_killed:
            life.kill()
            life.wait()
            life = harness("resume", str(run.result_dir))
        assert life.wait(PATIENCE_S) == {"succeeded": 0, "timed_out": 3}[outcome]
        assert run.flag["outcome"] == outcome and run.starts() == {"01": 1, "02": 1}
        assert time.monotonic() - began < 60.0
        entries = run.entries()
        assert 0 < entries[-1].time - entries[0].time < 60.0
        assert all(one.time <= other.time for one, other in pairwise(entries))
        assert sum(pause.paused_s for pause in events_of(entries, Paused)) < 2.0
