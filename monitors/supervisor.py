"""The process that owns a training: its terminal, its log, its end.

In: the options of `supervise.py`, a socket to the front, a guardian. Out: the files of the attempt, by names
relative to its folder, in which this runs. Standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from monitors import attempt_processes
from monitors.guardian import dismiss
from monitors.processes import (
    boot_id,
    children,
    family,
    offspring,
    read_process,
    uptime,
)
from monitors.records import (
    EVALUATION_LOG,
    Exit,
    ExitRecord,
    Heartbeat,
    PaneLog,
    PhaseEnd,
    SupervisorInfo,
    create_private,
    folder_is_removed,
    overwrite,
    write_atomically,
)
from monitors.terminal import Terminal

HEARTBEAT_S = 5.0
FULL_DISK_PATIENCE_S = 10.0
MOST_LEFTOVERS = 200
NOTING_SHARE = 50_000
"""Of its CPU time, the part that a supervisor takes to note who belongs to the attempt."""
SUPERVISOR_FILE = Path("started", "supervisor.json")


@dataclass
class Supervisor:
    """The process that owns the training: one loop over its terminal, the front, signals and the clock."""

    options: argparse.Namespace
    front: socket.socket
    front_pid: int
    umask: int
    guardian: int
    guardian_pid: int
    group: Path | None
    started_uptime: float = field(default_factory=uptime)
    phase: str = "prepare"
    child: int | None = None
    stop_asked: bool = False
    leftovers: set[int] = field(default_factory=set)
    ended: dict[int, int] = field(default_factory=dict)
    next_heartbeat: float = 0.0
    noted: list[attempt_processes.Identity] = field(default_factory=list)
    next_noting: float = 0.0

    def __post_init__(self) -> None:
        entry, self.deadline = read_process(os.getpid()), self.options.deadline
        self.info = SupervisorInfo(
            self.options.attempt_id,
            os.getpid(),
            entry.start_ticks if entry else None,
            socket.gethostname(),
            boot_id(),
            self.front_pid,
            self.guardian_pid,
            started_at=time.time(),
            deadline_uptime=self.deadline,
        )
        self.ends = {phase: PhaseEnd() for phase in ("prepare", "command", "evaluate", "cleanup")}
        self.ends["prepare"] = PhaseEnd(wait_status=0)
        self.log = PaneLog(Path("pane.log"), self.options.log_limit)
        self.output, self.logs = self.log, [self.log]
        self.exit_record = ExitRecord(Path("exit.json"))
        self.terminal = Terminal()
        self.front.setblocking(False)
        self.signals, self.signal_writer = socket.socketpair()
        self.catch_signals()
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.terminal.master, selectors.EVENT_READ, self.read_terminal)
        self.selector.register(self.front, selectors.EVENT_READ, self.read_front)
        self.selector.register(self.signals, selectors.EVENT_READ, self.read_signals)

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

    def announce(self) -> bool:
        """Write started/supervisor.json: who supervises, and which process is the command; say whether the
        disk took it."""
        with contextlib.suppress(OSError):
            SUPERVISOR_FILE.parent.mkdir(exist_ok=True)
        return saved(write_atomically, SUPERVISOR_FILE, vars(self.info))

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
        """Give a sign of life, and write what is missing: what a full disk refused before, and the record of
        who supervises, if somebody took it away. Say whether the disk took everything."""
        behind = [log for log in self.logs if not log.flush()]
        announced = os.path.exists(SUPERVISOR_FILE) or self.announce()  # noqa: PTH110  a tenth of the time
        self.note_family()
        sign = Heartbeat(
            time.time(),
            os.getpid(),
            self.phase,
            self.info.command_pid,
            self.log.written,
            self.log.lost,
            self.log.why_lost,
            self.info.boot_id,
            str(self.group or ""),
            tuple(self.noted),
        )
        return saved(overwrite, Path("heartbeat"), vars(sign)) and not behind and announced

    def note_family(self) -> None:
        """Where there is no group, note who belongs to the attempt, for whoever ends it should we be killed:
        often in the beginning, then as seldom as is cheap."""
        age, began = uptime() - self.started_uptime, time.thread_time()
        if self.group is None and age >= self.next_noting:
            self.noted = [(each.pid, each.start_ticks) for each in map(read_process, offspring()) if each]
            took = time.thread_time() - began
            self.next_noting = age + min(age, NOTING_SHARE * took)

    def read_terminal(self) -> None:
        """Copy what the training printed to the log, a bounded amount; nudge the front to show it."""
        for _ in range(64):
            data = self.terminal.read()
            if not data:
                break
            self.output.write(data)
        with contextlib.suppress(OSError):
            self.front.send(b"n" if self.output is self.log else b"e")

    def drain_terminal(self) -> None:
        """Read until the terminal is empty, so that the whole log is on disk."""
        while data := self.terminal.read():
            self.output.write(data)

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

    # --- prepare, command, evaluate, cleanup ----------------------------------------------------------

    def run(self) -> None:
        """Run the phases and write exit.json."""
        self.announce()
        if self.options.prepare:
            self.ends["prepare"] = self.run_phase("prepare", self.options.prepare, self.deadline)
        if self.ends["prepare"].is_good:
            prepared = self.family()
            self.ends["command"] = self.run_phase("command", self.options.command, self.deadline)
            if self.options.evaluate and self.ends["command"].is_good:
                self.ends["evaluate"] = self.evaluate(prepared)
        ended_at, took_s = time.time(), uptime() - self.started_uptime
        if self.options.cleanup:
            limit = uptime() + self.options.cleanup_timeout
            self.ends["cleanup"] = self.run_phase("cleanup", self.options.cleanup, limit)
        self.kill_family()
        self.drain_terminal()
        dismiss(self.guardian)
        for log in self.logs:
            log.finish()
        give_up = time.monotonic() + FULL_DISK_PATIENCE_S
        while not self.beat() and time.monotonic() < give_up and not folder_is_removed():
            time.sleep(0.5)
        self.exit_record.write(vars(self.outcome(ended_at, took_s)))

    def evaluate(self, prepared: set[int]) -> PhaseEnd:
        """Run what measures the result; what it prints goes to a log of its own. What the command left behind
        is ended first, but for what had been `prepared` for both."""
        self.leftovers |= self.family() - prepared
        attempt_processes.end(lambda: self.family() - prepared, self.options.grace, self.turn_for)
        self.drain_terminal()
        os.close(create_private(Path(EVALUATION_LOG)))
        self.output = PaneLog(Path(EVALUATION_LOG), self.options.log_limit)
        self.logs.append(self.output)
        end = self.run_phase("evaluate", self.options.evaluate, self.deadline)
        self.drain_terminal()
        self.output = self.log
        return end

    def outcome(self, ended_at: float, took_s: float) -> Exit:
        """Sum the phases up. Both times stand on the clock as it was at the end: their difference is the time
        taken, even if the clock was set meanwhile."""
        prepare, command, evaluation, cleanup = self.ends.values()
        error = prepare.error or command.error
        if cause := prepare.cause or command.cause or evaluation.cause:
            reason = cause
        elif error:
            reason = "could_not_start"
        elif prepare.status:
            reason = "prepare_failed"
        else:
            reason = "signalled" if command.signal else "exited"
        return Exit(
            self.options.attempt_id,
            reason,
            command.status,
            command.signal,
            started_at=ended_at - took_s,
            ended_at=ended_at,
            ended_uptime=self.started_uptime + took_s,
            pid=self.info.command_pid,
            pgid=self.info.pgid,
            prepare_status=prepare.status if self.options.prepare else None,
            evaluate_status=evaluation.status,
            cleanup_status=cleanup.status,
            leftovers=tuple(sorted(self.leftovers)[:MOST_LEFTOVERS]),
            host=socket.gethostname(),
            boot_id=self.info.boot_id,
            error=error or evaluation.error or cleanup.error,
            log_lost_bytes=self.log.lost,
            log_lost_why=self.log.why_lost,
        )

    def run_phase(self, phase: str, command: str, until: float | None) -> PhaseEnd:
        """Run a shell command until it ends, a stop is asked for, or `until` (uptime, s) is over."""
        self.phase = phase
        if cause := self.cause_to_end(until):
            return PhaseEnd(cause=cause)
        pid, error = self.terminal.spawn(command, self.options.cwd, self.umask)
        self.child = pid
        if phase == "command" and not error:
            entry = read_process(pid)
            self.info = replace(
                self.info,
                command_pid=pid,
                pgid=pid,
                command_start_ticks=entry.start_ticks if entry else None,
                command_started_at=time.time(),
                command_started_uptime=uptime(),
            )
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
        attempt_processes.end(self.family_to_end, self.options.grace, self.turn_for)

    def family_to_end(self) -> set[int]:
        """The family; what of it outlived the command counts as left over."""
        found = self.family()
        if not self.child_lives():
            self.leftovers |= found
        return found

    def child_lives(self) -> bool:
        return self.child is not None and self.child not in self.ended

    def family(self) -> set[int]:
        """Find all of the attempt: what we started, what we adopted, what carries its id."""
        known = children(os.getpid()) | attempt_processes.members_of_group(self.group)
        found = family(self.options.attempt_id, known, apart=(self.front_pid, self.guardian_pid))
        if self.child is not None and self.child_lives():
            found.add(self.child)  # the only one we know of where there is no /proc
        return found


def saved(
    save: Callable[[Path, Mapping[str, object]], None], path: Path, record: Mapping[str, object]
) -> bool:
    """Write a record; say whether the disk took it."""
    try:
        save(path, record)
    except OSError:
        return False
    return True
