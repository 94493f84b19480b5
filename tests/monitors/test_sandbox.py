"""Real programs in a real sandbox of each kind: what they cannot see, change and reach, and what they can."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from monitors import sandbox
from monitors.files import AttemptFiles
from monitors.launch import kill_leftovers, stop
from monitors.processes import descendants, members_of_attempt, process_table, read_process, uptime
from monitors.wait import Waiter, WakeReason
from tests.monitors.tmux_world import PATIENCE_S, ending, log_shows, python, start, until

KINDS = [
    pytest.param(
        "bubblewrap",
        marks=pytest.mark.skipif(
            not sandbox.bubblewrap_works(), reason="bubblewrap is not installed, or may not do its work here"
        ),
    ),
    pytest.param(
        "landlock", marks=pytest.mark.skipif(sandbox.landlock_abi() < 6, reason="needs Landlock, ABI 6")
    ),
]
kinds = pytest.mark.parametrize("kind", KINDS)
PROJECT = (Path(sandbox.__file__).parents[1], Path(sys.prefix).resolve())
"""What the tests start, which may lie in /tmp, too."""


@pytest.fixture(autouse=True)
def no_folders_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Not those of another test process, whose mounts would go with them."""
    own = f"test{os.getpid()}"
    monkeypatch.setenv("AJET_ATTEMPT_ID", own)
    yield
    for left in Path("/tmp").glob(f"{sandbox.OWN_FOLDER}{own}-*"):
        shutil.rmtree(left, ignore_errors=True)


class Box:
    """A home with a secret, somebody's work, and the one folder that may be written."""

    def __init__(self, folder: Path, kind: str, network: bool = True) -> None:
        self.home, self.own, self.work = folder / "home", folder / "own", folder / "work"
        for each in (self.home / ".ssh", self.own, self.work, folder / "attempt"):
            each.mkdir(parents=True, exist_ok=True)
        (self.home / ".ssh" / "id_rsa").write_text("PRIVATE")
        (self.work / "train.py").write_text("print('as written')")
        (self.own / "heartbeat").write_text("alive")
        places = {
            **{"/": "read", "/tmp": "own", str(folder): "read", "/etc/shadow": "hide"},
            **{str(each): "read" for each in PROJECT},
            **{str(self.home / ".ssh"): "hide", str(self.own): "write"},
        }
        given = {"kind": kind, "places": places, "kept": [str(self.own / "heartbeat")], "network": network}
        self.policy = folder / "policy.json"
        self.policy.write_text(json.dumps(given))
        self.program = [sys.executable, "-I", "-S", sandbox.__file__, str(self.policy), "--", "bash", "-c"]

    def run(self, command: str, **more: Any) -> subprocess.CompletedProcess[str]:
        asked = [*self.program, command]
        return subprocess.run(asked, capture_output=True, text=True, check=False, cwd=self.own, **more)

    def python(self, program: str) -> subprocess.CompletedProcess[str]:
        return self.run(shlex.join([sys.executable, "-c", program]))


@kinds
def test_secrets_are_not_read(tmp_path: Path, kind: str) -> None:
    box = Box(tmp_path, kind)
    reads = [f"{box.home}/.ssh/id_rsa", "/etc/shadow", f"/proc/{os.getpid()}/environ", f"{box.home}/.ssh"]
    for path in reads:
        seen = box.run(f"cat {path} || ls -A {path}/")
        assert (seen.returncode == 0 and not seen.stdout) or seen.stderr, (path, seen)
        assert "PRIVATE" not in seen.stdout and "root" not in seen.stdout


@kinds
def test_temporary_files_are_its_own(tmp_path: Path, kind: str) -> None:
    """What others keep there, tickets and results, is not seen, and nothing of it stays for others."""
    box = Box(tmp_path, kind)
    with tempfile.NamedTemporaryFile("w", dir="/tmp", prefix="krb5cc_") as ticket:
        ticket.write("PRIVATE")
        ticket.flush()
        seen = box.run(f'cat {ticket.name} || echo mine > "$(mktemp -d)/x" && echo written')
    assert "PRIVATE" not in seen.stdout and seen.stdout.endswith("written\n")
    listed = box.python("import os, tempfile; print(*os.listdir(tempfile.gettempdir()))").stdout
    ours = {each.parts[2] for each in (tmp_path, *PROJECT) if each.is_relative_to("/tmp")}
    assert set(listed.split()) <= ours


