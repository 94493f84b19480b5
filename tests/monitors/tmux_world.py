"""Real attempts in real tmux sessions for the tests: launch, wait, look."""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

from monitors.files import AttemptFiles, Exit
from monitors.launch import LaunchSpec, launch
from monitors.processes import read_process
from monitors.tmux import Session
from monitors.wait import Waiter, WakeReason

PATIENCE_S = 60.0


def spec_for(folder: Path, command: str, name: str = "ajet_test", **more: object) -> LaunchSpec:
    settings: dict[str, object] = {"cwd": folder.parent, "grace_s": 1.0, "supervisor_python": sys.executable}
    settings.update(more)
    return LaunchSpec(
        attempt_dir=folder,
        attempt_id=f"{name}-{folder.name}-{time.time_ns()}",
        session_name=name,
        command=command,
        **settings,  # type: ignore[arg-type]
    )


def start(
    folder: Path, command: str, name: str = "ajet_test", **more: object
) -> tuple[AttemptFiles, Session]:
    """Create a session and launch `command` in it."""
    spec = spec_for(folder, command, name, **more)
    return AttemptFiles(folder), launch(spec)


async def ending(files: AttemptFiles, session: Session | None = None) -> Exit:
    """Wait for the attempt's end and return how it ended."""
    wake = await Waiter(files, session).wait(timeout=PATIENCE_S)
    assert wake.reason == WakeReason.EXITED, wake
    assert wake.exit is not None
    return wake.exit


async def until(condition: Callable[[], object], what: str) -> None:
    """Let the world reach a state; fail, saying which, if it does not."""
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up, f"waited in vain for {what}"
        await asyncio.sleep(0.02)


async def shell_is_back(files: AttemptFiles) -> None:
    """Wait until what showed the attempt in the pane is gone; until then it takes what is typed."""
    info = files.supervisor()
    assert info is not None and info.front_pid is not None
    front = info.front_pid
    await until(lambda: read_process(front) is None, "the shell in the pane")


async def log_shows(files: AttemptFiles, text: str) -> None:
    def shown() -> bool:
        ended = files.exit()
        found = files.pane_log.exists() and re.search(text.encode(), files.pane_log.read_bytes()) is not None
        assert found or ended is None, ended
        return found

    await until(shown, text)


def python(code: str) -> str:
    """Return the shell text that runs some Python."""
    return shlex.join([sys.executable, "-I", "-S", "-c", code])
