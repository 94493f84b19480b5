"""How well a sweep's queue keeps a machine busy, beside a scheduler that looks every 2 seconds.

The real leader, with its real journal on a real disk, carries a thousand runs over fifty slots; only the
runs are timers instead of trainings, with heavy-tailed durations (lognormal, mean about 2 s, seeded). The
peer starts the same runs on as many slots, at the same time in the same process: it looks every 2 s which
have ended, and writes nothing. Latency: from the end of a run that frees a slot to the start of the run that
takes it. Utilisation: busy slot-seconds from the first start on until the queue is empty.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from _claim import Row, parser, publish

from harness.sweep.hosts import Job
from harness.sweep.plan import CANARY
from harness.sweep.scheduler import Scheduler
from tests.harness.sweep.plans import begun, plan
from tests.harness.sweep.scripted_host import ScriptedHost, ends

RESULTS = Path(__file__).resolve().parents[1] / "exp_results"
POLL_S = 2.0
MEAN_S, SPREAD = 2.0, 1.0  # of the durations: their mean, and the standard deviation of their logarithm
CANARY_S = 0.05
SEEDS = 4
GOAL_UTILISATION = 98.0
GOAL_P99_MS = 50.0
GOAL_MB = 200.0


@dataclass(frozen=True)
class Span:
    """When a run was started and when it ended, in seconds."""

    start: float
    end: float


@dataclass(frozen=True)
class Use:
    """What a scheduler made of its slots. Latencies in ms, utilisation in percent."""

    utilisation: float
    p50_ms: float
    p99_ms: float
    queue_empty_s: float


@dataclass(frozen=True)
class Result:
    """One repeat. `most`: runs at once; `lost`: runs without a recorded end."""

    ours: Use
    peer: Use
    twice: int
    lost: int
    most: int
    cpu_s: float


def duration_of(seed: int) -> Callable[[str], float]:
    """The seconds that a run takes, the same for both schedulers."""
    middle = MEAN_S / 2.718281828459045 ** (SPREAD**2 / 2)

    def seconds(run: str) -> float:
        return (
            CANARY_S if run == CANARY else middle * random.Random(f"{seed} {run}").lognormvariate(0, SPREAD)
        )

    return seconds


def use(spans: Sequence[Span], slots: int) -> Use:
    """Utilisation and latency: the k-th end frees the slot that start number `slots` + k takes."""
    starts, ends = sorted(span.start for span in spans), sorted(span.end for span in spans)
    begin, empty = starts[0], starts[-1]
    busy = sum(min(span.end, empty) - span.start for span in spans)
    waits = [1000 * (start - end) for start, end in zip(starts[slots:], ends, strict=False)]
    return Use(
        utilisation=100 * busy / (slots * (empty - begin)),
        p50_ms=statistics.median(waits),
        p99_ms=sorted(waits)[min(len(waits) - 1, int(len(waits) * 0.99))],
        queue_empty_s=empty - begin,
    )


async def poll(runs: Sequence[str], slots: int, seconds: Callable[[str], float]) -> list[Span]:
    """Be the peer: every 2 s see which runs have ended, and start as many others."""
    spans: list[Span] = []
    waiting = list(reversed(runs))
    while waiting:
        now = time.perf_counter()
        free = slots - sum(span.end > now for span in spans)
        for _ in range(min(free, len(waiting))):
            spans.append(Span(now, now + seconds(waiting.pop())))
        await asyncio.sleep(POLL_S)
    return spans


def _measured(job: Job) -> int | None:
    """The job brings its run to an end, with a result."""
    end = ends()(job)
    facts = [{"id": "key/pass_rate_end", "value": 0.5}]
    (job.result_dir / "result.json").write_text(json.dumps({"facts": facts}))
    return end


async def run(points: int, slots: int, seed: int, folder: Path) -> Result:
    """Both schedulers, once."""
    planned = plan(points, SEEDS, parallel=slots)
    sweep = begun(folder, planned)
    seconds = duration_of(seed)
    host = ScriptedHost(
        room_for=slots, seconds=seconds, plays={run.name: [_measured] for run in planned.runs}
    )
    cpu = time.process_time()
    peer = asyncio.ensure_future(poll([run.name for run in planned.runs], slots, seconds))
    await Scheduler(sweep, host, dict, None).run()
    cpu = time.process_time() - cpu
    sweep.close()
    lives = [life for life in host.lives.values() if life.job.run != CANARY]
    counts = Counter(life.job.run for life in lives)
    ours = [Span(life.started_at, life.ended_at) for life in lives if life.ended_at is not None]
    return Result(
        ours=use(ours, slots),
        peer=use(await peer, slots),
        twice=len(host.twice) + sum(count - 1 for count in counts.values()),
        lost=sum(counts[run.name] == 0 for run in planned.runs) + len(sweep.state.of("queued")),
        most=host.most,
        cpu_s=cpu,
    )


def rows(results: Sequence[Result], runs: int, slots: int, peak_mb: float) -> list[Row]:
    """The table's rows: medians over the repeats."""

    def middle(of: Callable[[Result], float]) -> float:
        return statistics.median(of(result) for result in results)

    def both(what: str, of: Callable[[Use], float], shown: Callable[[float], str], goal: str) -> Row:
        ours, peer = middle(lambda result: of(result.ours)), middle(lambda result: of(result.peer))
        return Row(what, shown(ours), goal, shown(peer))

    of_all = f"of {runs * len(results)}"
    most = max(result.most for result in results)
    return [
        both(
            "slot utilisation", lambda use: use.utilisation, "{:.1f} %".format, f"≥ {GOAL_UTILISATION:.0f} %"
        ),
        both("slot freed to next start, p50", lambda use: use.p50_ms, "{:.1f} ms".format, ""),
        both(
            "slot freed to next start, p99",
            lambda use: use.p99_ms,
            "{:.1f} ms".format,
            f"< {GOAL_P99_MS:.0f} ms",
        ),
        both("until the queue is empty", lambda use: use.queue_empty_s, "{:.1f} s".format, ""),
        Row("started twice", f"{sum(result.twice for result in results)} {of_all}", "0", ""),
        Row("lost", f"{sum(result.lost for result in results)} {of_all}", "0", ""),
        Row("most at once", str(most), f"≤ {slots}", ""),
        Row("CPU of the leader (and the timers)", f"{middle(lambda result: result.cpu_s):.1f} s", "", ""),
        Row("peak memory of the process", f"{peak_mb:.0f} MB", f"< {GOAL_MB:.0f} MB", ""),
    ]


