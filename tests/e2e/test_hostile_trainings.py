"""Trainings that do what a training should not: each run ends by itself with the right outcome, nothing of it
lives on, and what it printed is what the report counts. `make soak` does all of them."""

import json
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.bench import until
from tests.e2e.short_run import PATIENCE_S, ShortRun
from tests.e2e.trials import often, try_all

PRELUDE = """
import ctypes, json, os, pathlib, signal, subprocess, sys, time
attempt = pathlib.Path(os.environ["HARNESS_ATTEMPT_DIR"])
is_first = attempt.name == "01"
with open("starts", "a") as starts:
    starts.write(f"{attempt.name}\\n")
def supervisor():
    return json.loads((attempt / "started" / "supervisor.json").read_text())["pid"]
def train(first=1, last=5):
    for step in range(first, last + 1):
        print(f"step={step} loss={1 / step:.4f} reward={step / 5:.4f}", flush=True)
        time.sleep(0.1)
def note(pid):
    with open("born", "a") as born:
        born.write(f"{pid}\\n")
def daemon(*command, **options):
    "Start something that has left the family, and note its pid."
    if os.fork() == 0:
        note(subprocess.Popen(command, start_new_session=True, stdin=-3, stdout=-3, stderr=-3, **options).pid)
        os._exit(0)
    os.wait()
def wait_for(file):
    while not os.path.exists(file):
        time.sleep(0.02)
"""
IGNORES_TERM = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
RENAMED = """
import ctypes, time
environ = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
ctypes.memset(environ[0], 0, len(open("/proc/self/environ", "rb").read()))
open("renamed", "w").close()
time.sleep(600)
"""
"""Overwrites its own environment in memory, as `setproctitle` does."""


@dataclass(frozen=True)
class Hostile:
    """A training and how its run ends. `steps`: how many rows the last attempt has, None where it is all the
    same. `told`: what stands in result.md; not `is_awaited`: files that are gone are given up soon."""

    name: str
    code: str
    outcome: str = "succeeded"
    attempts: int = 1
    steps: int | None = 5
    max_time: str = "10 minutes"
    told: str = ""
    is_awaited: bool = True
    meanwhile: Callable[[ShortRun], object] | None = None
    checks: Callable[[ShortRun], object] = lambda run: None


def soon() -> None:
    """What is gone is given up after ten seconds: a supervisor that lost its files takes some to end."""
    from harness.agent import holding

    holding.FIRST_LOOK_S, holding.GONE_PATIENCE_S = 0.5, 10.0


def stop(run: ShortRun) -> None:
    until(lambda: "step=5 " in run.log(), "the last step")
    assert run.live("stop", str(run.result_dir)).end(PATIENCE_S) == 0


def prey_is_whole(run: ShortRun) -> None:
    assert (run.folder / "code" / "prey").read_text() == "mine"


