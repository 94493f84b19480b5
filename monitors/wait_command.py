"""`python -m monitors.wait SESSION SECONDS`: sleep that ends early when the command in a tmux session ends.

Exit status 0: the time is up and it still runs. 1: it ended, or the session is gone; one line says which,
with the exit status (`unknown` for what was not launched by `monitors.run` or the harness), then the last
lines. 2: wrong use.
"""

import argparse
import asyncio
import time

from monitors.clock import SystemClock
from monitors.files import AttemptFiles
from monitors.launch import find_attempt
from monitors.logs import last_useful_lines
from monitors.tmux import Session, TmuxError
from monitors.unmanaged_session import wait_for_pane
from monitors.wait import Waiter, WakeReason, describe

LAST_LINES = 20


def main(argv: list[str]) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m monitors.wait", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("session", help="name of the tmux session")
    parser.add_argument("seconds", type=float, help="how long to wait at most")
    arguments = parser.parse_args(argv)
    session = Session(arguments.session)
    try:
        ended, sentence, lines = asyncio.run(_wait(session, arguments.seconds))
    except TmuxError as error:
        parser.exit(2, f"{error}\n")
    print(f"{session.name}: {sentence}")
    for line in lines if ended else ():
        print(line)
    return 1 if ended else 0


async def _wait(session: Session, seconds: float) -> tuple[bool, str, list[str]]:
    """Return whether it is over, a sentence that says what happened, and the last lines."""
    until = time.time() + seconds
    files = find_attempt(session.name, session.socket)
    if not files and not session.exists():
        return True, "there is no tmux session of this name, and none was launched here", []
    if files and files.state() not in ("ended", "lost"):
        wake = await Waiter(files, session).wait(timeout=seconds)
        if wake.reason == WakeReason.TICK:
            return False, "still running", []
        return True, wake.detail, _last_of_log(files)
    ending = await wait_for_pane(session, until, SystemClock())
    if ending == "runs":
        return False, "still running", []
    if files:  # it had ended before; nothing else was typed since, or that is over too
        return True, describe(files.exit()), _last_of_log(files)
    if ending == "gone":
        return True, "the session is gone, exit status unknown", []
    return True, "the command ended, exit status unknown", session.capture(LAST_LINES)


def _last_of_log(files: AttemptFiles) -> list[str]:
    return [line.text for line in last_useful_lines(files.pane_log, LAST_LINES)]
