"""Runs a command in a sandbox: what its policy does not let it write it can only read, or not see.

Started by path, `python -I -S sandbox.py POLICY -- COMMAND...`. In: a policy (JSON, see `Policy`). It is put
into effect by bubblewrap, or by the kernel's Landlock. A sandbox that cannot be set up ends with one line and
status 126, and the command is not run. Standard library only.

Ctrl-C and TERM reach everything that runs, bubblewrap too, which would end at once and take the command with
it; so it ignores them, and the command, `--inside`, does not.
"""

from __future__ import annotations

import ctypes
import functools
import glob
import json
import os
import platform
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["bubblewrap", "landlock"]
Access = Literal["hide", "own", "read", "write"]
NOT_SET_UP = 126
PROBE_S = 10.0

_RANK = {"hide": 0, "own": 0, "read": 1, "write": 2}
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx")
_ACCELERATORS = (
    *("nvidia*", "dri", "kfd", "dxg", "infiniband", "accel", "vfio", "gdrdrv", "nvgpu", "nvmap", "nvhost*"),
    *("davinci*", "devmm_svm", "hisi_hdc"),
)
_LEADS_OUT = re.compile(
    r"SSH_(AUTH_SOCK|AGENT_PID)|GPG_AGENT_INFO|DBUS_\w+_ADDRESS|XDG_RUNTIME_DIR|DISPLAY|WAYLAND_DISPLAY|XAUTHORITY"
    r"|(DOCKER|CONTAINER|PODMAN)_HOST|TMUX\w*|STY|VSCODE_\w+|(GIT|SSH)_ASKPASS|SUDO_ASKPASS|KUBECONFIG"
)
"""Variables that lead to services of the person."""
_DISTURBING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)

# --- Landlock, as linux/landlock.h has it ---
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_NO_NEW_PRIVILEGES, _SET_SECCOMP = 38, 22
_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read a file, read a folder
_FILE = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # what can be allowed of a file: also write, cut, ioctl
_NODES = 1 << 6 | 1 << 11  # make devices, never allowed
_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 4: 15}  # how many rights there are; 16 from 5 on
_TCP = 0b11  # bind, connect
_SCOPES = 0b11  # abstract sockets, signals


@dataclass(frozen=True)
class Policy:
    """What the command may do. `places`: access by absolute path without links in it; of the paths that hold
    a file the longest decides. `own`: instead of such a folder it has a new, empty one to write (by Landlock:
    in it, with nothing else to see). `kept`: files and folders in a place that may be written that may not,
    as far as they are there (by bubblewrap only). `network`: False for none at all; Landlock stops TCP
    only."""

    kind: Kind
    places: Mapping[str, Access]
    kept: Sequence[str] = ()
    network: bool = True

    def there(self) -> dict[str, Access]:
        """The places that exist and differ from what holds them, outer ones first."""
        found: dict[str, Access] = {}
        for path in sorted(self.places, key=lambda path: (path.count("/"), path)):
            access = self.places[path]
            holds = max((each for each in found if _is_below(path, each)), key=len, default="")
            is_so_already = holds and (found[holds] == access or (found[holds], access) == ("own", "hide"))
            if os.path.exists(path) and not is_so_already:  # noqa: PTH110
                found[path] = access
        return found


OWN_FOLDER = "harness-sandbox-"
"""What the names of folders that it makes begin with; the id of the attempt follows."""


def read_policy(path: str | os.PathLike[str]) -> Policy:
    """The policy in this file. Raises OSError, ValueError, TypeError."""
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        return Policy(**json.load(file))


class SandboxError(Exception):
    """The sandbox cannot be set up."""


def _is_below(path: str, folder: str) -> bool:
    return path != folder and path.startswith(folder.rstrip("/") + "/")


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _own_folder(place: str) -> str:
    """A new folder in this place."""
    return tempfile.mkdtemp(prefix=f"{OWN_FOLDER}{os.environ.get('AJET_ATTEMPT_ID', '')}-", dir=place)


# --- calls that are refused: keyrings of the kernel, and typing into the terminal ---------------------------

_MACHINES = {"x86_64": (0xC000003E, 16, 248), "aarch64": (0xC00000B7, 29, 217)}
"""What the kernel calls the machine, and its numbers of ioctl and add_key; request_key and keyctl follow."""
_FOREIGN = 0x40000000
"""From here on calls have other numbers (x32)."""
_TYPING = (0x5412, 0x541C)
"""TIOCSTI, TIOCLINUX."""
_LOAD, _EQUAL, _AT_LEAST, _ANSWER = 0x20, 0x15, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001
"""What a filter answers; a refused call ends with EPERM."""
_NUMBER, _ARCHITECTURE, _REQUEST = 0, 4, 24
"""Where in linux/seccomp.h's `seccomp_data` they stand; the last is the second argument of ioctl."""


