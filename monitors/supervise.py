"""Runs one command, owns its terminal and log, keeps a heartbeat, and always records how it ended.

Started by path, `python -I -S supervise.py --dir D --attempt-id ID ... -- COMMAND`, in a tmux pane. The
process in the pane is only a *front* that shows the log and passes keys on; it forks the *supervisor*, which
lives in a session of its own and so outlives the pane, the tmux server and whoever waits. This file and what
it imports use the standard library only: they start fast and run under any interpreter. Writes into D:
`started/supervisor.json`, `pane.log`, `heartbeat` and, last and once, `exit.json`.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

if not __package__:  # started by path, isolated: let it find its neighbours, after everything else
    sys.path.append(str(Path(__file__).resolve().parents[1]))

from monitors.pane_view import Front
from monitors.processes import (
    ATTEMPT_VARIABLE,
    boot_id,
    family,
    read_process,
    send_signal,
    uptime,
)
from monitors.records import ExitRecord, PaneLog, PhaseEnd, write_atomically
from monitors.terminal import Terminal

HEARTBEAT_S = 5.0
KILL_PATIENCE_S = 10.0
FULL_DISK_PATIENCE_S = 10.0
MOST_LEFTOVERS = 200
PR_SET_CHILD_SUBREAPER = 36


@dataclass
class Supervisor:
    """The process that owns the training: one loop over its terminal, the front, signals and the clock."""

    options: argparse.Namespace
    front: socket.socket
    front_pid: int
    umask: int
    started_at: float = field(default_factory=time.time)
    started_uptime: float = field(default_factory=uptime)
    phase: str = "prepare"
    child: int | None = None
    command_pid: int | None = None
    command_ticks: int | None = None
    command_started_at: float | None = None
    command_started_uptime: float | None = None
    announced: bool = False
    stop_asked: bool = False
    leftovers: set[int] = field(default_factory=set)
    ended: dict[int, int] = field(default_factory=dict)
    next_heartbeat: float = 0.0

    def __post_init__(self) -> None:
        self.dir = Path(self.options.dir)
        limit = self.options.deadline
        self.deadline = None if limit is None else self.started_uptime + limit - self.started_at
        self.log = PaneLog(self.dir / "pane.log")
        self.exit_record = ExitRecord(self.dir / "exit.json")
        self.terminal = Terminal()
        self.front.setblocking(False)
        self.signals, self.signal_writer = socket.socketpair()
        self.catch_signals()
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.terminal.master, selectors.EVENT_READ, self.read_terminal)
        self.selector.register(self.front, selectors.EVENT_READ, self.read_front)
        self.selector.register(self.signals, selectors.EVENT_READ, self.read_signals)
        self.boot_id = boot_id()
        self.entry = read_process(os.getpid())

    def catch_signals(self) -> None:
        """Turn SIGCHLD and SIGTERM into bytes on a socket; ignore what a dying terminal sends."""
        self.signals.setblocking(False)
        self.signal_writer.setblocking(False)
        for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGPIPE):
            signal.signal(signum, signal.SIG_IGN)
        signal.set_wakeup_fd(self.signal_writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self.ask_stop)

    def ask_stop(self, *_: object) -> None:
        self.stop_asked = True

    def announce(self) -> None:
        """Write started/supervisor.json: who supervises, and which process is the command."""
        record = {
            "attempt_id": self.options.attempt_id,
            "pid": os.getpid(),
            "start_ticks": self.entry.start_ticks if self.entry else None,
            "host": socket.gethostname(),
            "boot_id": self.boot_id,
            "front_pid": self.front_pid,
            "started_at": self.started_at,
            "deadline_uptime": self.deadline,
            "command_pid": self.command_pid,
            "pgid": self.command_pid,
            "command_start_ticks": self.command_ticks,
            "command_started_at": self.command_started_at,
            "command_started_uptime": self.command_started_uptime,
        }
        self.announced = saved(self.dir / "started" / "supervisor.json", record)

    # --- the event loop -------------------------------------------------------------------------------

    def turn(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for anything to do, do it, and keep the heartbeat."""
        now = time.monotonic()
        if now >= self.next_heartbeat:
            self.next_heartbeat = now + HEARTBEAT_S
            self.beat()
        wait = max(0.0, min(timeout, self.next_heartbeat - now))
        for key, _ in self.selector.select(wait):
            key.data()
        self.reap()

    def turn_for(self, seconds: float) -> None:
        """Serve the event loop for this long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.turn(left)

    def beat(self) -> bool:
        """Give a sign of life, and write what a full disk refused before; say whether it took everything."""
        logged = self.log.flush()
        if not self.announced:
            self.announce()
        record = {
            "time": time.time(),
            "pid": os.getpid(),
            "command_pid": self.command_pid,
            "state": self.phase,
            "log_bytes": self.log.written,
            "log_lost_bytes": self.log.lost,
        }
        return saved(self.dir / "heartbeat", record) and logged and self.announced

    def read_terminal(self) -> None:
        """Copy what the training printed to the log, a bounded amount; nudge the front to show it."""
        for _ in range(64):
            data = self.terminal.read()
            if not data:
                break
            self.log.write(data)
        with contextlib.suppress(OSError):
            self.front.send(b"n")

    def drain_terminal(self) -> None:
        """Read until the terminal is empty, so that the whole log is on disk."""
        while data := self.terminal.read():
            self.log.write(data)

    def read_front(self) -> None:
        """Obey the pane: keys, interrupts, size. A pane that is gone is forgotten."""
        try:
            frame = self.front.recv(65536)
        except OSError:
            frame = b""
        kind, payload = frame[:1], frame[1:]
        if kind == b"k":
            self.terminal.type_keys(payload)
        elif kind == b"w":
            self.terminal.resize(payload)
        elif kind == b"i":
            self.terminal.interrupt()
        else:
            self.selector.unregister(self.front)
            self.front.close()

    def read_signals(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self.signals.recv(4096)

    def reap(self) -> None:
        """Collect the dead: our own child's status, and nothing of the orphans we adopted."""
        with contextlib.suppress(ChildProcessError):
            while (ending := os.waitpid(-1, os.WNOHANG))[0]:
                if ending[0] == self.child:
                    self.ended[ending[0]] = ending[1]

    # --- prepare, command, cleanup --------------------------------------------------------------------

    def run(self) -> None:
        """Run the three phases and write exit.json."""
        self.announce()
        prepare = PhaseEnd(wait_status=0)
        command = cleanup = PhaseEnd()
        if self.options.prepare:
            prepare = self.run_phase("prepare", self.options.prepare, self.deadline)
        if prepare.status == 0 and not prepare.cause:
            command = self.run_phase("command", self.options.command, self.deadline)
        ended_at, took_s = time.time(), uptime() - self.started_uptime
        if self.options.cleanup:
            limit = uptime() + self.options.cleanup_timeout
            cleanup = self.run_phase("cleanup", self.options.cleanup, limit)
        self.kill_family()
        self.drain_terminal()
        give_up = time.monotonic() + FULL_DISK_PATIENCE_S
        while not self.beat() and time.monotonic() < give_up:
            time.sleep(0.5)
        self.exit_record.write(self.outcome(prepare, command, cleanup, ended_at, took_s))

    def outcome(
        self, prepare: PhaseEnd, command: PhaseEnd, cleanup: PhaseEnd, ended_at: float, took_s: float
    ) -> dict[str, object]:
        """Sum the phases up as the record that goes into exit.json. Both its times stand on the clock as it
        was at the end: their difference is the time taken, even if the clock was set meanwhile."""
        error = prepare.error or command.error
        if cause := prepare.cause or command.cause:
            reason = cause
        elif error:
            reason = "could_not_start"
        elif prepare.status:
            reason = "prepare_failed"
        else:
            reason = "signalled" if command.signal else "exited"
        return {
            "attempt_id": self.options.attempt_id,
            "reason": reason,
            "status": command.status,
            "signal": command.signal,
            "started_at": ended_at - took_s,
            "ended_at": ended_at,
            "pid": self.command_pid,
            "pgid": self.command_pid,
            "prepare_status": prepare.status if self.options.prepare else None,
            "cleanup_status": cleanup.status,
            "leftovers": sorted(self.leftovers)[:MOST_LEFTOVERS],
            "host": socket.gethostname(),
            "boot_id": self.boot_id,
            "error": error or cleanup.error,
            "log_lost_bytes": self.log.lost,
        }

    def run_phase(self, phase: str, command: str, until: float | None) -> PhaseEnd:
        """Run a shell command until it ends, a stop is asked for, or `until` (uptime, s) is over."""
        self.phase = phase
        if cause := self.cause_to_end(until):
            return PhaseEnd(cause=cause)
        pid, error = self.terminal.spawn(command, self.options.cwd, self.umask)
        self.child = pid
        if phase == "command" and not error:
            entry = read_process(pid)
            self.command_pid, self.command_ticks = pid, entry.start_ticks if entry else None
            self.command_started_at, self.command_started_uptime = time.time(), uptime()
            self.announce()
        self.next_heartbeat = 0.0
        while pid not in self.ended:
            if cause := self.cause_to_end(until):
                self.kill_family()
                break
            self.turn(HEARTBEAT_S if until is None else until - uptime())
        self.child = None
        return PhaseEnd(error=error) if error else PhaseEnd(self.ended.get(pid), cause)

    def cause_to_end(self, until: float | None) -> str | None:
        """Say why the running phase must not go on, or None. The cleanup cannot be stopped, only time out."""
        cleaning = self.phase == "cleanup"
        if self.stop_asked and not cleaning:
            return "stopped"
        if until is not None and uptime() >= until:
            return "timeout" if cleaning else "deadline"
        return None

    # --- ending everything ----------------------------------------------------------------------------

    def kill_family(self) -> None:
        """TERM everything the attempt started, KILL what is left after the grace; the log goes on."""
        asked: set[int] = set()
        for signum, patience in ((signal.SIGTERM, self.options.grace), (signal.SIGKILL, KILL_PATIENCE_S)):
            give_up = time.monotonic() + patience
            pace = 0.01
            while members := self.family():
                if not self.child_lives():
                    self.leftovers |= members
                for pid in members if signum == signal.SIGKILL else members - asked:
                    send_signal(pid, signum)
                asked |= members
                if time.monotonic() >= give_up:
                    break
                self.turn_for(pace)
                pace = min(0.25, pace * 1.5)

    def child_lives(self) -> bool:
        return self.child is not None and self.child not in self.ended

    def family(self) -> set[int]:
        """Find all of the attempt: what we started, what we adopted, what carries its id."""
        found = family(self.options.attempt_id)
        if self.child is not None and self.child_lives():
            found.add(self.child)  # the only one we know of where there is no /proc
        return found - {os.getpid(), self.front_pid}


