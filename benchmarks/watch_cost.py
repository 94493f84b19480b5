"""What it costs to watch one training: CPU and memory of the harness, beside readers without a filter.

For logs that grow by 50 kB/s and by 1 MB/s (`_training_log.py`), twice. Real runs, side by side: `harness
run` on a foreign command with `[exp_metrics]`, its display in a pipe, measured after the first step; beside
each, on the same log, two peers: `tail -F` into the same expressions for every line, and a look at `tail -n
80` every second, as agents do it. And an hour of faked time: the waiter and the watch alone, in a process of
their own. CPU is in percent of one core, without what the machine spends on writing the log; memory is
resident.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from _claim import Row, parser, publish
from _training_log import PIECES_PER_S, pieces

from monitors.files import AttemptFiles
from monitors.logs import clean
from monitors.metrics import MetricPatterns
from monitors.metrics.parser import parse_line
from monitors.metrics_file import MetricTable
from monitors.processes import boot_id, read_process
from monitors.rules import WatchRules, is_error
from monitors.tmux import SOCKET_VARIABLE
from monitors.wait import Waiter
from monitors.watch import Watch

HERE = Path(__file__).resolve().parent
RATES = {"50 kB/s": 50_000, "1 MB/s": 1_000_000}
GOALS = {"50 kB/s": "< 1 %", "1 MB/s": "< 5 %"}
GOAL_MB = 150
SETTLE_S = 5.0
PATTERN = r"eval (?P<step>\d+) (?P<name>\S+) (?P<value>\S+)"
BLUEPRINT = """# Watched

## [exp_purpose]
See what watching costs

## [exp_codebase_dir]
{folder}

## [exp_launch_command]
```bash
{command}
```

## [exp_result_dir]
{folder}/result

## [exp_max_time]
- time: {minutes} minutes

## [exp_metrics]
- `{pattern}`
"""


@dataclass(frozen=True)
class Cost:
    """CPU in percent of one core; memory in MB: the largest, and the means of its first and last third."""

    cpu: float
    most_mb: float
    early_mb: float
    late_mb: float
    rows: int
    rows_written: int
    supervisor_cpu: float = 0.0
    every_line_cpu: float = 0.0
    glance_cpu: float = 0.0
    glance_saw: float = 0.0


def megabytes(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / 1e6


def spread(memory: list[float]) -> tuple[float, float, float]:
    """Return the largest value and the means of the first and the last third."""
    third = max(1, len(memory) // 3)
    return max(memory), statistics.fmean(memory[:third]), statistics.fmean(memory[-third:])


# --- a real run ---------------------------------------------------------------------------------------


def cpu_s(processes: list[psutil.Process]) -> float:
    """Return the CPU time of these processes and of those that they started."""
    family = [*processes, *(child for process in processes for child in process.children())]
    return sum(sum(process.cpu_times()[:4]) for process in family)


def real_run(rate: int, minutes: float, folder: Path) -> Cost:
    """Let a harness watch a training of this length, with the peers on the same log."""
    folder.mkdir()
    command = f"{sys.executable} {HERE / '_training_log.py'} {rate} enough"
    plan = BLUEPRINT.format(folder=folder, command=command, minutes=int(minutes) + 10, pattern=PATTERN)
    (folder / "watched.md").write_text(plan)
    harness = subprocess.Popen(
        [sys.executable, "-m", "harness", "run", str(folder / "watched.md")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
    )
    output: deque[bytes] = deque(maxlen=40)
    assert harness.stdout is not None
    threading.Thread(target=output.extend, args=(harness.stdout,), daemon=True).start()
    files = AttemptFiles(folder / "result" / "attempts" / "01")
    while harness.poll() is None and not (files.metrics.exists() and files.metrics.stat().st_size):
        time.sleep(0.1)
    info = files.supervisor()
    assert harness.poll() is None and info is not None, b"".join(output).decode()
    peers = [start_peer(mode, files.pane_log) for mode in ("every-line", "glance")]
    time.sleep(SETTLE_S)
    supervisors = [psutil.Process(pid) for pid in (info.pid, info.front_pid) if pid]
    watched = [[psutil.Process(harness.pid)], supervisors, *([psutil.Process(p.pid)] for p in peers)]
    begun, before = time.monotonic(), [cpu_s(each) for each in watched]
    memory = []
    while time.monotonic() - begun < 60 * minutes:
        memory.append(megabytes(watched[0][0]))
        time.sleep(1.0)
    took = time.monotonic() - begun
    ours, supervisor, every_line, glance = (
        100 * (cpu_s(each) - was) / took for each, was in zip(watched, before, strict=True)
    )
    (folder / "enough").touch()
    saw = [int(peer.communicate()[0]) for peer in peers]
    assert harness.wait() == 0, b"".join(output).decode()
    rows = len(MetricTable.read(files.metrics))
    written = sum(
        b" step:" in line or line.startswith(b"eval ") for line in files.pane_log.read_bytes().split(b"\n")
    )
    glance_saw = 100 * saw[1] / max(1, saw[0])
    return Cost(ours, *spread(memory), rows, written, supervisor, every_line, glance, glance_saw)


# --- the peers ----------------------------------------------------------------------------------------


def start_peer(mode: str, log: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, __file__, "--peer", mode, str(log)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def _end_with_the_input(process: subprocess.Popen[bytes]) -> None:
    sys.stdin.read()
    process.terminate()


def be_peer(mode: str, log: str) -> None:
    """Look at lines until standard input closes, then print how many they were."""
    pattern, seen = MetricPatterns.compile([PATTERN]), 0
    every_line = ["tail", "-n", "0", "-F", log]
    glances = ["bash", "-c", 'while sleep 1; do tail -n 80 "$0"; done', log]
    with subprocess.Popen(glances if mode == "glance" else every_line, stdout=subprocess.PIPE) as tail:
        assert tail.stdout is not None
        threading.Thread(target=_end_with_the_input, args=(tail,), daemon=True).start()
        for line in tail.stdout:
            seen += 1
            text = clean(line)
            if pattern.parse(text) is None and parse_line(text) is None:
                is_error(text)
    print(seen)


# --- an hour of faked time ----------------------------------------------------------------------------


class GrowingClock:
    """Time that passes only by waiting; the log grows with it. `writing_s`: CPU time that growing took."""

    def __init__(self, log: Path, rate: int) -> None:
        self.now = time.time()
        self.writing_s = 0.0
        self.rows = 0
        self._pieces = pieces(rate)
        self._file = log.open("ab", buffering=0)

    def time(self) -> float:
        return self.now

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end and not event.is_set():
            begun = time.process_time()
            piece, rows = next(self._pieces)
            self.now += 1 / PIECES_PER_S
            self._file.write(piece)
            os.utime(self._file.fileno(), (self.now, self.now))
            self.rows += rows
            self.writing_s += time.process_time() - begun
            await asyncio.sleep(0)


async def faked_time(rate: int, seconds: float, folder: Path) -> Cost:
    """Wait and watch for so long."""
    files = AttemptFiles(folder)
    files.started.mkdir(parents=True)
    entry = read_process(os.getpid())
    now = time.time()
    record = {"attempt_id": "a", "pid": os.getpid(), "boot_id": boot_id(), "command_started_at": now}
    record |= {"start_ticks": entry.start_ticks if entry else None}
    files.supervisor_file.write_text(json.dumps(record))
    clock = GrowingClock(files.pane_log, rate)
    watch = Watch(files, rules=WatchRules(patterns=MetricPatterns.compile([PATTERN])), clock=clock.time)
    waiter, process, memory = Waiter(files, watch=watch, clock=clock), psutil.Process(), []
    end, begun = clock.now + seconds, time.process_time()
    while clock.now < end:
        await waiter.wait(timeout=10.0)
        memory.append(megabytes(process))
    cpu = 100 * (time.process_time() - begun - clock.writing_s) / seconds
    watch.poll(final=True)
    watch.close()
    return Cost(cpu, *spread(memory), watch.rows.count, clock.rows)


def faked_run(rate: int, seconds: float, folder: Path) -> Cost:
    """`faked_time` in a process of its own."""
    command = [sys.executable, __file__, "--faked", str(rate), str(seconds), str(folder)]
    return Cost(**json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))


# --- the table ----------------------------------------------------------------------------------------


def rows(real: dict[str, Cost], faked: dict[str, Cost], minutes: float, hours: float) -> list[Row]:
    """Return the table's rows."""
    table = []
    for name, cost in real.items():
        what = f"{name}, {minutes:g} real minutes"
        peers = f"every line {cost.every_line_cpu:.2f} %, glances {cost.glance_cpu:.2f} %"
        saw = f"glances saw {cost.glance_saw:.1f} % of the lines"
        table += own_rows(what, name, cost, peers, saw)
        table.append(Row(f"{what}: supervisor and front", f"{cost.supervisor_cpu:.2f} %", "", ""))
    for name, cost in faked.items():
        table += own_rows(f"{name}, {hours:g} h faked", name, cost, "", "")
    return table


