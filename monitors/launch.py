"""Starts a command the supervised way: writes `launch.sh`, types one line into the session.

The script creates `started/` first and stops if it is there, so typing the line twice never launches twice.
Its environment is explicit, because a tmux pane has the environment of the tmux server. Secrets pass through
a private file that the script deletes after reading; they are never written into the script.
"""

import contextlib
import json
import os
import re
import shlex
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from monitors.attempt_processes import end, group_of, members_of_group, remove_group, still_there
from monitors.files import AttemptFiles, is_alive
from monitors.processes import ATTEMPT_VARIABLE, boot_id, family, send_signal
from monitors.records import scratch_of, write_atomically
from monitors.tmux import Session, TmuxError

SUPERVISOR = Path(__file__).with_name("supervise.py")
SECRET_NAME = re.compile(
    r"SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|APIKEY|(^|_)(KEYS?|TOKEN|PASS|AUTH|PAT|COOKIE)(_|$)",
    re.IGNORECASE,
)
URL_WITH_LOGIN = re.compile(r"://[^\s/@]+@")

# What belongs to the terminal a launch was asked for in, not to the command.
OF_A_TERMINAL = re.compile(
    r"TMUX|TMUX_PANE|TERM|TERMCAP|PWD|OLDPWD|SHLVL|_|COLUMNS|LINES|SSH_TTY|AJET_ATTEMPT_ID"
)


class LaunchError(ValueError):
    """The launch was described in a way that cannot work; the message says what to change."""


@dataclass(frozen=True)
class LaunchSpec:
    """One launch.

    `command`, `prepare`, `evaluate`, `cleanup`: shell text, run by `bash -c` in `cwd`; several lines are
    allowed. `evaluate` runs after a command that exited with status 0, with a log of its own.
    `env`: their variables, all of them but TERM, which is the pane's; `secret_env`: the same, but kept out
    of every file that stays (variables of `env` that look secret, by name or as the URL of a proxy with its
    password, are treated so too). `deadline_uptime`: seconds after the boot (`processes.uptime`) at which
    everything is killed, or None. `grace_s`: seconds between TERM and KILL.
    `most_open_files`: raise the limit of open files to the highest that is allowed. `spare_daemons`: what
    has left the command's descendants and does not carry the attempt's id is not of the attempt, as a tmux
    server that a watching harness has started.
    """

    attempt_dir: Path
    attempt_id: str
    session_name: str
    command: str
    cwd: Path
    env: dict[str, str] = field(default_factory=dict)
    secret_env: dict[str, str] = field(default_factory=dict)
    prepare: str | None = None
    evaluate: str | None = None
    cleanup: str | None = None
    deadline_uptime: float | None = None
    grace_s: float = 10.0
    most_open_files: bool = False
    spare_daemons: bool = False
    supervisor_python: str = sys.executable


def is_secret_name(name: str) -> bool:
    """Say whether a variable of this name probably holds a secret (`WANDB_API_KEY`, `HF_TOKEN`, ...)."""
    return SECRET_NAME.search(name) is not None


def _is_secret(name: str, value: str) -> bool:
    return is_secret_name(name) or URL_WITH_LOGIN.search(value) is not None


def environment_of_caller() -> dict[str, str]:
    """Return this process's environment as a command shall see it that is launched as if typed here."""
    return {
        name: value
        for name, value in os.environ.items()
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and not OF_A_TERMINAL.fullmatch(name)
    }


