"""Runs one command, owns its terminal and log, keeps a heartbeat, and always records how it ended.

Started by path, `python -I -S supervise.py --dir D --attempt-id ID ... -- COMMAND`, in a tmux pane. The
process in the pane is only a *front* that shows the log and passes keys on; below it the *supervisor*, and
its `guardian`, live in sessions of their own and so outlive the pane, the tmux server and whoever waits. This
file and what it imports use the standard library only: they start fast and run under any interpreter. Writes
into D, its working directory, wherever that is moved to: `started/supervisor.json`, `pane.log`, `heartbeat`,
`evaluation.log` and, last and once, `exit.json`.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from pathlib import Path

if not __package__:  # started by path, isolated: let it find its neighbours, after everything else
    sys.path.append(str(Path(__file__).resolve().parents[1]))

from monitors import attempt_processes
from monitors.guardian import Charge, adopt_orphans, fork_guarded
from monitors.pane_view import Front
from monitors.processes import ATTEMPT_VARIABLE
from monitors.supervisor import SUPERVISOR_FILE, Supervisor

LOG_LIMIT_BYTES = 4 << 30


def supervise(options: argparse.Namespace, front: socket.socket, front_pid: int) -> None:
    """Become the supervisor, below a guardian: leave the pane's session, adopt orphans unless daemons are
    spared, send our messages to a file, run."""
    keeps_all = not options.spare_daemons
    group = attempt_processes.make_group(options.attempt_id) if keeps_all else None
    if keeps_all:
        adopt_orphans()
    guardian = fork_guarded(Charge(options.attempt_id, options.deadline, options.grace, group))
    os.setsid()
    umask = os.umask(0o077)
    if keeps_all:
        adopt_orphans()
    messages = os.open("started/supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(messages, 1)
    os.dup2(messages, 2)
    group = attempt_processes.entered(group)
    Supervisor(options, front, front_pid, umask, guardian, os.getppid(), group).run()


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="supervise.py", description="Run a command and record how it ended."
    )
    parser.add_argument("--dir", required=True, help="the attempt's folder")
    parser.add_argument("--attempt-id", required=True)
    parser.add_argument("--deadline", type=float, help="seconds after the boot at which everything is killed")
    parser.add_argument("--grace", type=float, default=10.0, help="seconds between TERM and KILL")
    parser.add_argument("--prepare", help="shell command run before; if it fails the command is not run")
    parser.add_argument("--evaluate", help="shell command run after a command that exited with status 0")
    parser.add_argument("--cleanup", help="shell command run afterwards, whatever happened")
    parser.add_argument("--cleanup-timeout", type=float, default=300.0, help="seconds the cleanup may take")
    parser.add_argument(
        "--spare-daemons",
        action="store_true",
        help="what has left the command's descendants and does not carry the attempt's id is not of it",
    )
    parser.add_argument("--log-limit", type=int, default=LOG_LIMIT_BYTES, help="bytes that a log may take")
    parser.add_argument("--cwd", default=".", help="working directory of these commands")
    parser.add_argument("command", help="what `bash -c` shall run")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Start the supervisor and serve the pane; return the command's exit status."""
    options = parse_arguments(argv)
    options.cwd = str(Path(options.cwd).absolute())
    os.environ[ATTEMPT_VARIABLE] = options.attempt_id
    os.chdir(options.dir)
    SUPERVISOR_FILE.parent.mkdir(exist_ok=True)
    Path("pane.log").touch(mode=0o600)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    front_pid = os.getpid()
    if os.fork() == 0:
        ours.close()
        supervise(options, theirs, front_pid)
        os._exit(0)
    theirs.close()
    return Front(ours).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
