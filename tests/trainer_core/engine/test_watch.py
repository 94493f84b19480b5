"""Calls of workers that do not answer: who is waited for, and what is told of those that are not."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainer_core.engine.verl.watch import Place, Sight, WatchedGroup, WatchedWorker, look_at
from trainer_core.types import TrainingError

PLACES = [Place("node", "host", 10 + rank, 3, 4) for rank in range(3)]
CHILD = """
import faulthandler, os, signal, time
stacks, steps = os.memfd_create("stacks"), os.memfd_create("steps")
faulthandler.register(signal.SIGUSR1, file=stacks)
os.write(steps, b"...")
def stuck():
    print(stacks, steps, flush=True)
    time.sleep(600)
stuck()
"""


class Group:
    """Answers `work` when it is let."""

    def __init__(self) -> None:
        self.lets = threading.Event()

    def place(self) -> list[Place]:
        return PLACES

    def work(self, asked: int) -> int:
        self.lets.wait()
        return asked + 1

    def fail(self) -> None:
        raise TimeoutError("its own")


@pytest.fixture
def group() -> Iterator[Group]:
    made = Group()
    yield made
    made.lets.set()


def test_workers_without_progress_are_given_up_and_told_one_by_one(group: Group, tmp_path: Path) -> None:
    seen = [
        Sight(5, "running", 'File "a", line 1 in work\n'),
        Sight(5, "stopped", ""),
        Sight(7, "sleeping", "x"),
    ]
    watched = WatchedGroup(group, 0.2, tmp_path / "verl.log", lambda places, wants_stacks: seen)
    states = "rank 0 waits in work; rank 1 is stopped; rank 2 has nothing to do"
    with pytest.raises(TrainingError, match=f"not answered work for .*worker_timeout = 0.2 s: {states}"):
        watched.work(1)
    assert (
        "rank 1, process 11 on host, in work: stopped\nit writes no stacks"
        in (tmp_path / "verl.log").read_text()
    )


def test_workers_with_progress_are_waited_for(group: Group, tmp_path: Path) -> None:
    looks: list[int] = []

    def look(places: Any, wants_stacks: bool) -> list[Sight]:
        looks.append(len(looks))
        if len(looks) == 12:  # three limits
            group.lets.set()
        return [Sight(looks[-1], "", "")]

    assert WatchedGroup(group, 0.2, tmp_path / "verl.log", look).work(1) == 2
    assert len(looks) >= 12


def test_what_they_raise_is_raised(group: Group, tmp_path: Path) -> None:
    with pytest.raises(TimeoutError, match="its own"):
        WatchedGroup(group, 9.0, tmp_path / "verl.log").fail()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_is_seen_from_beside_it() -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        place = Place("node", "host", child.pid, *map(int, child.stdout.readline().split()))
        assert look_at(place, False) == Sight(3, "", "")
        assert "in stuck" in look_at(place, True).stacks
        child.send_signal(signal.SIGSTOP)
        assert look_at(place, True).state == "stopped"
        child.kill()
    assert look_at(place, False).steps == -1


def test_the_worker_of_this_process_writes_its_stacks(tmp_path: Path) -> None:
    def slow() -> str:
        time.sleep(0.5)
        return "done"

    with (tmp_path / "verl.log").open("w") as log:
        worker = WatchedWorker(SimpleNamespace(slow=slow, quick=lambda: 1), 0.2, log)
        assert worker.quick() == 1 and worker.slow() == "done"
    assert "in slow" in (tmp_path / "verl.log").read_text()