def state_home() -> Path:
    """Return the folder for state that outlives a run (`$XDG_STATE_HOME/harness`)."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "harness"


def write_script(spec: LaunchSpec) -> Path:
    """Write `launch.sh` (mode 0700) and, if there are secrets, the private file it reads and deletes.

    Raises LaunchError for an attempt id or variable name that no shell could carry.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", spec.attempt_id):
        raise LaunchError(f"attempt id {spec.attempt_id!r}: use letters, digits, '.', '_' and '-' only")
    for name in (*spec.env, *spec.secret_env):
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise LaunchError(f"{name!r} cannot be the name of an environment variable")
    secrets = {name: value for name, value in spec.env.items() if _is_secret(name, value)} | spec.secret_env
    plain = {"PATH": os.defpath, **{name: value for name, value in spec.env.items() if name not in secrets}}
    files = AttemptFiles(spec.attempt_dir)
    files.dir.mkdir(parents=True, exist_ok=True)
    secret_file = _secret_file(spec.attempt_id) if secrets else None
    if secret_file is not None:
        secret_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lines = [f"export {name}={shlex.quote(value)}\n" for name, value in sorted(secrets.items())]
        write_atomically(secret_file, "".join(lines))
    write_atomically(files.script, "\n".join(_script_lines(spec, files, plain, secret_file)) + "\n", 0o700)
    return files.script


def launch(spec: LaunchSpec) -> Session:
    """Write the script and type one line that runs it in the session of the spec's name, which is created
    where there is none; doing so again changes nothing.

    Also notes which attempt belongs to the session, so that `find_attempt` knows when the session is gone.
    Raises TmuxError when tmux refuses, a few times because a server that is just leaving refuses, too.
    """
    files, session = AttemptFiles(spec.attempt_dir), Session(spec.session_name)
    if files.started.exists():
        return session
    write_script(spec)
    note = {"attempt_dir": str(files.dir), "attempt_id": spec.attempt_id, "socket": session.socket}
    index = _index_file(session.name)
    with contextlib.suppress(OSError):  # a launch does not fail for what only finds it again
        index.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(index, note)
    for pause_s in (*PAUSES_S, None):
        try:
            if not session.exists():
                Session.create(session.name, spec.cwd)
            type_launch_line(files, session)
            break
        except TmuxError:
            if pause_s is None:
                _forget(_secret_file(spec.attempt_id))
                raise
            time.sleep(pause_s)
    return session


PAUSES_S = (0.05, 0.1, 0.2, 0.4)
"""Before tmux is asked again after it refused."""
SWALLOWED_AFTER_S = 15.0
"""A line that has begun nothing for so long may have been swallowed by what the shell runs at its start."""


def type_launch_line(files: AttemptFiles, session: Session) -> None:
    """Type the line that runs the attempt's `launch.sh`; typing it again has no effect once it has run. What
    is typed is plain ASCII on one line whatever the path, for any shell with any settings."""
    path = str(files.script)
    if path.isascii() and path.isprintable() and not set(path) & set("!\\"):
        session.type_line(f"bash {shlex.quote(path)}")
        return
    octal = re.sub(rb"[^\w/.-]", lambda found: b"\\%03o" % found[0][0], os.fsencode(path)).decode()
    session.type_line(shlex.join(["bash", "-c", f"exec bash $'{octal}'"]))


def withdraw(files: AttemptFiles) -> bool:
    """Keep a launch that has not begun from ever beginning; say whether that was in time."""
    try:
        files.started.mkdir()
    except FileExistsError:
        return False
    return True


