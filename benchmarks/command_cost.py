"""What a command costs before it does anything: CPU and wall seconds of `harness` among many runs.

    python -m benchmarks.command_cost [--runs 300] [--repeats 5] [--harness /other/checkout]

Makes real runs (a training of one second), copies one until there are `--runs` of them, and measures each
command in a process of its own, `--repeats` times. The row `run` is a whole run, its training not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PLAN = """## [exp_purpose]
What does a run cost?
## [exp_launch_command]
`python train.py`
## [exp_max_time]
5 minutes
"""
TRAIN = """import time
for step in range(1, 101):
    print(f"step={step} loss={1 / step:.4f} val_loss={1.1 / step:.4f} acc={1 - 1 / step:.3f}", flush=True)
    time.sleep(0.01)
"""
START = "import sys; sys.path[:1] = []; from harness.cli.app import main; main()"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--harness", type=Path, default=Path(__file__).resolve().parents[1])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its byte code, too
        os.environ |= {
            "PYTHONPATH": str(asked.harness),
            "HOME": name,
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "SHELL": "/bin/sh",
            "AJET_TMUX_SOCKET": f"ajet-cost-{os.getpid()}",
        }
        try:
            _measure(folder, asked.runs, asked.repeats)
        finally:
            subprocess.run(
                ["tmux", "-L", os.environ["AJET_TMUX_SOCKET"], "kill-server"],
                capture_output=True,
                check=False,
            )


def _measure(folder: Path, runs: int, repeats: int) -> None:
    (folder / "plan.md").write_text(PLAN)
    (folder / "train.py").write_text(TRAIN)
    print(f"{'command':<12} {'CPU s':>7} {'wall s':>7}   (medians of {repeats}, {runs} runs in the index)")
    _cost(folder, "run", "plan.md")  # writes the byte code
    run = [_cost(folder, "run", "plan.md") for _ in range(repeats)]
    _say("run", run)
    first = folder / "exp_results" / "plan"
    index = folder / "state" / "harness" / "runs.jsonl"
    with index.open("a") as file:
        for number in range(runs - len(index.read_text().splitlines())):
            copy = first.with_name(f"copy-{number:03d}")
            shutil.copytree(first, copy)
            entry = {"experiment_id": f"{number:012x}", "name": copy.name, "result_dir": str(copy)}
            file.write(json.dumps(entry | {"created_at": time.time(), "kind": "run"}) + "\n")
    commands = ("--help", "check plan.md", "ls", "show copy-007", "logs copy-007", "report copy-007")
    for command in commands:
        _say(command, [_cost(folder, *command.split()) for _ in range(repeats)])


def _cost(folder: Path, *words: str) -> tuple[float, float]:
    """CPU seconds of the command and what it waited for, and wall seconds."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [sys.executable, "-c", START, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"harness {' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, took


def _say(command: str, costs: list[tuple[float, float]]) -> None:
    cpu, wall = (statistics.median(each) for each in zip(*costs, strict=True))
    print(f"{command.split()[0]:<12} {cpu:>7.2f} {wall:>7.2f}", flush=True)


if __name__ == "__main__":
    main()
