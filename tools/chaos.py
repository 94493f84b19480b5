"""Runs and a sweep under random faults, for as long as you like: `python tools/chaos.py --hours 1 --seed 7`.

About `--runs` short trainings at a time, and one sweep, meet kills, frozen processes, a clock that is set, a
full disk, folders that move, and the death of everything at once; whoever is dead is brought back by
`harness resume --all`. Afterwards nothing may be lost, doubled, or left over. Prints a table; exit status 1
where something was. Each run's schedule follows from the seed and its number. Everything happens on a machine
of its own (`chaos_machine`), below one folder of /tmp; result folders that failed are kept there.
"""

import argparse
import heapq
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.errors import UserError
from tools.chaos_machine import Machine
from tools.chaos_runs import Fault, Run, Subject, Sweep

HOUR_S = 3600
OF_THE_MACHINE = ("tmux server", "disk full", "clock", "clock", "reboot", "kill resume")
END_PATIENCE_S = 900.0
TIDY_PATIENCE_S = 60.0
LOOK_S = 0.2


@dataclass
class Chaos:
    """One soak. `tally`: how often each kind of fault found somebody; `in_vain`: how often nobody."""

    machine: Machine
    seed: int
    seconds: float
    at_once: int
    tally: Counter[str] = field(default_factory=Counter)
    in_vain: Counter[str] = field(default_factory=Counter)
    done: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    subjects: list[Subject] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.began = time.monotonic()
        self.draw = random.Random(f"{self.seed}/machine")
        self._numbers, self._ties = count(1), count()
        self._coming: list[tuple[float, int, Callable[[], object]]] = []
        self._resumes: list[subprocess.Popen[bytes]] = []
        self._over_since: dict[int, float] = {}
        self._is_full = False

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.began

    @property
    def is_calm(self) -> bool:
        """True when the time of the faults is over."""
        return self.elapsed >= self.seconds

    def at(self, seconds: float, act: Callable[[], object]) -> None:
        """Do it so many seconds after the start of the soak."""
        heapq.heappush(self._coming, (seconds, next(self._ties), act))

    def run(self) -> bool:
        """The whole soak; whether all was well."""
        self._plan_the_machine()
        told = 0.0
        while not self.is_calm or self.subjects:
            if self.elapsed > self.seconds + END_PATIENCE_S:
                for subject in list(self.subjects):
                    self._judge(subject, [f"not over after {END_PATIENCE_S:.0f} s", *subject.problems()])
                break
            self._begin_what_is_missing()
            while self._coming and self._coming[0][0] <= self.elapsed:
                heapq.heappop(self._coming)[2]()
            self._look()
            if self.elapsed - told > 60:
                told = self.elapsed
                print(self._standing(), flush=True)
            time.sleep(LOOK_S)
        return not self.failures

    def _standing(self) -> str:
        over = sum(self.done.values())
        return (
            f"{self.elapsed:6.0f} s: {over} over, {len(self.subjects)} under way, {len(self.failures)} failed"
        )

    # --- what happens to the machine ------------------------------------------------------------------

    def _plan_the_machine(self) -> None:
        when = 0.0
        while (when := when + self.draw.uniform(10, 80)) < self.seconds:
            kind = self.draw.choice(OF_THE_MACHINE)
            if kind not in self.machine.missing:
                self.at(when, partial(self._strike_the_machine, kind))
        when = 0.0
        while (when := when + self.draw.uniform(3, 25)) < self.seconds + END_PATIENCE_S:
            self.at(when, self._resume_all)

    def _strike_the_machine(self, kind: str) -> None:
        self.tally[kind] += 1
        for subject in self.subjects:
            subject.met[kind] += 1
        if kind == "tmux server":
            self.machine.tmux("kill-server")
        elif kind == "reboot":
            self.machine.kill_everything()
        elif kind == "clock":
            self.machine.set_clock(self.draw.choice((-5, 0, 5)) * HOUR_S)
        elif kind == "disk full":
            self._fill(full=True)
            self.at(
                min(self.elapsed + self.draw.uniform(5, 60), self.seconds), partial(self._fill, full=False)
            )
        else:
            for life in self._resumes:
                life.kill()

    def _fill(self, *, full: bool) -> None:
        if full != self._is_full:
            self._is_full = full
            self.machine.fill_disk(full=full)

    def _resume_all(self) -> None:
        """What a person does, or the machine when it comes up: also twice at once."""
        self._resumes = [life for life in self._resumes if life.poll() is None]
        if len(self._resumes) < 2 and self.subjects:
            output = self.machine.top / "resume-all.txt"
            self._resumes.append(self.machine.start("resume", "--all", output=output))
        for subject in self.subjects:
            lost_sight = subject.is_elsewhere or not subject.has_begun
            if lost_sight and not subject.away and not subject.has_flag and not subject.is_watched:
                subject.go_on()

    # --- what happens to a run ------------------------------------------------------------------------

    def _begin_what_is_missing(self) -> None:
        left_s = self.seconds - self.elapsed
        while left_s > 0 and len(self.subjects) < self.at_once + 1 and not self._is_full:
            has_sweep = any(isinstance(subject, Sweep) for subject in self.subjects)
            number = next(self._numbers)
            draw = random.Random(f"{self.seed}/{number}")
            subject = (Run if has_sweep else Sweep)(self.machine, number, draw, max(6.0, left_s))
            self.subjects.append(subject)
            for fault in subject.faults:
                self.at(self.elapsed + fault.after_s, partial(self._strike, subject, fault, draw))
            subject.go_on()

    def _strike(self, subject: Subject, fault: Fault, draw: random.Random) -> None:
        if subject not in self.subjects or subject.has_flag:
            return
        if subject.away or (self.is_calm and fault.kind != "harness stop"):
            if fault.kind == "harness stop" and subject.away:
                self.at(self.elapsed + 5, partial(self._strike, subject, fault, draw))
            return
        how, _, victim = fault.kind.partition(" ")
        if fault.kind == "harness stop":
            hit = self._stop(subject, fault, draw)
        elif how == "move":
            hit = self._move(subject, fault)
        else:
            pids = self._pids(subject, victim, draw)
            signum = signal.SIGKILL if how == "kill" else signal.SIGSTOP
            hit = sum(self.machine.signal(pid, signum) for pid in pids) > 0
            for pid in pids if how == "freeze" else ():
                self.at(self.elapsed + fault.for_s, partial(self.machine.signal, pid, signal.SIGCONT))
        (self.tally if hit else self.in_vain)[fault.kind] += 1
        subject.met[fault.kind] += hit

    def _pids(self, subject: Subject, victim: str, draw: random.Random) -> list[int]:
        try:
            return subject.pids(victim, draw)
        except OSError:  # what we looked at has just gone
            return []

    def _stop(self, subject: Subject, fault: Fault, draw: random.Random) -> bool:
        """`harness stop`, asked again until it has been heard."""
        if subject.has_begun:
            subject.stop()
        self.at(self.elapsed + 20, partial(self._strike, subject, fault, draw))
        return subject.has_begun

    def _move(self, subject: Subject, fault: Fault) -> bool:
        if not subject.dir.exists():
            return False
        if fault.kind == "move for good":
            subject.dir = subject.dir.rename(
                subject.dir.with_name(f"{subject.dir.name}-moved-{next(self._ties)}")
            )
            subject.is_elsewhere = True
            return True
        there = subject.dir.rename(subject.dir.with_name(f"{subject.dir.name}-away"))
        subject.away = True
        self.at(self.elapsed + fault.for_s, partial(self._move_back, subject, there))
        return True

    def _move_back(self, subject: Subject, there: Path) -> None:
        subject.away = False
        try:
            there.rename(subject.dir)
        except OSError as error:
            found = sorted(path.name for path in subject.dir.rglob("*"))[:20]
            self._judge(subject, [f"something took the place of the moved folder: {error}: {found}"])

    # --- what came of it ------------------------------------------------------------------------------

    def _look(self) -> None:
        """Judge what is over: at once where all is well, else when it has had time to tidy up."""
        for subject in list(self.subjects):
            if subject.away or not subject.has_flag or subject.is_watched or self._is_full:
                continue
            since = self._over_since.setdefault(subject.number, self.elapsed)
            try:
                problems = list(subject.problems())
            except (OSError, ValueError, UserError) as error:
                problems = [f"cannot be read: {error!r}"]
            if not problems or self.elapsed - since > TIDY_PATIENCE_S:
                self._judge(subject, problems)

    def _judge(self, subject: Subject, problems: list[str]) -> None:
        if subject not in self.subjects:
            return
        self.subjects.remove(subject)
        self.done[subject.scenario, "failed" if problems else "fine"] += 1
        if problems:
            who = f"seed {self.seed}, number {subject.number}, {subject.scenario}, {subject.dir}"
            plan = "; ".join(map(str, subject.faults))
            met = ", ".join(f"{kind} {times}" for kind, times in subject.met.items() if times)
            said = "".join(f"\n    {problem}" for problem in problems)
            self.failures.append(f"{who}{said}\n    plan: {plan or 'no fault'}\n    met: {met or 'nothing'}")
            print(f"FAILED {self.failures[-1]}", flush=True)
            if subject.dir.is_dir():
                kept = self.machine.top / "kept" / subject.folder.name
                shutil.copytree(subject.dir, kept, symlinks=True)
        else:
            shutil.rmtree(subject.folder)
            shutil.rmtree(self.machine.disk / subject.folder.name, ignore_errors=True)  # a sweep has none

    def table(self) -> str:
        """Faults by kind, runs by scenario, what failed."""
        lines = ["", f"{'fault':24} {'met':>6} {'in vain':>8}"]
        for kind in sorted({*self.tally, *self.in_vain}):
            lines.append(f"{kind:24} {self.tally[kind]:6} {self.in_vain[kind]:8}")
        lines += [f"{kind:24} not tried: {why}" for kind, why in self.machine.missing.items()]
        lines += ["", f"{'scenario':24} {'fine':>6} {'failed':>8}"]
        for scenario in sorted({scenario for scenario, _ in self.done}):
            fine, failed = self.done[scenario, "fine"], self.done[scenario, "failed"]
            lines.append(f"{scenario:24} {fine:6} {failed:8}")
        lines += ["", f"{len(self.failures)} failures"]
        return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--hours", type=float, default=0.0)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=20)
    given = parser.parse_args()
    machine = Machine()
    print(f"seed {given.seed}, {machine.top}", flush=True)
    chaos = Chaos(machine, given.seed, 3600 * given.hours + 60 * given.minutes, given.runs)
    try:
        is_well = chaos.run()
    finally:
        machine.close()
    print(chaos.table())
    if is_well:
        shutil.rmtree(machine.top)
    return not is_well


if __name__ == "__main__":
    sys.exit(main())
