"""What goes through the faults: a run with one of several endings, or a sweep; and what must be true of it
when it is over. Its whole schedule follows from the seed and its number.
"""

import hashlib
import json
import random
import re
import signal
import subprocess
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import journal
from harness.index import journal_of
from harness.state import fold
from monitors.files import AttemptFiles
from tests.e2e.bench import Bench
from tests.e2e.short_run import TRAIN
from tests.e2e.sweep_bench import SweepBench
from tools.chaos_machine import SECRET, Machine

VICTIMS = ("harness", "watcher", "supervisor", "front", "shell", "training", "everything")
LETHAL = {"kill supervisor", "kill training", "kill everything", "reboot"}
"""After these an attempt may be lost."""
KINDS = (
    *(f"kill {victim}" for victim in ("harness", "harness", *VICTIMS)),
    *(f"freeze {victim}" for victim in ("harness", "supervisor", "front", "training")),
    *("move away", "move for good"),
)
SCENARIOS = {
    "succeeds": ("python train.py {steps} 0.5", "succeeded"),
    "fails once": ("python train.py {steps} 0.5 fail-once", "succeeded"),
    "fails for good": ("python train.py {steps} 0.5; exit 3", "failed"),
    "runs out of time": ("python train.py 4000 0.5", "timed_out"),
    "is stopped": ("python train.py 4000 0.5", "cancelled"),
    "leaves a daemon": ("setsid -f sleep 4000; python train.py {steps} 0.5", "succeeded"),
}
STOPS = (signal.SIGSTOP, signal.SIGCONT)


@dataclass(frozen=True)
class Fault:
    """`kind` happens `after_s` seconds after the start, and where it passes, it lasts `for_s` seconds."""

    after_s: float
    kind: str
    for_s: float

    def __str__(self) -> str:
        return f"{self.kind} at {self.after_s:.1f} s" + (f" for {self.for_s:.0f} s" if self.for_s else "")


def schedule(draw: random.Random, kinds: Sequence[str], lasts_s: float) -> list[Fault]:
    """Up to six faults over a life, of which at most two cost an attempt."""
    faults: list[Fault] = []
    for _ in range(draw.randint(0, 6)):
        kind, after_s, for_s = draw.choice(kinds), draw.uniform(0, 1.1 * lasts_s), draw.uniform(1, 60)
        passes = kind.startswith("freeze") or kind == "move away"
        if kind not in LETHAL or sum(fault.kind in LETHAL for fault in faults) < 2:
            faults.append(Fault(after_s, kind, for_s if passes else 0.0))
    return faults


