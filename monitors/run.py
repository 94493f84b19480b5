"""`python -m monitors.run SESSION -- CMD...`: run any command in a tmux session, its end always known.

Its log, heartbeat and exit status go to `$XDG_STATE_HOME/harness/sessions/SESSION/NN/`;
`python -m monitors.wait SESSION SECONDS` finds them by the session's name.
"""

import argparse
import os
import re
import shlex
import sys
from pathlib import Path

from monitors.files import AttemptFiles
from monitors.launch import LaunchSpec, environment_of_caller, find_attempt, launch, state_home
from monitors.processes import uptime
from monitors.tmux import Session, TmuxError

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def main(argv: list[str]) -> int:
    """Run the command; return 0 when it was launched, 2 when it could not be."""
    parser = argparse.ArgumentParser(
        prog="python -m monitors.run", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument(
        "session", help="name of the tmux session to create, or of one that this created before"
    )
    parser.add_argument("--cwd", type=Path, default=Path.cwd(), help="working directory (default: this one)")
    parser.add_argument("--max-time", type=_seconds, help="kill it after this long: 90, 30m, 12h, 2d")
    parser.add_argument("command", nargs="+", metavar="CMD", help="the command, after `--`")
    arguments = parser.parse_args(argv)
    try:
        files = start(arguments.session, arguments.command, arguments.cwd, arguments.max_time)
    except (TmuxError, ValueError, OSError) as error:
        parser.exit(2, f"{error}\n")
    print(f"{arguments.session}: launched; log: {files.pane_log}")
    return 0


def start(session_name: str, command: list[str], cwd: Path, max_time_s: float | None) -> AttemptFiles:
    """Launch a command (one word is shell text, several are an argument list) in a new or an idle session
    of ours.

    Raises TmuxError when the session is somebody else's or its command still runs.
    """
    session = Session.find(session_name)
    if session is not None:
        before = find_attempt(session_name, session.socket)
        if before is None or not session.is_ours() or before.state() in ("running", "not_started"):
            raise TmuxError(f"tmux session {session_name!r} is in use; choose another name, or end it first")
    folder = state_home() / "sessions" / session_name
    number = 1 + max((int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit()), default=0)
    spec = LaunchSpec(
        attempt_dir=folder / f"{number:02d}",
        attempt_id=f"{session_name}-{number:02d}-{os.getpid()}",
        session_name=session_name,
        command=command[0] if len(command) == 1 else shlex.join(command),
        cwd=cwd,
        env=environment_of_caller(),
        deadline_uptime=uptime() + max_time_s if max_time_s else None,
    )
    launch(spec)
    return AttemptFiles(spec.attempt_dir)


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; write 90, 30m, 12h or 2d")
    return float(match[1]) * UNITS_S[match[2] or "s"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