@kinds
def test_no_keys_of_the_kernel_and_no_typing_for_the_person(tmp_path: Path, kind: str) -> None:
    """keyctl and TIOCSTI end with EPERM, whichever numbers the machine has for them."""
    program = (
        "import ctypes, fcntl, platform\n"
        "call = ctypes.CDLL(None, use_errno=True).syscall\n"
        "for number in {'x86_64': (248, 249, 250), 'aarch64': (217, 218, 219)}[platform.machine()]:\n"
        "    print(call(number, 0, 0, 0, 0), ctypes.get_errno())\n"
        "try:\n    fcntl.ioctl(0, 0x5412, b'x')\nexcept OSError as error:\n    print(error.errno)\n"
    )
    seen = Box(tmp_path, kind).python(program)
    assert seen.stdout == "-1 1\n" * 3 + "1\n", seen


@kinds
def test_only_what_is_named_is_written(tmp_path: Path, kind: str) -> None:
    box = Box(tmp_path, kind)
    outside = [box.work / "train.py", box.home / ".bashrc", tmp_path / "policy.json", tmp_path / "new"]
    for path in outside:
        before = path.read_text() if path.exists() else None
        for deed in ("echo pwned >> {}", "mv own-file {}", "ln -sf /x {}", "rm {}", "truncate -s 0 {}"):
            assert box.run(f"touch own-file; {deed.format(path)}").returncode != 0, (path, deed)
        assert (path.read_text() if path.exists() else None) == before
    writes = 'mkdir deep && echo yes > deep/er && mktemp -p "${TMPDIR:-/tmp}" && ln -s / l'
    assert not box.run(writes).returncode
    assert (box.own / "deep" / "er").read_text() == "yes\n"
    shared = "from multiprocessing import shared_memory as s; s.SharedMemory(create=True, size=9).unlink()"
    assert not box.python(shared).returncode


@kinds
def test_settings_of_the_machine_and_its_disks_are_out_of_reach(tmp_path: Path, kind: str) -> None:
    program = (
        "import os, glob\n"
        "for path in ('/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/sys/power/state',\n"
        "             *glob.glob('/dev/[vs]d*'), '/dev/mem', '/dev/kmsg'):\n"
        "    try:\n        os.open(path, os.O_WRONLY); print('opened', path)\n"
        "    except OSError: pass\n"
    )
    assert Box(tmp_path, kind).python(program).stdout == ""


@kinds
def test_other_processes_are_out_of_reach(tmp_path: Path, kind: str) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        seen = Box(tmp_path, kind).run(f"kill -KILL {other.pid}")
        assert seen.returncode != 0 and other.poll() is None
        other.kill()


@kinds
def test_without_network_nothing_outside_answers(tmp_path: Path, kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        program = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5); print('through')"
        assert "through" in Box(tmp_path, kind).python(program).stdout
        assert "through" not in Box(tmp_path, kind, network=False).python(program).stdout


@kinds
def test_sockets_of_services_do_not_answer(tmp_path: Path, kind: str) -> None:
    """An abstract one by either kind; one in the file system by bubblewrap, which alone can hide it."""
    names = [f"\0ajet-{os.getpid()}", str(tmp_path / "home" / ".ssh" / "agent.sock")]
    box = Box(tmp_path, kind)
    for name in names if kind == "bubblewrap" else names[:1]:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(name)
            server.listen()
            seen = box.python(f"import socket; socket.socket(socket.AF_UNIX).connect({name!r})")
            assert seen.returncode == 1 and "Error" in seen.stderr
    environment = {**os.environ, "SSH_AUTH_SOCK": "/x", "DOCKER_HOST": "y", "TMUX": "z"}
    assert box.run("echo $SSH_AUTH_SOCK$DOCKER_HOST$TMUX", env=environment).stdout == "\n"


@pytest.mark.parametrize("kind", KINDS[:1])
def test_what_the_harness_keeps_is_not_changed(tmp_path: Path, kind: str) -> None:
    box = Box(tmp_path, kind)
    box.run("rm -f heartbeat; mv heartbeat x; echo dead > heartbeat; ln -sf /etc/passwd heartbeat")
    assert (box.own / "heartbeat").read_text() == "alive" and not (box.own / "heartbeat").is_symlink()


