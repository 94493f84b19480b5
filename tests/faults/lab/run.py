"""Runs one case in a folder of its own, whose name tells nothing of the case; its program is called
train.py."""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tests.faults.lab.confine import cannot, confine, control_groups
from tests.faults.lab.types import Case, Kill, Limits, Produced
from tests.faults.lab.warm import WarmInterpreter

PATIENCE_S = 60.0
SHARED = ("training.py", "loopback.py", "ranks.py")  # beside every program
_SHORT = re.split(r"^== (.*?): .*\n", Path(__file__).with_name("short_programs.txt").read_text(), flags=re.M)
SHORT = dict(zip(_SHORT[1::2], _SHORT[2::2], strict=True))
"""Programs of a few lines, by folder and name."""


def put(program: str, target: Path) -> None:
    """Write a program (`programs/…` or `trainings/…`) where it is to be run."""
    if program in SHORT:
        target.write_text(SHORT[program])
    else:
        shutil.copy(Path(__file__).parent / program, target)


def why_not(case: Case) -> str | None:
    """Why this case cannot be produced here; None when it can."""
    path = environment(Path())["PATH"]
    if case.wants and not (shutil.which(case.wants, path=path) or importlib.util.find_spec(case.wants)):
        return f"needs {case.wants}"
    return cannot(case.limits)


def environment(folder: Path) -> dict[str, str]:
    """What every program gets: no network, no caches of the person's own, one thread."""
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "TMPDIR": str(folder),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "0",
    }


def run(case: Case, folder: Path, warm: Callable[[], WarmInterpreter]) -> Produced:
    """Produce the failure in `folder` (made here); raises AssertionError when another one happened."""
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    for name, content in case.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    for name, source in {**{name: name for name in SHARED}, **case.beside}.items():
        put(f"programs/{source}", folder / name)
    program = "train" + Path(case.script).suffix
    if case.script:
        put(f"programs/{case.script}", folder / program)
    log = folder / "pane.log"
    log.touch()
    variables = {**environment(folder), **case.environment}
    with control_groups(case.limits) as groups:
        confined = (folder, variables, case.limits, groups)
        if case.warm:
            pid, wait = warm().start([program, *case.arguments], *confined), warm().wait
        else:
            runner = "bash" if program.endswith(".sh") else sys.executable
            pid, wait = _start(case.command or (runner, program, *case.arguments), *confined)
        try:
            if case.kill is not None:
                _kill(case.kill, pid, log)
            status = wait()
        finally:  # all that the program started and left behind is in its process group
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
    told = log.read_text(errors="replace")
    assert status == case.status, f"{case.name} ended with {status}, not {case.status}:\n{told[-3000:]}"
    assert case.root in told, f"{case.name} was not produced:\n{told[-3000:]}"
    return Produced(log, status)


def _start(
    command: Sequence[str], folder: Path, variables: dict[str, str], limits: Limits, groups: list[Path]
) -> tuple[int, Callable[[], int]]:
    """Start a program in a process of its own: its pid, and what waits for its end as a shell tells it."""
    with (folder / "pane.log").open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=variables,
            start_new_session=True,
            preexec_fn=lambda: confine(limits, folder, groups),
        )

    def wait() -> int:
        status = process.wait(PATIENCE_S)
        return status if status >= 0 else 128 - status

    return process.pid, wait


def _kill(kill: Kill, pid: int, log: Path) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while kill.after not in log.read_text(errors="replace"):
        assert time.monotonic() < give_up, f"the log never said {kill.after!r}"
        time.sleep(0.01)
    family = psutil.Process(pid).children(recursive=True)
    os.kill(family[-1].pid if family else pid, kill.signal)