TRAININGS = [
    Hostile("daemon", "daemon('sleep', '600'); train()"),
    Hostile("daemon that ignores SIGTERM", f"daemon(sys.executable, '-c', {IGNORES_TERM!r}); train()"),
    Hostile("daemon without environment", "daemon('sleep', '600', env={}); train()"),
    Hostile(
        "daemon without environment, supervisor killed",
        """
        if is_first:
            daemon("sleep", "600", env={})
            train(1, 2)
            time.sleep(6)
            os.kill(supervisor(), 9)
            time.sleep(600)
        train()
        """,
        attempts=2,
    ),
    Hostile(
        "daemon that overwrites its environment, supervisor killed",
        f"""
        if is_first:
            daemon(sys.executable, "-c", {RENAMED!r})
            wait_for("renamed")
            time.sleep(6)
            os.kill(supervisor(), 9)
            time.sleep(600)
        train()
        """,
        attempts=2,
    ),
    Hostile(
        "ignores SIGHUP, supervisor killed",
        """
        if is_first:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            os.kill(supervisor(), 9)
            time.sleep(600)
        train()
        """,
        attempts=2,
    ),
    Hostile(
        "ignores all that asks it to end, and is stopped",
        """
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, signal.SIG_IGN)
        train()
        time.sleep(600)
        """,
        outcome="cancelled",
        meanwhile=stop,
    ),
    Hostile(
        "closes its streams", "train(); sys.stdout.flush(); [os.close(n) for n in (0, 1, 2)]; os._exit(0)"
    ),
    Hostile("writes to its terminal", "sys.stdout = open('/dev/tty', 'w'); train()"),
    Hostile("kills its parent", "is_first and os.kill(os.getppid(), 9); train()", attempts=2),
    Hostile(
        "kills its supervisor by name",
        """
        if is_first:
            for entry in pathlib.Path("/proc").glob("[0-9]*"):
                try:
                    command = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if b"supervise.py" in command and str(attempt).encode() in command:
                    os.kill(int(entry.name), 9)
            time.sleep(600)
        train()
        """,
        attempts=2,
    ),
    Hostile(
        "prints a traceback and exits with 0",
        """
        train()
        try:
            raise RuntimeError("the checkpoint could not be written")
        except RuntimeError:
            import traceback
            traceback.print_exc()
        """,
        told="the checkpoint could not be written",
    ),
    Hostile("exits with 137", "train(); sys.exit(137)", outcome="failed", attempts=2),
    Hostile("kills itself once", "train(1, 2); is_first and os.kill(os.getpid(), 9); train(3)", attempts=2),
    Hostile(
        "stops itself",
        "train(); os.kill(os.getpid(), signal.SIGSTOP)",
        outcome="timed_out",
        max_time="8 seconds",
    ),
    Hostile(
        "asks its terminal",
        """
        for step in range(1, 6):
            print("\\x1b[6n\\x1b[c", end="", flush=True)
            time.sleep(0.2)
            train(step, step)
        """,
    ),
    Hostile(
        "removes its attempt",
        "import shutil; train(1, 2); is_first and shutil.rmtree(attempt); train(3)",
        attempts=2,
        steps=None,
        is_awaited=False,
    ),
    Hostile(
        "removes its attempt at once",
        "import shutil; is_first and shutil.rmtree(attempt); train()",
        attempts=2,
        steps=None,
        is_awaited=False,
    ),
    Hostile(
        "puts links where files will be",
        """
        open("prey", "w").write("mine")
        for folder in (attempt, attempt.parents[1]):
            for name in ("heartbeat", "exit.json", "metrics.jsonl", "result.json", "result.md"):
                if not (folder / f"{name}.tmp").exists():
                    (folder / f"{name}.tmp").symlink_to(os.path.abspath("prey"))
        time.sleep(6)
        train()
        """,
        checks=prey_is_whole,
    ),
    Hostile(
        "leaves a writer on its terminal",
        "subprocess.Popen(['sh', '-c', 'while :; do echo step=99 reward=9; sleep 0.01; done']); train()",
        steps=None,
    ),
    Hostile("reads its input", "train(); input()", outcome="failed", told="EOF"),
    Hostile("300 children", "[daemon('sleep', '600') for _ in range(300)]; train()"),
]


@contextmanager
def started(folder: Path, training: Hostile) -> Iterator[ShortRun]:
    with ShortRun(folder, "python hostile.py", max_time=training.max_time) as run:
        run.script("hostile.py", PRELUDE + textwrap.dedent(training.code))
        yield run


def born(run: ShortRun) -> list[int]:
    """What the training has started, and is still there."""
    noted = run.folder / "code" / "born"
    pids = map(int, noted.read_text().split()) if noted.exists() else ()
    return [pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists() and _command(pid)]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


@often(8, 1)
def test_hostile_trainings(tmp_path: Path, count: int) -> None:
    """Every eighth of them, and in `make soak` all."""
    chosen = TRAININGS[::count]

    def trial(number: int) -> None:
        training = chosen[number]
        with started(tmp_path / f"{number:02d}", training) as run:
            life = run.begin() if training.is_awaited else run.start("run", str(run.blueprint), prepare=soon)
            if training.meanwhile:
                training.meanwhile(run)
            life.end(300)
            flag = run.flag
            assert (flag["outcome"], flag["attempts"]) == (training.outcome, training.attempts), flag[
                "reason"
            ]
            assert set(run.starts().values()) == {1} and len(run.starts()) == training.attempts
            assert born(run) == [], "lives on"
            run.assert_tidy()
            training.checks(run)
            assert training.told in (run.result_dir / "result.md").read_text()
            if training.steps is not None:
                rows = (run.attempt(training.attempts) / "metrics.jsonl").read_text().splitlines()
                assert [json.loads(row)["step"] for row in rows] == list(range(6 - training.steps, 6))

    try_all([training.name for training in chosen], trial)