@pytest.mark.parametrize("policy", ["{}", '{"kind": "landlock", "places": 3}', "no JSON", None])
def test_without_its_sandbox_nothing_is_run(tmp_path: Path, policy: str | None) -> None:
    box = Box(tmp_path, "landlock")
    box.policy.write_text(policy) if policy is not None else box.policy.unlink()
    seen = box.run("touch ran")
    assert seen.returncode == sandbox.NOT_SET_UP and not (box.own / "ran").exists()
    assert seen.stderr.startswith("harness: the sandbox cannot be set up, so the command is not run")


@kinds
@pytest.mark.parametrize(("command", "status"), [("exit 7", 7), ("kill -SEGV $$", 128 + signal.SIGSEGV)])
async def test_its_end_is_known(tmp_path: Path, kind: str, command: str, status: int) -> None:
    program = shlex.join([*Box(tmp_path, kind).program, command])
    end = await ending(*start(tmp_path / "01", f"exec {program}"))
    assert end.status == status


@kinds
async def test_a_stop_lets_it_save_and_leaves_nothing_behind(tmp_path: Path, kind: str) -> None:
    box = Box(tmp_path, kind)
    saves = f"trap 'echo saved > {box.own}/saved; exit 0' TERM"
    stubborn = "(trap '' TERM; while :; do sleep 0.1; done) &"
    program = shlex.join([*box.program, f"{saves}; {stubborn} echo ready; while :; do sleep 0.1; done"])
    files, session = start(tmp_path / "01", f"exec {program}", grace_s=2.0)
    await log_shows(files, "ready")
    assert stop(files, 60.0)
    end = await ending(files, session)
    assert end.reason == "stopped" and (box.own / "saved").exists()
    info = files.supervisor()
    assert info is not None and not members_of_attempt(info.attempt_id) - {info.front_pid}


def _below(files: AttemptFiles) -> set[int]:
    """All processes below the supervisor."""
    info = files.supervisor()
    return descendants(info.pid, list(process_table())) if info is not None else set()


def _name(pid: int) -> str:
    entry = read_process(pid)
    return entry.name if entry is not None else ""


@kinds
@pytest.mark.parametrize("end_by", ["deadline", "kill of the supervisor"])
async def test_nothing_inside_outlives_the_deadline_or_the_supervisor(
    tmp_path: Path, kind: str, end_by: str
) -> None:
    of_no_id = "setsid env -i sleep 501 &"
    command = f"(trap '' TERM HUP INT; exec setsid sleep 500) & {of_no_id} trap '' TERM; sleep 502; sleep 503"
    program = shlex.join([*Box(tmp_path, kind).program, command])
    ends_at = uptime() + (3.0 if end_by == "deadline" else 600.0)
    files, session = start(tmp_path / "01", f"exec {program}", deadline_uptime=ends_at, grace_s=0.3)
    await until(lambda: [_name(pid) for pid in _below(files)].count("sleep") == 3, "its start")
    inside, info = _below(files), files.supervisor()
    assert info is not None
    if end_by == "deadline":
        assert (await ending(files, session)).reason == "deadline"
    else:
        os.kill(info.pid, signal.SIGKILL)
        assert (await Waiter(files, session).wait(timeout=PATIENCE_S)).reason == WakeReason.LOST
        await asyncio.to_thread(kill_leftovers, files, info.attempt_id)
    await until(lambda: not any(map(read_process, inside)), "the end of all that ran inside")


@kinds
async def test_ctrl_c_in_the_pane_reaches_it(tmp_path: Path, kind: str) -> None:
    box = Box(tmp_path, kind)
    waits = "import time\ntry:\n print('ready', flush=True)\n time.sleep(60)\n"
    program = python(f"{waits}except KeyboardInterrupt:\n raise SystemExit(21)")
    files, session = start(tmp_path / "01", shlex.join([*box.program, program]))
    await log_shows(files, "ready")
    keys = ["tmux", "-L", os.environ["AJET_TMUX_SOCKET"], "send-keys", "-t", f"={session.name}:", "C-c"]
    await asyncio.to_thread(subprocess.run, keys, check=True)
    assert (await ending(files)).status == 21