def own_rows(what: str, rate: str, cost: Cost, peers: str, saw: str) -> list[Row]:
    """Return what one process cost, and whether it found everything."""
    memory = f"{cost.most_mb:.0f} MB at most; {cost.early_mb:.1f} → {cost.late_mb:.1f} MB"
    return [
        Row(f"{what}: CPU", f"{cost.cpu:.2f} %", GOALS[rate], peers),
        Row(f"{what}: rows found", f"{cost.rows} of {cost.rows_written}", "all", saw),
        Row(f"{what}: memory, first → last third", memory, f"< {GOAL_MB} MB, constant", ""),
    ]


def main() -> None:
    options = parser(__doc__, quick="1 real minute and 6 faked ones")
    options.add_argument("--minutes", type=float, default=10.0, help="length of the real runs")
    options.add_argument("--peer", nargs=2, help=argparse.SUPPRESS)
    options.add_argument("--faked", nargs=3, help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.peer:
        be_peer(*arguments.peer)
        return
    if arguments.faked:
        rate, seconds, folder = arguments.faked
        print(json.dumps(asdict(asyncio.run(faked_time(int(rate), float(seconds), Path(folder))))))
        return
    minutes, hours = (1.0, 0.1) if arguments.quick else (arguments.minutes, 1.0)
    socket = f"watch-{uuid.uuid4().hex[:8]}"
    os.environ[SOCKET_VARIABLE] = socket
    with tempfile.TemporaryDirectory() as top, ThreadPoolExecutor() as side_by_side:
        os.environ["XDG_STATE_HOME"] = top
        try:
            runs = {
                name: side_by_side.submit(real_run, rate, minutes, Path(top) / f"real-{rate}")
                for name, rate in RATES.items()
            }
            real = {name: run.result() for name, run in runs.items()}
            faked = {
                name: faked_run(rate, 3600 * hours, Path(top) / f"faked-{rate}")
                for name, rate in RATES.items()
            }
        finally:
            subprocess.run(["tmux", "-L", socket, "kill-server"], check=False, stderr=subprocess.DEVNULL)
    raw = {"real": {n: asdict(c) for n, c in real.items()}, "faked": {n: asdict(c) for n, c in faked.items()}}
    publish("the cost of watching one training", rows(real, faked, minutes, hours), arguments, raw)


if __name__ == "__main__":
    main()
