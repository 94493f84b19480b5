"""The training's own pseudo-terminal: starts shell commands in it, reads what they print, types to them.

It does not echo: what a person types, or another terminal answers, is nothing that the training printed.
Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import termios


class Terminal:
    """A pseudo-terminal that outlives the commands run in it one after the other. Reading never blocks."""

    def __init__(self) -> None:
        self.master, self._slave = os.openpty()
        os.set_blocking(self.master, False)

    def read(self) -> bytes:
        """Return what is there, or b'' when everything printed so far has been read."""
        try:
            return os.read(self.master, 65536)
        except OSError:
            return b""

    def type_keys(self, keys: bytes) -> None:
        """Pass keys on; Ctrl-C and its like become signals here, as in any terminal."""
        with contextlib.suppress(OSError):
            os.write(self.master, keys)

    def resize(self, size: bytes) -> None:
        """Take over a window size (the packed `struct winsize` of another terminal)."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, size)

    def interrupt(self) -> None:
        """Send SIGINT to the foreground process group."""
        with contextlib.suppress(OSError):
            os.killpg(os.tcgetpgrp(self.master), signal.SIGINT)

    def spawn(self, command: str, cwd: str, umask: int) -> tuple[int, str | None]:
        """Start `bash -c command` as the leader of a new session in this terminal; return (pid, error)."""
        modes = termios.tcgetattr(self._slave)
        modes[3] &= ~(termios.ECHO | termios.ECHONL)
        termios.tcsetattr(self._slave, termios.TCSANOW, modes)
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._become(command, cwd, umask, writer)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            return pid, pipe.read().decode(errors="replace") or None

    def _become(self, command: str, cwd: str, umask: int, error_pipe: int) -> None:
        """In the child: take the terminal, undo our signal settings, become the shell. Never returns."""
        try:
            os.setsid()
            fcntl.ioctl(self._slave, termios.TIOCSCTTY, 0)
            for target in (0, 1, 2):
                os.dup2(self._slave, target)
            signal.set_wakeup_fd(-1)
            for signum in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                with contextlib.suppress(OSError, ValueError):
                    signal.signal(signum, signal.SIG_DFL)
            os.umask(umask)
            os.chdir(cwd)
            os.execvp("bash", ["bash", "-c", command])
        except OSError as error:
            os.write(error_pipe, os.fsencode(f"cannot start `bash -c` in {cwd}: {error}"))
        finally:
            os._exit(127)
