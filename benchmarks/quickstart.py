"""Claim: the quickstart's reinforcement learning works on every seed, on a CPU, within three minutes.

Runs `blueprints/quickstart/config.yaml` once per seed with an empty cache (so the warm-up is part of the
time) and compares validation before and after. Intervals are 95 %, clustered by task: the mean over tasks of
each task's mean success, ± 1.96 standard errors.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path

from _claim import Row, parser, publish

CONFIG = Path(__file__).resolve().parent.parent / "blueprints" / "quickstart" / "config.yaml"
PEER_END = ".884 to .947 on 5 seeds (probe script, same task and algorithm)"
PEER_WALL = "80 to 86 s wall, 41 to 43 s CPU (the same probe, a loaded machine)"


@dataclass(frozen=True)
class Interval:
    """A pass rate with its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class Trained:
    """One training run."""

    seed: int
    start: Interval
    end: Interval
    wall_s: float
    cpu_s: float

    @property
    def improved(self) -> bool:
        """At least 0.3 better, with disjoint intervals."""
        return self.end.mean - self.start.mean >= 0.3 and self.end.low > self.start.high

    def as_json(self) -> dict[str, object]:
        """Everything measured."""
        return asdict(self) | {"improved": self.improved}


def run_seed(seed: int, *overrides: str) -> Trained:
    """Train the quickstart with this seed in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="ajet-benchmark-") as place:
        command = [sys.executable, "-m", "trainer_core.cli", "--conf", str(CONFIG), "--exp-dir", place]
        words = [f"ajet.trainer_common.seed={seed}", "ajet.experiment_name=run", *overrides]
        environment = {**os.environ, "XDG_CACHE_HOME": f"{place}/cache", "OMP_NUM_THREADS": "1"}
        log = Path(place) / "console.log"
        begin = time.perf_counter()
        with log.open("w") as console:
            process = subprocess.Popen(
                command + words,
                stdout=console,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=CONFIG.parents[2],
            )
            _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        if status != 0:
            sys.exit(
                f"seed {seed} failed with status "
                f"{os.waitstatus_to_exitcode(status)}:\n{log.read_text()[-3000:]}"
            )
        rates = _pass_rates(Path(place) / "run" / "validation.jsonl")
        return Trained(seed, rates[min(rates)], rates[max(rates)], wall, usage.ru_utime + usage.ru_stime)


def _pass_rates(path: Path) -> dict[int, Interval]:
    """pass@1 of every validation, by step."""
    by_step: dict[int, list[float]] = defaultdict(list)
    for line in path.read_text().splitlines():
        row = json.loads(line)
        by_step[row["step"]].append(statistics.fmean(row["successes"]))
    return {step: _interval(per_task) for step, per_task in by_step.items()}


def _interval(per_task: list[float]) -> Interval:
    mean = statistics.fmean(per_task)
    half = 1.96 * statistics.stdev(per_task) / math.sqrt(len(per_task))
    return Interval(mean, mean - half, mean + half)


def main() -> None:
    """Run every seed and publish."""
    options = parser(__doc__, quick="one seed, 80 steps").parse_args()
    seeds = [0] if options.quick else [0, 1, 2]
    overrides = ["ajet.trainer_common.total_training_steps=80"] if options.quick else []
    runs = [run_seed(seed, *overrides) for seed in seeds]

    goal = "+0.3, disjoint; end 0.85"
    rows = [Row(f"seed {run.seed}, start → end", f"{run.start} → {run.end}", goal, PEER_END) for run in runs]
    rows.append(Row("seeds improved", f"{sum(run.improved for run in runs)} of {len(runs)}", "all", "5 of 5"))
    wall = statistics.median(run.wall_s for run in runs)
    cpu = statistics.median(run.cpu_s for run in runs)
    took = f"{wall:.0f} s wall, {cpu:.0f} s CPU"
    rows.append(Row("warm-up + training, median", took, "180 s, aim 90 s", PEER_WALL))
    longest = f"{max(run.wall_s for run in runs):.0f} s wall"
    rows.append(Row("warm-up + training, longest", longest, "180 s", ""))
    raw = [run.as_json() for run in runs]
    publish("quickstart: sort five digits, pass@1 on unseen questions", rows, options, raw)


if __name__ == "__main__":
    main()