def main() -> None:
    options = _options()
    points, slots, repeats = (
        (10, 10, 1) if options.quick else (options.points, options.slots, options.repeats)
    )
    results = []
    for seed in range(repeats):
        with tempfile.TemporaryDirectory(dir=options.disk) as folder:
            results.append(asyncio.run(run(points, slots, seed, Path(folder))))
        print(f"repeat {seed + 1} of {repeats}: {results[-1].ours}", file=sys.stderr)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1024 if sys.platform != "darwin" else 2**20
    )
    runs = points * SEEDS
    title = f"A sweep of {runs} runs on {slots} slots, medians of {repeats}; peer: looks every {POLL_S:.0f} s"
    raw = {"results": [asdict(result) for result in results], "peak_mb": peak_mb}
    publish(title, rows(results, runs, slots, peak_mb), options, raw)


def _options() -> argparse.Namespace:
    made = parser(__doc__, "40 runs, 10 slots, once")
    made.add_argument("--points", type=int, default=250, help=f"points of the sweep, {SEEDS} runs each")
    made.add_argument("--slots", type=int, default=50, help="runs at once")
    made.add_argument("--repeats", type=int, default=3)
    made.add_argument("--disk", type=Path, default=RESULTS, help="where the journal is written")
    return made.parse_args()


if __name__ == "__main__":
    main()
