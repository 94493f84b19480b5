"""Watches a tmux session that we did not launch anything in: does its command still run?

Nothing records exits there, so this looks at the process tree of the panes. A command runs while a pane's
shell has a descendant that is not itself an idle interactive shell. Between the commands of a loop there is
none for a moment; therefore the shell must also sleep and stand still (no CPU, no page faults, nobody reaped)
before it counts as back at its prompt: for PROMPT_S where it edits a line, which it does at its prompt only,
for PLAIN_PROMPT_S where it is a shell that cannot. SETTLE_S is for all others, and allows a command just
typed to start.
"""

import asyncio
import os
import termios
from pathlib import Path
from typing import Literal

from monitors.alarms import Alarms
from monitors.clock import Clock
from monitors.processes import ProcessEntry, descendants, process_table
from monitors.tmux import Session, TmuxError

SETTLE_S = 2.0
PROMPT_S = 0.05
PLAIN_PROMPT_S = 0.25
SAMPLE_S = 0.1
SAFETY_CHECK_S = 30.0
SHELLS = frozenset({"bash", "zsh", "sh", "fish", "csh", "tcsh", "ksh", "dash", "ash", "mksh", "nu", "xonsh"})
PLAIN_SHELLS = frozenset({"sh", "dash", "ash", "csh"})

Ending = Literal["runs", "idle", "gone"]
Stillness = tuple[tuple[int, tuple[int, ...]], ...]


async def wait_for_pane(session: Session, until: float, clock: Clock) -> Ending:
    """Wait until the panes' command is over (`idle`), the session is `gone`, or it is `until` (`runs`).

    Raises TmuxError when tmux cannot be used at all.
    """
    event = asyncio.Event()
    still_since: float | None = None
    last_seen: Stillness | None = None
    has_run = False
    with Alarms(event) as alarms:
        panes = _pane_pids(session)
        while panes:
            now = clock.time()
            table = list(process_table())
            event.clear()
            workers = working_processes(panes, table)
            seen = _stillness(panes, table)
            if workers or seen != last_seen or still_since is None:
                still_since = now
            elif now - still_since >= (_settle_s(seen, table) if has_run else SETTLE_S):
                return "idle" if seen else "gone"
            last_seen = seen
            has_run = has_run or bool(workers)
            if now >= until and (workers or seen):
                return "runs"
            for pid in workers:
                alarms.on_process_end(pid)
            await clock.wait(event, min(SAFETY_CHECK_S if workers else SAMPLE_S, max(until - now, 0.01)))
            if not seen:
                panes = _pane_pids(session)
    return "gone"


def working_processes(panes: list[int], table: list[ProcessEntry]) -> set[int]:
    """Find what runs in the panes: every process but the interactive shells waiting for a person.

    A pane whose own process is no shell (a session created with a command) works as long as it lives.
    """
    working: set[int] = set()
    for entry in table:
        if entry.pid in panes and entry.name.lstrip("-") not in SHELLS:
            working.add(entry.pid)
    for pane in panes:
        working |= {pid for pid in descendants(pane, table) if not is_interactive_shell(pid)}
    return working


def is_interactive_shell(pid: int) -> bool:
    """Say whether a process is a shell on a terminal without anything to run (`bash`, `-zsh`, `bash -l`)."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").rstrip("\0").split("\0")
        reads = str(Path(f"/proc/{pid}/fd/0").readlink())
    except OSError:
        return False
    name = words[0].lstrip("-").rsplit("/", 1)[-1]
    bare = all(word.startswith("-") for word in words[1:])
    return name in SHELLS and bare and reads.startswith(("/dev/pts/", "/dev/tty"))


def _stillness(panes: list[int], table: list[ProcessEntry]) -> Stillness:
    """Return what changes as soon as any shell of the panes does anything."""
    shells = set(panes).union(*(descendants(pane, table) for pane in panes))
    return tuple(sorted((entry.pid, entry.activity) for entry in table if entry.pid in shells))


def _settle_s(seen: Stillness, table: list[ProcessEntry]) -> float:
    """Return how long the panes' shells must stand still to be at their prompts, after a command has run."""
    shells = [entry for entry in table if entry.pid in dict(seen)]
    if any(entry.state != "S" for entry in shells):
        return SETTLE_S
    if all(_edits_a_line(entry.pid) for entry in shells):
        return PROMPT_S
    is_plain = all(entry.name.lstrip("-") in PLAIN_SHELLS for entry in shells)
    return PLAIN_PROMPT_S if is_plain else SETTLE_S


def _edits_a_line(shell: int) -> bool:
    """Say whether the shell's terminal gives it every key at once; commands get whole lines."""
    try:
        terminal = os.open(f"/proc/{shell}/fd/0", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return not termios.tcgetattr(terminal)[3] & termios.ICANON
    except termios.error:
        return False
    finally:
        os.close(terminal)


def _pane_pids(session: Session) -> list[int]:
    try:
        return session.pane_pids()
    except TmuxError:
        if session.exists():
            raise
        return []