def find_attempt(session_name: str, socket: str | None) -> AttemptFiles | None:
    """Return the attempt last launched in a session of this name, also when the session is gone."""
    try:
        note = json.loads(_index_file(session_name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if note["socket"] != socket or not Path(note["attempt_dir"]).is_dir():
        return None
    return AttemptFiles(Path(note["attempt_dir"]))


def stop(files: AttemptFiles, timeout_s: float = 0.0) -> bool:
    """Have the supervisor end the attempt (TERM, grace, KILL, cleanup); `exit.json` then says `stopped`.

    Waits up to `timeout_s` for that, and before it for an attempt that is only just starting. Returns whether
    the attempt is over.
    """
    give_up = time.monotonic() + timeout_s
    while files.state() == "not_started" and time.monotonic() < give_up:
        time.sleep(0.02)
    info = files.supervisor()
    if info is None or not is_alive(info):
        return files.state() in ("ended", "lost")
    send_signal(info.pid, signal.SIGTERM)
    while is_alive(info) and time.monotonic() < give_up:
        time.sleep(0.02)
    return not is_alive(info)


def leftovers(files: AttemptFiles, attempt_id: str) -> set[int]:
    """Find what still runs of an attempt: what carries its id or descends from that, what is in its control
    group, and what its supervisor noted last on this boot."""
    beat = files.heartbeat()
    noted = beat.family if beat is not None and beat.boot_id == boot_id() else ()
    known = members_of_group(_group(files, attempt_id)) | still_there(noted)
    return family(attempt_id, known)


def kill_leftovers(files: AttemptFiles, attempt_id: str, grace_s: float = 5.0) -> set[int]:
    """End whatever is left of an attempt, for when its supervisor was killed; return those pids.

    TERM first, KILL after `grace_s`; secrets that no script came to read, and an exit record that was never
    written, are deleted. Call it only for an attempt whose supervisor is dead.
    """
    _forget(_secret_file(attempt_id))
    ended = end(lambda: leftovers(files, attempt_id), grace_s, time.sleep)
    remove_group(_group(files, attempt_id))
    _forget(scratch_of(files.exit_file))
    return ended


def _forget(path: Path) -> None:
    for each in (path, scratch_of(path)):
        with contextlib.suppress(OSError):
            each.unlink(missing_ok=True)


def _group(files: AttemptFiles, attempt_id: str) -> Path | None:
    beat = files.heartbeat()
    return group_of(attempt_id, beat.group) if beat is not None else None


def _script_lines(
    spec: LaunchSpec, files: AttemptFiles, env: dict[str, str], secret_file: Path | None
) -> list[str]:
    quote = shlex.quote
    options = ["--dir", str(files.dir), "--attempt-id", spec.attempt_id, "--grace", str(spec.grace_s)]
    options += ["--cwd", str(Path(spec.cwd).absolute())]
    options += ["--deadline", repr(spec.deadline_uptime)] if spec.deadline_uptime is not None else []
    options += ["--prepare", spec.prepare] if spec.prepare else []
    options += ["--evaluate", spec.evaluate] if spec.evaluate else []
    options += ["--cleanup", spec.cleanup] if spec.cleanup else []
    options += ["--spare-daemons"] if spec.spare_daemons else []
    failure = json.dumps({"attempt_id": spec.attempt_id, "reason": "could_not_start", "status": None})
    error = f"cannot run the supervisor with {spec.supervisor_python}"
    record = quote(failure[:-1] + f', "error": {json.dumps(error)}}}')
    started, exit_file = quote(str(files.started)), quote(str(files.exit_file))
    return [
        "#!/usr/bin/env bash",
        f"# Starts attempt {spec.attempt_id} in tmux session {spec.session_name}, once.",
        "trap '' HUP INT QUIT TSTP",
        f"mkdir {started} 2>/dev/null || {{ echo 'this attempt has already been launched'; exit 0; }}",
        'for name in $(compgen -e); do [ "$name" = TERM ] || unset "$name"; done',  # the tmux server's
        *(f"export {name}={quote(value)}" for name, value in sorted(env.items())),
        *([f". {quote(str(secret_file))}; rm -f {quote(str(secret_file))}"] if secret_file else []),
        f"export {ATTEMPT_VARIABLE}={quote(spec.attempt_id)}",
        *(['ulimit -S -n "$(ulimit -H -n)"'] if spec.most_open_files else []),
        "shopt -s execfail",
        shlex.join(
            ["exec", spec.supervisor_python, "-I", "-S", str(SUPERVISOR), *options, "--", spec.command]
        ),
        f"printf '%s\\n' {record} > {exit_file}.tmp && mv {exit_file}.tmp {exit_file}",
        "exit 127",
    ]


def _secret_file(attempt_id: str) -> Path:
    return state_home() / "env" / f"{attempt_id}.sh"


def _index_file(session_name: str) -> Path:
    return state_home() / "sessions" / session_name / "current.json"
