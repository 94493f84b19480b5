"""How soon a waiter knows that a command has ended, and what waiting costs, beside polling tmux every 2
seconds.

Starts many tmux sessions, each with a supervised command that ends at a random moment, and watches all of
them twice at once: with one `monitors.wait.Waiter` per session in this process, and with the well-known
polling script (every 2 s `tmux list-panes`, finished when only shells are in the foreground) in another
process. Latency counts from the command's last act to the return. Idle CPU is measured while nothing ends,
long enough for what happens only every half minute.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from _claim import Row, parser, publish

from monitors.alarms import until
from monitors.files import AttemptFiles
from monitors.launch import LaunchSpec, launch
from monitors.tmux import SOCKET_VARIABLE, Session
from monitors.wait import Waiter, WakeReason

POLL_S = 2.0
SHELLS = {"bash", "zsh", "sh", "fish", "csh", "tcsh", "ksh", "dash", "ash"}
GOAL_P99_MS = 100.0
SETTLE_S = 3.0


@dataclass(frozen=True)
class Result:
    """One run. Latencies in ms; CPU in percent of one core, for all sessions together."""

    p50_ms: float
    p99_ms: float
    worst_ms: float
    idle_cpu: float
    supervisors_cpu: float
    wrong_status: int
    false_exits: int
    peer_p50_ms: float
    peer_p99_ms: float
    peer_idle_cpu: float
    peer_false_exits: int


@dataclass(frozen=True)
class Watched:
    """One session under watch, the status it will end with, and the file that will say when."""

    session: Session
    files: AttemptFiles
    status: int
    folder: Path

    def ended_at(self) -> float:
        return float((self.folder / "end").read_text())


def start(number: int, top: Path) -> Watched:
    """Launch a command that waits to be told how long it shall live."""
    folder = top / f"{number:03d}"
    folder.mkdir()
    os.mkfifo(folder / "delay")
    name, status = f"ajet_latency_{number:03d}", number % 200
    command = f"echo ready; read delay < delay; sleep $delay; echo $EPOCHREALTIME > end; exit {status}"
    spec = LaunchSpec(folder / "01", f"latency-{number}", name, command, folder)
    return Watched(launch(spec), AttemptFiles(spec.attempt_dir), status, folder)


def cpu_seconds(pids: list[int]) -> float:
    """Return the CPU time these processes have used so far, to the nanosecond."""
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids) / 1e9


def percentile(values: list[float], percent: float) -> float:
    """Return the nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


async def run(count: int, idle_s: float, spread_s: float, top: Path) -> Result:
    """Watch `count` sessions, ours and the peer side by side."""
    watched = [start(number, top) for number in range(count)]
    for one in watched:
        await command_runs(one)
    infos = [info for one in watched if (info := one.files.supervisor())]
    pids = [pid for info in infos for pid in (info.pid, info.guardian_pid, info.front_pid) if pid]
    waits = [asyncio.ensure_future(wake(one)) for one in watched]
    names = [one.session.name for one in watched]
    peer = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, "--peer", str(SETTLE_S + idle_s), *names), stdout=asyncio.subprocess.PIPE
    )
    for one in watched:
        delay = SETTLE_S + idle_s + random.uniform(0.5, spread_s)
        (one.folder / "delay").write_text(f"{delay:.3f}\n")
    await asyncio.sleep(SETTLE_S)
    ours, theirs = time.process_time(), cpu_seconds(pids)
    await asyncio.sleep(idle_s)
    ours, theirs = time.process_time() - ours, cpu_seconds(pids) - theirs
    wakes = await asyncio.gather(*waits)
    output, _ = await peer.communicate()
    polled = json.loads(output)
    latencies = [(at - one.ended_at()) * 1000 for one, (at, _) in zip(watched, wakes, strict=True)]
    polls = [(polled["at"][one.session.name] - one.ended_at()) * 1000 for one in watched]
    late = [value for value in polls if value >= 0]
    return Result(
        p50_ms=statistics.median(latencies),
        p99_ms=percentile(latencies, 99),
        worst_ms=max(latencies),
        idle_cpu=100 * ours / idle_s,
        supervisors_cpu=100 * theirs / idle_s,
        wrong_status=sum(status != one.status for one, (_, status) in zip(watched, wakes, strict=True)),
        false_exits=sum(value < 0 for value in latencies),
        peer_p50_ms=statistics.median(late),
        peer_p99_ms=percentile(late, 99),
        peer_idle_cpu=100 * polled["cpu_s"] / idle_s,
        peer_false_exits=sum(value < 0 for value in polls),
    )