class Subject:
    """A run, or a sweep, from `harness run` to its check. `dir` follows the folder where it is moved."""

    dir: Path
    scenario: str
    faults: list[Fault]
    arguments: list[str]

    def __init__(self, machine: Machine, number: int) -> None:
        self.machine, self.number = machine, number
        self.folder = machine.top / f"{number:03d}"
        self.output = machine.top / f"{number:03d}.txt"
        self.lives: list[subprocess.Popen[bytes]] = []
        self.stops: list[subprocess.Popen[bytes]] = []
        self.met: Counter[str] = Counter()
        self.away = self.is_elsewhere = False

    @property
    def journal(self) -> Path:
        return journal_of(self.dir)

    @property
    def has_flag(self) -> bool:
        return (self.dir / "finish.flag").exists()

    @property
    def has_begun(self) -> bool:
        return journal.has_begun(self.journal)

    @property
    def is_watched(self) -> bool:
        """True while a process of the harness has to do with it."""
        living = [life for life in (*self.lives, *self.stops) if life.poll() is None]
        return bool(living) or journal.is_owned(self.journal)

    def stop(self) -> None:
        """Ask for its end, where nobody is asking."""
        if all(stop.poll() is not None for stop in self.stops):
            self.stops.append(self.machine.start("stop", str(self.dir), output=self.output))

    def go_on(self, *arguments: str) -> None:
        """Start the harness on it, here: for the first time, or where `resume --all` cannot find it."""
        if not arguments:
            arguments = ("resume", str(self.dir)) if self.has_begun else tuple(self.arguments)
        self.lives.append(self.machine.start(*arguments, output=self.output))

    def run_dirs(self) -> list[Path]:
        """The result folders of its runs."""
        raise NotImplementedError

    def pids(self, victim: str, draw: random.Random) -> list[int]:
        """The processes of this kind that it has now, in one of its runs."""
        if victim in ("harness", "watcher"):
            owned = [path for path in (self.journal, *map(journal_of, self.run_dirs())) if _is_run(path)]
            owner = journal.last_owner(draw.choice(owned)) if owned else None
            pids = [owner.pid] if owner else []
            return pids if victim == "harness" else [_parent(pid) for pid in pids]
        run = draw.choice(self.run_dirs() or [self.dir])
        attempts = sorted(run.glob("attempts/[0-9]*"))
        if victim == "everything":
            ids = [fold(journal.read(path)).experiment_id for path in run.glob("journal.jsonl")]
            found = [pid for id_ in filter(None, ids) for pid in self.machine.processes(id_)]
            return [*self.pids("harness", draw), *found, *self.pids("shell", draw)]
        if victim == "shell":
            script = attempts[-1] / "launch.sh" if attempts else run
            named = (
                re.search(r"in tmux session (\S+), once", script.read_text()) if script.is_file() else None
            )
            target = f"={named.group(1)}" if named else "="
            return list(map(int, self.machine.tmux("list-panes", "-s", "-t", target, "-F", "#{pane_pid}")))
        info = AttemptFiles(attempts[-1]).supervisor() if attempts else None
        if info is None:
            return []
        which = {"supervisor": info.pid, "front": info.front_pid, "training": info.command_pid}
        pid = which[victim]
        return [pid] if pid else []

    def problems(self) -> Iterator[str]:
        """All that is wrong with it, now that it is over."""
        if not self.has_flag:
            yield "it has no finish.flag"
            return
        for run in self.run_dirs():
            yield from (f"{run.name}: {problem}" for problem in _problems_of_a_run(run))
        yield from journal_problems(self.journal)
        left = [path for path in self.dir.rglob("*.tmp") if path.exists()]
        if left:
            yield f"left: {left}"
        yield from (f"holds the secret: {path}" for path in _holding(self.dir, SECRET))
        marks = {fold(journal.read(run / "journal.jsonl")).experiment_id for run in self.run_dirs()}
        for mark in filter(None, marks):
            running = list(self.machine.processes(mark))
            if running:
                yield f"runs on: {[(pid, _command_of(pid)) for pid in running]}"
        shown = " ".join(self.machine.tmux("list-sessions", "-F", "#S"))
        yield from (f"sessions are left: {shown}" for mark in marks if f"-{mark[:4]}-" in shown)
        env = [path for mark in marks for path in (self.machine.disk / "state").rglob(f"env/{mark}*")]
        if env:
            yield f"secret files are left: {env}"


class Run(Subject):
    """One experiment."""

    def __init__(self, machine: Machine, number: int, draw: random.Random, longest_s: float) -> None:
        super().__init__(machine, number)
        self.lasts_s = min(20 * 12 ** draw.random(), longest_s)
        self.scenario = draw.choice(list(SCENARIOS))
        self.faults = schedule(draw, KINDS, self.lasts_s)
        bench = Bench(self.folder, machine.disk / f"{number:03d}")
        bench.script("train.py", TRAIN)
        is_short = self.scenario == "runs out of time"
        command, self.outcome = SCENARIOS[self.scenario]
        max_time = f"{self.lasts_s:.0f} seconds" if is_short else "2 hours"
        bench.plan(command.format(steps=int(2 * self.lasts_s)), max_time=max_time)
        if self.scenario == "is stopped":
            self.faults.append(Fault(self.lasts_s, "harness stop", 0.0))
        self.dir, self.arguments = bench.result_dir, ["run", str(bench.blueprint)]

    def run_dirs(self) -> list[Path]:
        return [self.dir]

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if not self.has_flag:
            return
        flag = json.loads((self.dir / "finish.flag").read_text())
        lost = sum(count for kind, count in self.met.items() if kind in LETHAL)
        allowed = {self.outcome, *({"failed"} if lost > 1 else ())}
        if flag["outcome"] not in allowed:
            yield f"{flag['outcome']} instead of {self.outcome}: {flag['reason']}"
        ledger = self.folder / "code" / "starts"
        starts = Counter(ledger.read_text().split() if ledger.exists() else ())
        launched = {path.name for path in self.dir.glob("attempts/[0-9]*") if (path / "launch.sh").exists()}
        twice = {attempt: count for attempt, count in starts.items() if count > 1}
        if twice or not starts.keys() <= launched:
            yield f"trained {dict(starts)}, launched {sorted(launched)}"
        if len(launched - starts.keys()) > lost + self.met["tmux server"] + self.met["kill shell"]:
            yield f"attempts that never trained: {sorted(launched - starts.keys())}"
        needed = 2 if self.scenario == "fails once" else 1
        if len(launched) > needed + lost + self.met["tmux server"] + self.met["kill shell"]:
            yield f"{len(launched)} attempts after {dict(self.met)}"


