"""A sweep over a small training of one's own: its reward is 0.3, plus 0.2 for the larger rate, plus noise
that only the seed decides; the note does nothing. What it is told to do wrong stands in `faults`, by run."""

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

from harness import journal
from harness.sweep.state import SweepState, load_state
from tests.e2e.bench import Bench

NAME = "trial-sweep"
TRAIN = """
import argparse, os, pathlib, random, sys, time
parser = argparse.ArgumentParser()
for name, kind in (("lr", float), ("note", str), ("seed", int), ("steps", int), ("pause", float)):
    parser.add_argument(f"--{name}", type=kind)
given = parser.parse_args()
attempt = pathlib.Path(os.environ["HARNESS_ATTEMPT_DIR"])
run = attempt.parents[1].name
with open(os.environ["STARTS"], "a") as starts:
    starts.write(f"{run}/{attempt.name}\\n")
fault = pathlib.Path(os.environ["FAULTS"], run)
noise = random.Random(given.seed).gauss(0, 0.02)
for step in range(1, given.steps + 1):
    reward = 0.1 + (0.2 + (0.2 if given.lr > 0.15 else 0.0) + noise) * step / given.steps
    print(f"step={step} loss={1 / step:.4f} reward={reward:.4f}", flush=True)
    time.sleep(given.pause)
    if step == 2 and fault.exists():
        if fault.read_text() == "for good":
            raise ValueError("the reward function got an answer it does not know")
        if attempt.name == "01":
            raise ConnectionResetError(104, "Connection reset by peer")
"""


class SweepBench(Bench):
    """One sweep in `folder`. `faults`: run to "once" or "for good"."""

    def __init__(self, folder: Path, faults: dict[str, str], steps: int = 4, pause: float = 0.05) -> None:
        super().__init__(folder)
        self.dir = folder / "results" / NAME
        self.script("train.py", TRAIN)
        self.plan(f"python train.py --lr 0.1 --note plain --seed 0 --steps {steps} --pause {pause}")
        self.starts_file = folder / "starts"
        folder = folder / "faults"
        folder.mkdir()
        for run, fault in faults.items():
            (folder / run).write_text(fault)
        self.env = {"STARTS": str(self.starts_file), "FAULTS": str(folder), "SHELL": "/bin/sh"}

    def arguments(self, *vary: str, seeds: int, parallel: int = 2) -> list[str]:
        """The command line of the sweep."""
        keys = [word for key in vary for word in ("--vary", key)]
        more = ("--seeds", str(seeds), "--seed-key", "arg:--seed", "--metric", "reward")
        name = ("--parallel", str(parallel), "--set", f"name={NAME}", "--policy", "playbook")
        return ["sweep", str(self.blueprint), *keys, *more, *name]

    @property
    def sweep_state(self) -> SweepState:
        return load_state(self.dir)

    @property
    def comparison(self) -> dict[str, Any]:
        return dict(json.loads((self.dir / "sweep.json").read_text())["comparison"])

    def starts(self) -> Counter[str]:
        """How often each attempt of each run was started."""
        return Counter(self.starts_file.read_text().split()) if self.starts_file.exists() else Counter()

    def kill_leader(self) -> bool:
        """SIGKILL whoever leads the sweep now; whether somebody did."""
        path = self.dir / "sweep.jsonl"
        if not journal.is_owned(path):
            return False
        os.kill(journal.last_owner(path).pid, signal.SIGKILL)
        return True
