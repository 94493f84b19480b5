"""The harness in a process of its own, forked from one server that has imported the product, which may die
where a test says (`Disturbance`). What a disturbed life passes on its way (entries, syncs, tmux commands) is
counted, so that a test knows every place where a harness can die.
"""

import importlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, Literal, get_args

# entry: nothing of it is written, but the effect it tells of is there; torn: half of its line is written;
# sync: a file (or an entry) is written and nothing else has followed; tmux: before and after a command.
Place = Literal["entry", "torn", "sync", "before tmux", "after tmux"]
PLACES: tuple[Place, ...] = get_args(Place)
PRELOADED = ["tests.e2e.movable_clock", "tests.e2e.preloaded", "tests.e2e.mortal"]  # the clock comes first
PAUSE_BEFORE_A_RESTART_S = 0.4  # instead of the 30 s that a real transient failure is given


# Starting a process looks at the ends of all others; two threads that read one end lose its exit status.
_STATUS = threading.Lock()


@dataclass(frozen=True)
class Death:
    """When the harness comes to `place` for the `nth` time in its life (from 1), the `victim` dies."""

    place: Place
    nth: int
    victim: Literal["harness", "tmux server"] = "harness"


@dataclass(frozen=True)
class ClockJump:
    """The clock is set by `by_s` seconds, `after_s` seconds after the run's first entry."""

    after_s: float
    by_s: float


@dataclass(frozen=True)
class Disturbance:
    """What happens to a life. `counts_file`: where it writes, if it ends by itself, how often it came to each
    place. Nothing of it set: a life on a small disk whose pauses are short."""

    death: Death | None = None
    jump: ClockJump | None = None
    counts_file: Path | None = None

    def __call__(self) -> None:
        _Road(self)


Prepare = Callable[[], object]


@dataclass
class Life:
    """One process of the harness and the file with what it printed."""

    process: BaseProcess
    output_file: Path

    def is_over(self, patience_s: float) -> bool:
        """True if it ends within `patience_s` seconds."""
        return bool(wait([self.process.sentinel], patience_s))

    def end(self, patience_s: float) -> int:
        """Wait for its end; the exit status, -9 when it was killed."""
        over = self.is_over(patience_s)
        if not over:
            self.kill()
        with _STATUS:
            self.process.join()
        assert over, f"still running after {patience_s:.0f} s:\n{self.output}"
        assert self.process.exitcode is not None
        return self.process.exitcode

    def kill(self, signal_number: int = signal.SIGKILL) -> None:
        """Send a signal that ends it, and wait for the end."""
        self.send_signal(signal_number)
        assert self.is_over(30.0), self.output

    def send_signal(self, signal_number: int) -> None:
        assert self.process.pid is not None
        with suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(self.process.pid, signal_number)

    @property
    def output(self) -> str:
        return self.output_file.read_text(errors="replace")


def start(
    arguments: Sequence[str],
    folder: Path,
    env: Mapping[str, str],
    output_file: Path,
    prepare: Prepare | None = None,
) -> Life:
    """Start `harness …` in `folder`; its process calls `prepare` (a `Disturbance`, say) first."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    output_file.touch(mode=0o600)
    args = (list(arguments), folder, dict(env), output_file, prepare)
    process = context.Process(target=_live, args=args, daemon=True)
    with _STATUS:
        process.start()
    return Life(process, output_file)


def _live(
    arguments: list[str], folder: Path, env: dict[str, str], output_file: Path, prepare: Prepare | None
) -> None:
    from harness.cli.app import app

    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    output = os.open(output_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.argv = ["harness", *arguments]
    if prepare is not None:
        prepare()
    app(arguments)


class _Road:
    """Counts the places that this process comes to, and kills it at the one that is its death."""

    def __init__(self, disturbance: Disturbance) -> None:
        from harness.journal import Journal
        from harness.machine import disk
        from monitors.tmux import Session

        disk.MIN_FREE_BYTES = 0  # the tests' disks are small
        diagnose = importlib.import_module("harness.diagnosis.diagnose")
        self.disturbance = disturbance
        self.counts: dict[str, int] = dict.fromkeys(PLACES, 0)
        self._tearing = False
        os.write = self._tear(os.write)
        os.fsync = self._before("sync", os.fsync)
        Journal.append = self._entry(Journal.append)
        Session._run = self._tmux(Session._run)
        quick = replace(
            known := diagnose.load(),
            signatures=tuple(
                each.model_copy(update={"wait_s": min(each.wait_s, PAUSE_BEFORE_A_RESTART_S)})
                for each in known.signatures
            ),
        )
        diagnose.load = lambda: quick
        if (file := disturbance.counts_file) is not None:
            Finalize(None, lambda: file.write_text(json.dumps(self.counts)), exitpriority=1)

    def come_to(self, place: Place) -> bool:
        """Count a place; whether it is the one to die at."""
        self.counts[place] += 1
        death = self.disturbance.death
        return death is not None and (death.place, death.nth) == (place, self.counts[place])

    def _before(self, place: Place, act: Callable[..., Any]) -> Callable[..., Any]:
        def dangerous(*arguments: Any) -> Any:
            if self.come_to(place):
                self._strike()
            return act(*arguments)

        return dangerous

    def _entry(self, append: Callable[..., Any]) -> Callable[..., Any]:
        def dangerous(*arguments: Any, **data: Any) -> Any:
            if self.come_to("entry"):
                self._strike()
            self._tearing = self.come_to("torn")
            entry = append(*arguments, **data)
            if (jump := self.disturbance.jump) is not None and entry.seq == 1:
                clock = importlib.import_module("tests.e2e.movable_clock")
                threading.Timer(jump.after_s, clock.set_by, (jump.by_s,)).start()
            return entry

        return dangerous

    def _tear(self, write: Callable[[int, bytes], int]) -> Callable[[int, bytes], int]:
        def dangerous(descriptor: int, data: bytes) -> int:
            if self._tearing:
                write(descriptor, data[: len(data) // 2])
                self._strike()
            return write(descriptor, data)

        return dangerous

    def _tmux(self, command: Callable[..., Any]) -> Callable[..., Any]:
        def dangerous(*arguments: Any, **options: Any) -> Any:
            if self.come_to("before tmux"):
                self._strike()
            result = command(*arguments, **options)
            if self.come_to("after tmux"):
                self._strike()
            return result

        return dangerous

    def _strike(self) -> None:
        death = self.disturbance.death
        if death is not None and death.victim == "tmux server":
            command = ["tmux", "-L", os.environ["AJET_TMUX_SOCKET"], "kill-server"]
            subprocess.run(command, capture_output=True, check=False)
        else:
            os.kill(os.getpid(), signal.SIGKILL)