def _refused_calls() -> bytes:
    """A seccomp filter, as linux/filter.h has it; none for a machine whose numbers are not known here."""
    if platform.machine() not in _MACHINES:
        return b""
    machine, ioctl, add_key = _MACHINES[platform.machine()]
    lines = (  # operation, how many lines to skip where it is so and where it is not, operand
        *((_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 0, 10, machine)),
        *((_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 8, 0, _FOREIGN)),
        *((_EQUAL, 7 - n, 0, add_key + n) for n in range(3)),
        *((_EQUAL, 0, 3, ioctl), (_LOAD, 0, 0, _REQUEST)),
        *((_EQUAL, 2 - n, 0, request) for n, request in enumerate(_TYPING)),
        *((_ANSWER, 0, 0, _ALLOW), (_ANSWER, 0, 0, _REFUSE)),
    )
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def _refuse_calls() -> None:
    """Refuse them from now on. Needs no_new_privs."""
    if refused := _refused_calls():
        text = ctypes.create_string_buffer(refused)
        program = struct.pack("@HP", len(refused) // 8, ctypes.addressof(text))
        if _libc().prctl(_SET_SECCOMP, 2, program, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "a filter of system calls is refused")


def _readable(text: bytes) -> int:
    """A descriptor that programs started from here read this from."""
    file = os.memfd_create("filter", 0)
    os.write(file, text)
    os.lseek(file, 0, os.SEEK_SET)
    return file


# --- bubblewrap ---------------------------------------------------------------------------------------------

_KERNEL = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "mtrr", "driver", "dynamic_debug")
"""In /proc: settings of the whole machine, which root may write even without capabilities."""
_SURROUNDINGS = (
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
    *(word for name in _KERNEL for word in ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")),
    *(word for name in ("keys", "key-users") for word in ("--ro-bind-try", os.devnull, f"/proc/{name}")),
    *("--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL"),
)


@functools.cache
def bubblewrap_works() -> bool:
    """True if bubblewrap is installed and may do here what it has to."""
    program = shutil.which("bwrap")
    try:
        asked = [program or "bwrap", *_SURROUNDINGS, "--", "true"]
        return subprocess.run(asked, capture_output=True, timeout=PROBE_S, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def bubblewrap_command(policy: Policy, command: list[str]) -> list[str]:
    """The command line that runs the command by bubblewrap. What it leaves behind when it ends is still found
    and ended by its supervisor; `--die-with-parent` would end it together with the supervisor."""
    given = ["bwrap", *_SURROUNDINGS, *([] if policy.network else ["--unshare-net"])]
    if refused := _refused_calls():
        given += ["--seccomp", str(_readable(refused))]
    for device in _found_devices(_ACCELERATORS):
        given += ["--dev-bind", device, device]
    hidden = []
    for path, access in policy.there().items():
        if path == "/":
            continue
        if access == "own":
            given += ["--bind", _own_folder(path), path]
        elif access != "hide":
            given += ["--bind" if access == "write" else "--ro-bind", path, path]
        elif os.path.isdir(path):  # noqa: PTH112
            given += ["--tmpfs", path]
            hidden.append(path)
        else:
            given += ["--ro-bind", os.devnull, path]
    for path in filter(os.path.exists, policy.kept):
        given += ["--ro-bind", path, path]
    for path in hidden:
        given += ["--remount-ro", path]
    inside = [sys.executable, "-I", "-S", os.path.abspath(__file__), "--inside"]  # noqa: PTH100
    return [*given, "--chdir", os.getcwd(), "--", *inside, "--", *command]  # noqa: PTH109


def _found_devices(names: Sequence[str]) -> list[str]:
    return sorted(path for name in names for path in glob.glob(f"/dev/{name}"))  # noqa: PTH207


# --- Landlock -----------------------------------------------------------------------------------------------


def _call(number: int, *arguments: object) -> int:
    """A system call. Raises OSError."""
    result = _libc().syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(result)


@functools.cache
def landlock_abi() -> int:
    """Which version of Landlock this kernel has; 0 for none."""
    try:
        return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    except (OSError, AttributeError):
        return 0


def _ruleset(abi: int, files: int, tcp: int) -> int:
    """A new set of rules that denies these kinds of access and, where the kernel can, signals and abstract
    sockets to whoever is outside."""
    fields = (files, *((tcp,) if abi >= 4 else ()), *((_SCOPES,) if abi >= 6 else ()))
    attributes = struct.pack(f"={len(fields)}Q", *fields)
    return _call(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))


def _enter(ruleset: int) -> None:
    if _libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs is refused")
    _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)