async def command_runs(one: Watched) -> None:
    """Return when the command has said that it waits for its delay."""
    log = one.files.pane_log
    await asyncio.wait_for(until(lambda: log.exists() and b"ready" in log.read_bytes(), log), 60)


async def wake(one: Watched) -> tuple[float, int | None]:
    """Wait for one session's end; return when it was known, and the status."""
    ending = await Waiter(one.files, one.session).wait(timeout=3600)
    assert ending.reason == WakeReason.EXITED, ending
    return time.time(), ending.exit.status if ending.exit else None


async def poll_like_the_script(names: list[str], idle_ends_s: float) -> None:
    """Be the peer: poll every session every 2 s; print when each was found finished, and the CPU used
    idling."""

    async def poll(name: str) -> None:
        while True:
            process = await asyncio.create_subprocess_exec(
                *("tmux", "-L", os.environ[SOCKET_VARIABLE]),
                *("list-panes", "-F", "#{pane_current_command}", "-t", name),
                stdout=asyncio.subprocess.PIPE,
            )
            output, _ = await process.communicate()
            if process.returncode or set(output.decode().split()) <= SHELLS:
                found[name] = time.time()
                return
            await asyncio.sleep(POLL_S)

    def used() -> float:
        usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(usage.ru_utime + usage.ru_stime for usage in usages)

    found: dict[str, float] = {}
    polls = [asyncio.ensure_future(poll(name)) for name in names]
    await asyncio.sleep(SETTLE_S)
    before = used()
    await asyncio.sleep(idle_ends_s - SETTLE_S)
    cpu_s = used() - before
    await asyncio.gather(*polls)
    print(json.dumps({"at": found, "cpu_s": cpu_s}))


def rows(results: list[Result], count: int) -> list[Row]:
    """Return the table's rows: medians over the runs."""

    def middle(name: str) -> float:
        return statistics.median(getattr(result, name) for result in results)

    def total(name: str) -> str:
        return f"{sum(getattr(result, name) for result in results)} of {count * len(results)}"

    return [
        Row("exit to wake, p50", f"{middle('p50_ms'):.1f} ms", "", f"{middle('peer_p50_ms'):.0f} ms"),
        Row(
            "exit to wake, p99",
            f"{middle('p99_ms'):.1f} ms",
            f"< {GOAL_P99_MS:.0f} ms",
            f"{middle('peer_p99_ms'):.0f} ms",
        ),
        Row("exit to wake, worst", f"{max(result.worst_ms for result in results):.1f} ms", "", ""),
        Row("false exits", total("false_exits"), "0", total("peer_false_exits")),
        Row("wrong exit status", total("wrong_status"), "0", "never known"),
        Row(
            f"CPU idle, {count} waits (of one core)",
            f"{middle('idle_cpu'):.2f} %",
            "",
            f"{middle('peer_idle_cpu'):.1f} %",
        ),
        Row(
            f"CPU idle, {count} times beside a training",
            f"{middle('supervisors_cpu'):.2f} %",
            "",
            "none",
        ),
    ]


def main() -> None:
    options = parser(__doc__, quick="20 sessions, once")
    options.add_argument("--peer", nargs="+", help=argparse.SUPPRESS)
    arguments = options.parse_args()
    if arguments.peer:
        asyncio.run(poll_like_the_script(arguments.peer[1:], float(arguments.peer[0])))
        return
    count, idle_s, spread_s, repeats = (20, 10.0, 6.0, 1) if arguments.quick else (100, 90.0, 30.0, 3)
    results = []
    for _ in range(repeats):
        socket = f"latency-{uuid.uuid4().hex[:8]}"
        os.environ[SOCKET_VARIABLE] = socket
        with tempfile.TemporaryDirectory() as top:
            os.environ["XDG_STATE_HOME"] = top
            try:
                results.append(asyncio.run(run(count, idle_s, spread_s, Path(top))))
            finally:
                subprocess.run(["tmux", "-L", socket, "kill-server"], check=False)
    title = f"{count} tmux sessions watched at once; peer: polling each every {POLL_S:.0f} s"
    publish(title, rows(results, count), arguments, [asdict(result) for result in results])


if __name__ == "__main__":
    main()
