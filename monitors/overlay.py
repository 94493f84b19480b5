"""Runs a command that sees a folder as it is, and whose changes to it nobody else sees.

Started by path, `python -I -S overlay.py FOLDER SCRATCH KEPT... -- COMMAND...`. What the command writes into
FOLDER goes to SCRATCH (an overlay of the Linux kernel in a mount namespace of its own, which needs no
rights); what it writes into a KEPT folder in it, or into another file system below it, is really written.
Where that cannot be done the status is 126 and the command is not run. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

NOT_SET_UP = 126
PROBE_S = 10.0
_NEW_MOUNTS, _NEW_USER = 0x20000, 0x10000000
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000


def program(folder: Path, scratch: Path, kept: list[Path]) -> list[str]:
    """What runs a command that follows it so."""
    places = [str(path) for path in (folder, scratch, *kept)]
    return [sys.executable, "-I", "-S", str(Path(__file__).resolve()), *places, "--"]


def works(folder: Path, scratch: Path) -> bool:
    """True if this folder can be seen so on this machine."""
    try:
        tried = subprocess.run(
            [*program(folder, scratch, []), "true"], capture_output=True, timeout=PROBE_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return tried.returncode == 0


def remove(scratch: Path) -> None:
    """Remove what was written."""
    if (own := scratch / "work" / "work").is_dir():
        own.chmod(0o700)  # the kernel makes it without any rights
    shutil.rmtree(scratch, ignore_errors=True)


def enter(folder: str, scratch: str, kept: list[str]) -> None:
    """See the folder so from here on. Raises OSError."""
    here, user, group = Path.cwd(), os.geteuid(), os.getegid()
    if _call("unshare", _NEW_MOUNTS):
        owner = Path(folder).stat()
        if (owner.st_uid, owner.st_gid) != (user, group):
            raise OSError(
                f"it belongs to user {owner.st_uid} and group {owner.st_gid}, not to those that run this"
            )
        _try("unshare", _NEW_MOUNTS | _NEW_USER)
        for name, text in (
            ("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")
        ):  # fmt: skip
            Path("/proc/self", name).write_text(text)
    opened = [(path, os.open(path, os.O_PATH)) for path in (*_mounted_below(folder), *kept)]
    layers = {"lowerdir": folder, "upperdir": f"{scratch}/upper", "workdir": f"{scratch}/work"}
    for name in ("upper", "work"):
        Path(scratch, name).mkdir(mode=0o700, parents=True, exist_ok=True)
    _mount("none", "/", "", _RECURSIVE | _PRIVATE)
    given = ",".join(f"{name}={_escaped(path)}" for name, path in layers.items())
    _mount("overlay", folder, "overlay", 0, f"{given},userxattr")
    for path, descriptor in opened:
        _mount(f"/proc/self/fd/{descriptor}", path, "", _BIND | _RECURSIVE)
        os.close(descriptor)
    os.chdir(here)


def _mounted_below(folder: str) -> list[str]:
    """Where other file systems lie in the folder, which an overlay does not show."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    places = (re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), line.split(" ")[4]) for line in lines)
    return [place for place in places if place.startswith(f"{folder}/")]


def _escaped(path: str) -> str:
    return re.sub(r"([\\:,])", r"\\\1", path)


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    words = [os.fsencode(word) for word in (source, target, kind)]
    _try("mount", *words, ctypes.c_ulong(flags), os.fsencode(options))


def _try(name: str, *arguments: object) -> None:
    if number := _call(name, *arguments):
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _call(name: str, *arguments: object) -> int:
    """0, or the number of the error."""
    libc = ctypes.CDLL(None, use_errno=True)
    return 0 if getattr(libc, name)(*arguments) == 0 else ctypes.get_errno()


def main(argv: list[str]) -> int:
    """Returns only where the command could not be run."""
    places, command = argv[: argv.index("--")], argv[argv.index("--") + 1 :]
    try:
        enter(places[0], places[1], places[2:])
    except (OSError, AttributeError) as error:
        print(f"overlay: {places[0]} cannot be seen apart: {error}", file=sys.stderr)
        return NOT_SET_UP
    os.execvp(command[0], command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