def _drop_capabilities() -> None:
    header = struct.pack("=Ii", 0x20080522, 0)
    if _libc().capset(header, bytes(24)) != 0:
        raise OSError(ctypes.get_errno(), "the capabilities cannot be dropped")


def restrict(policy: Policy) -> None:
    """Put this process, and all that it starts, under the policy by Landlock."""
    abi = landlock_abi()
    if abi < 1:
        raise SandboxError("this kernel has no Landlock")
    if not policy.network and abi < 4:
        raise SandboxError("this kernel's Landlock cannot keep a program from the network")
    rights = (1 << _RIGHTS_BY_ABI.get(abi, 16)) - 1
    ruleset = _ruleset(abi, rights, 0 if policy.network else _TCP)
    allowed = {"read": _READ, "write": rights & ~_NODES}
    places = {**policy.there(), "/dev": "hide", "/dev/shm": "write"}
    for path, access in (*_allowed_places(places), *_own_folders(places)):
        _allow(ruleset, path, allowed[access] & rights)
    for device in (*_found_devices((*_DEVICES, *_ACCELERATORS)), *_terminal()):
        _allow(ruleset, device, _FILE & rights | _READ)
    _enter(ruleset)
    _refuse_calls()
    _drop_capabilities()


def _allowed_places(places: Mapping[str, Access]) -> Iterator[tuple[str, Access]]:
    """What is allowed as a whole. Whoever may look into a folder may look into all that it holds: so one with
    something inside that is allowed less is allowed entry by entry, as they are now."""

    def walk(path: str, access: Access) -> Iterator[tuple[str, Access]]:
        if all(_RANK[places[each]] >= _RANK[access] for each in places if _is_below(each, path)):
            yield path, access
            return
        try:
            entries = [entry.path for entry in os.scandir(path) if not entry.is_symlink()]
        except OSError:
            return
        for each in entries:
            if each not in places:
                yield from walk(each, access)

    for path, access in places.items():
        if access not in ("hide", "own"):
            yield from walk(path, access)


def _own_folders(places: Mapping[str, Access]) -> Iterator[tuple[str, Access]]:
    """The one in the place of temporary files is where the command makes its own."""
    temporary = os.path.realpath(tempfile.gettempdir())
    for path in (each for each, access in places.items() if access == "own"):
        own = _own_folder(path)
        if path == temporary:
            os.environ["TMPDIR"] = own
        yield own, "write"


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # gone, or not ours to open: not allowed
    try:
        is_folder = os.path.isdir(path)  # noqa: PTH112
        beneath = struct.pack("=Qi", rights if is_folder else rights & _FILE, place)
        _call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), beneath, ctypes.c_uint32(0))
    finally:
        os.close(place)


def _terminal() -> list[str]:
    return [os.ttyname(0)] if os.isatty(0) else [os.ttyname(1)] if os.isatty(1) else []


# --- the program --------------------------------------------------------------------------------------------


def run(policy: Policy, command: list[str]) -> None:
    """Become the command, in its sandbox. Raises SandboxError, OSError."""
    for name in filter(_LEADS_OUT.fullmatch, list(os.environ)):
        del os.environ[name]
    if policy.kind == "landlock":
        restrict(policy)
        os.execvp(command[0], command)
    if landlock_abi() >= 6 and os.stat(shutil.which("bwrap") or "/").st_mode & 0o4000 == 0:  # noqa: PTH116
        _enter(_ruleset(landlock_abi(), 0, 0))
    for signum in _DISTURBING:
        signal.signal(signum, signal.SIG_IGN)
    os.execvp("bwrap", bubblewrap_command(policy, command))


def main(argv: list[str]) -> int:
    """Run the command of `POLICY -- COMMAND...`; returns only where that is not possible."""
    if len(argv) < 3 or argv[1] != "--":
        print("usage: sandbox.py POLICY -- COMMAND...", file=sys.stderr)
        return NOT_SET_UP
    try:
        if argv[0] == "--inside":
            for signum in _DISTURBING:
                signal.signal(signum, signal.SIG_DFL)
            os.execvp(argv[2], argv[2:])
        run(read_policy(argv[0]), argv[2:])
    except (SandboxError, OSError, ValueError, TypeError, LookupError) as error:
        said = "harness: the sandbox cannot be set up, so the command is not run"
        print(f"{said}: {error}", file=sys.stderr)
    return NOT_SET_UP


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
