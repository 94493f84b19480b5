"""A tmux session of ours: create it empty, type one line into it, look at it, kill it.

Targets are exact (`=name`), so a session is never mistaken for one whose name begins alike. Sessions we
create carry the user option `@ajet_owner`; only those can be killed through this module. The server is
chosen by the `socket` parameter (a `tmux -L` name), else by the environment variable AJET_TMUX_SOCKET, else
it is the default. No path is ever an argument of tmux, which would read it as a format or a command: a new
pane gets its folder from our process. A server that we start gets none of our environment but FOR_A_SERVER.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import unicodedata
from pathlib import Path

OWNER_OPTION = "@ajet_owner"
OWNER = "monitors"
SOCKET_VARIABLE = "AJET_TMUX_SOCKET"
HISTORY_LINES = 200_000
COLUMNS, ROWS = 200, 50
LONGEST_PURPOSE = 40
FOR_A_SERVER = re.compile(
    r"PATH|HOME|SHELL|USER|LOGNAME|TERM|TERMINFO(_DIRS)?|LANG|LANGUAGE|LC_\w+|TMUX|TMUX_TMPDIR|XDG_RUNTIME_DIR"
    r"|XDG_CONFIG_HOME|LD_LIBRARY_PATH"
)


class TmuxError(RuntimeError):
    """tmux is missing, refuses, or the session is not what it should be; the message says how to fix it."""


def session_name(purpose: str, experiment_id: str, attempt: int) -> str:
    """Name an attempt's session, `ajet_<purpose>-<experiment_id>-<NN>`.

    The purpose becomes lower-case ASCII words joined by '_', at most 40 characters, without the '.' and ':'
    that tmux reserves.
    """
    plain = unicodedata.normalize("NFKD", purpose.casefold()).encode("ascii", "ignore").decode()
    words = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")
    words = re.sub(r"^ajet_+", "", words)[:LONGEST_PURPOSE].strip("_") or "experiment"
    return f"ajet_{words}-{experiment_id}-{attempt:02d}"


class Session:
    """A handle on one tmux session, by name; it holds nothing that tmux does not."""

    def __init__(self, name: str, socket: str | None = None) -> None:
        self.name = name
        self.socket = socket or os.environ.get(SOCKET_VARIABLE) or None

    @classmethod
    def create(cls, name: str, cwd: Path, socket: str | None = None) -> Session:
        """Create a detached session with a shell in `cwd` and no command.

        Raises TmuxError when tmux is missing, the name is taken or not allowed, or the folder does not exist.
        """
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]*", name):
            raise TmuxError(
                f"tmux session name {name!r} is not possible: use letters, digits, '_' and '-' only"
            )
        session = cls(name, socket)
        if session.exists():
            raise TmuxError(
                f"tmux session {name!r} is already there: look at it with"
                f" `{shlex.join(session.attach_argv())}`, or choose another name"
            )
        # A pane's history is fixed when it is made, by an option of its session: so the session comes first,
        # with a pane that does not stay, and the option that everybody shares is left alone.
        session._tmux(
            *("new-session", "-d", "-E", "-s", name, "-x", str(COLUMNS), "-y", str(ROWS), "sleep 60", ";"),
            *("set-option", "-t", session._pane, "history-limit", str(HISTORY_LINES), ";"),
            *("set-option", "-t", session._pane, OWNER_OPTION, OWNER, ";"),
            *("new-window", "-k", "-t", f"{session._pane}^"),
            cwd=cwd,
        )
        return session

    @classmethod
    def find(cls, name: str, socket: str | None = None) -> Session | None:
        """Return the session of exactly this name, or None."""
        session = cls(name, socket)
        return session if session.exists() else None

    @classmethod
    def find_anywhere(cls, name: str) -> Session | None:
        """Return the session of exactly this name, also when another of this user's tmux servers has it."""
        folder = Path(os.environ.get("TMUX_TMPDIR") or "/tmp") / f"tmux-{os.getuid()}"
        sockets = sorted(path.name for path in folder.glob("*") if path.is_socket())
        return cls.find(name) or next(filter(None, (cls.find(name, socket) for socket in sockets)), None)

    def type_line(self, text: str) -> None:
        """Type one line and press Enter. Raises TmuxError if the session is gone or the text has breaks."""
        if "\n" in text or "\r" in text:
            raise TmuxError("type_line takes one line; put longer commands into a script")
        to = ("send-keys", "-t", self._pane)
        self._tmux(*to, "-l", "--", text, ";", *to, "Enter")

    def capture(self, lines: int = 200) -> list[str]:
        """Return the last `lines` lines of screen and history, trailing blank lines left out."""
        shown = self._tmux("capture-pane", "-p", "-J", "-S", f"-{lines}", "-t", self._pane)
        while shown and not shown[-1].strip():
            shown.pop()
        return shown[-lines:]

    def exists(self) -> bool:
        """Say whether the session is there now."""
        return self._run("has-session", "-t", f"={self.name}").returncode == 0

    def pane_pid(self) -> int:
        """Return the pid of the process in the session's pane (its shell)."""
        return int(self._tmux("display-message", "-p", "-t", self._pane, "#{pane_pid}")[0])

    def pane_pids(self) -> list[int]:
        """Return the pids of the processes in all the session's panes."""
        return [
            int(pid) for pid in self._tmux("list-panes", "-s", "-t", f"={self.name}", "-F", "#{pane_pid}")
        ]

    def is_ours(self) -> bool:
        """Say whether this module created the session."""
        return bool(self._output("show-options", "-v", "-t", self._pane, OWNER_OPTION))

    def kill(self) -> None:
        """Kill the session, if it is there. Raises TmuxError if it is somebody else's."""
        if not self.exists():
            return
        if not self.is_ours():
            raise TmuxError(
                f"tmux session {self.name!r} was not created by us, so it is not killed here;"
                f" if you mean it: tmux kill-session -t '={self.name}'"
            )
        self._tmux("kill-session", "-t", f"={self.name}")

    def attach_argv(self) -> list[str]:
        """Return the command a person runs to look at the session."""
        server = ["-L", self.socket] if self.socket else []
        return ["tmux", *server, "attach-session", "-t", f"={self.name}"]

    def switch_argv(self, tmux: str) -> list[str] | None:
        """Return the command that shows the session to a person who is in tmux already; None where it is on
        another server than theirs. `tmux`: the variable TMUX."""
        ours = self._output("display-message", "-p", "-t", self._pane, "#{socket_path}")
        theirs = Path(tmux.rsplit(",", 2)[0])
        is_same = bool(ours) and Path(ours[0]).resolve() == theirs.resolve()
        return ["tmux", "switch-client", "-t", f"={self.name}"] if is_same else None

    @property
    def _pane(self) -> str:
        return f"={self.name}:"

    def _run(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        server = ["-L", self.socket] if self.socket else []
        # A last ';' would end tmux's command.
        words = [f"{word[:-1]}\\;" if word.endswith(";") and word != ";" else word for word in arguments]
        bare = {name: value for name, value in os.environ.items() if FOR_A_SERVER.fullmatch(name)}
        try:
            return subprocess.run(
                ["tmux", *server, *words],
                cwd=cwd,
                env=bare,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=False,
            )
        except OSError as error:
            if cwd is not None and error.filename == cwd:
                why = f"{cwd}: {error.strerror}"
                raise TmuxError(f"cannot create tmux session {self.name!r} in {why}") from None
            raise TmuxError(
                "tmux is not installed; type `sudo apt-get install tmux` (Debian, Ubuntu),"
                " `sudo dnf install tmux` (Fedora), or `brew install tmux` (macOS)"
            ) from None

    def _tmux(self, *arguments: str, cwd: Path | None = None) -> list[str]:
        result = self._run(*arguments, cwd=cwd)
        if result.returncode != 0:
            said = " ".join(result.stderr.split()) or f"status {result.returncode}"
            raise TmuxError(f"tmux {arguments[0]} failed for session {self.name!r}: {said}")
        return result.stdout.rstrip("\n").split("\n")

    def _output(self, *arguments: str) -> list[str]:
        """Ask tmux something that it may not be able to answer."""
        result = self._run(*arguments)
        return result.stdout.rstrip("\n").split("\n") if result.returncode == 0 and result.stdout else []