class Sweep(Subject):
    """Two points with two seeds, of which one run fails once."""

    scenario = "sweep"

    def __init__(self, machine: Machine, number: int, draw: random.Random, longest_s: float) -> None:
        super().__init__(machine, number)
        self.lasts_s = min(draw.uniform(60, 180), longest_s)
        kinds = [kind for kind in KINDS if not kind.startswith("move")]
        self.faults = schedule(draw, kinds, self.lasts_s)
        steps = max(6, int(self.lasts_s / 4))
        faults = {"p02-lr-0.2-s1": "once"} if self.lasts_s > 30 else {}  # its retry comes after a pause
        self.bench = SweepBench(self.folder, faults, steps=steps, pause=0.5)
        machine.env.update({name: value for name, value in self.bench.env.items() if name != "SHELL"})
        self.dir = self.bench.dir
        self.arguments = self.bench.arguments("arg:--lr=0.1,0.2", seeds=2)

    def run_dirs(self) -> list[Path]:
        return sorted(path.parent for path in self.dir.glob("*/journal.jsonl"))

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if not self.has_flag:
            return
        lost = sum(count for kind, count in self.met.items() if kind in LETHAL)
        outcomes = {name: run.outcome for name, run in self.bench.sweep_state.runs.items()}
        if len(outcomes) != 4 or (set(outcomes.values()) != {"succeeded"} and lost < 2):
            yield f"outcomes {outcomes}"
        starts = self.bench.starts()
        if set(starts.values()) != {1}:
            yield f"trained {dict(starts)}"


def _problems_of_a_run(folder: Path) -> Iterator[str]:
    """Its journal, its flag and its report, read without the product's own readers."""
    if not (folder / "finish.flag").exists():
        yield "no finish.flag"
        return
    yield from journal_problems(folder / "journal.jsonl")
    flag = json.loads((folder / "finish.flag").read_text())
    for entry in flag["manifest"]:
        file = folder / entry["path"]
        if not file.exists() or hashlib.sha256(file.read_bytes()).hexdigest() != entry["sha256"]:
            yield f"{entry['path']} is not what the flag says"
    missing = [name for name in ("report.html", "result.md", "result.json") if not (folder / name).exists()]
    if missing:
        yield f"no {', '.join(missing)}"


def journal_problems(path: Path) -> Iterator[str]:
    """Every line carries its number and checksum; one begins it, one ends it, nothing comes after."""
    kinds: list[str] = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        head, _, tail = line.rpartition(b',"crc":"')
        body = json.loads(head + b"}") if head else {}
        if tail != b'%08x"}' % zlib.crc32(head + b"}") or body["seq"] != number:
            yield f"{path.name}:{number} is damaged"
        kinds.append(str(body.get("kind")))
    begun = sum(kind in ("created", "sweep_created") for kind in kinds)
    if begun != 1 or kinds.count("finish") != 1 or kinds[-1] != "finish":
        yield f"{path.name}: begun {begun} times, finished {kinds.count('finish')}, last {kinds[-1]}"


def _holding(folder: Path, secret: str) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and secret.encode() in path.read_bytes():
            yield path


def _is_run(path: Path) -> bool:
    return path.exists() and journal.is_owned(path)


def _parent(pid: int) -> int:
    text = Path(f"/proc/{pid}/stat").read_text()
    return int(text[text.rindex(")") + 2 :].split()[1])


def _command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return "gone"