def saved(path: Path, record: Mapping[str, object]) -> bool:
    """Write a record; say whether the disk took it."""
    try:
        write_atomically(path, record)
    except OSError:
        return False
    return True


def supervise(options: argparse.Namespace, front: socket.socket, front_pid: int) -> None:
    """Become the supervisor: leave the pane's session, adopt orphans, send our messages to a file, run."""
    os.setsid()
    umask = os.umask(0o077)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    messages = os.open(
        Path(options.dir) / "started" / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND
    )
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(messages, 1)
    os.dup2(messages, 2)
    Supervisor(options, front, front_pid, umask).run()


def parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="supervise.py", description="Run a command and record how it ended."
    )
    parser.add_argument("--dir", required=True, help="the attempt's folder")
    parser.add_argument("--attempt-id", required=True)
    parser.add_argument("--deadline", type=float, help="epoch seconds after which everything is killed")
    parser.add_argument("--grace", type=float, default=10.0, help="seconds between TERM and KILL")
    parser.add_argument("--prepare", help="shell command run before; if it fails the command is not run")
    parser.add_argument("--cleanup", help="shell command run afterwards, whatever happened")
    parser.add_argument("--cleanup-timeout", type=float, default=300.0, help="seconds the cleanup may take")
    parser.add_argument("--cwd", default=".", help="working directory of the three commands")
    parser.add_argument("command", help="what `bash -c` shall run")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Start the supervisor and serve the pane; return the command's exit status."""
    options = parse_arguments(argv)
    options.dir = str(Path(options.dir).resolve())
    os.environ[ATTEMPT_VARIABLE] = options.attempt_id
    (Path(options.dir) / "started").mkdir(exist_ok=True)
    (Path(options.dir) / "pane.log").touch(mode=0o600)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    front_pid = os.getpid()
    if os.fork() == 0:
        ours.close()
        supervise(options, theirs, front_pid)
        os._exit(0)
    theirs.close()
    return Front(Path(options.dir), ours).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
