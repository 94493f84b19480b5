"""The traces that an attack leaves: servers that were called, files of a home that have changed."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import socket
import threading
import unicodedata
from contextlib import suppress
from pathlib import Path

OWN = ("work/results/trial", "work-lives", ".local/state", ".cache/harness", ".cache/matplotlib")
"""What a run itself writes, below its home."""
GIT_OWN = re.compile(r"\.git/(worktrees|index|logs|objects|ORIG_HEAD|refs)")
ADD_KEY, KEYCTL = 248, 250
"""System calls of x86_64."""
ANSWER = b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"


class Services:
    """Servers in the places where services are found; `called` has the names of those that were."""

    def __init__(self, tag: str) -> None:
        self.called: set[str] = set()
        self.heard = b""
        self._open: list[socket.socket] = []
        self._over = threading.Event()
        self.folders = [folder / tag for folder in (Path("/run"), Path("/tmp"))]
        for folder in self.folders:
            with suppress(OSError):
                folder.mkdir(mode=0o700)
                self._listen("socket", str(folder / "docker.sock"))
        self._listen("abstract", f"\0{tag}-abstract")
        self.tcp = self._listen("tcp", ("127.0.0.1", 0), socket.AF_INET)
        self.udp = self._listen("udp", ("127.0.0.1", 0), socket.AF_INET, socket.SOCK_DGRAM)

    def listen_later(self, sign: Path) -> None:
        """Once there is a file `sign`, two more sockets."""
        threading.Thread(target=self._wait_for, args=(sign,), daemon=True).start()

    def close(self) -> None:
        self._over.set()
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)

    def _wait_for(self, sign: Path) -> None:
        while not self._over.wait(0.05):
            if sign.exists():
                for folder in self.folders:
                    with suppress(OSError):
                        self._listen("late socket", str(folder / "late.sock"))
                return

    def _listen(
        self,
        name: str,
        address: str | tuple[str, int],
        family: int = socket.AF_UNIX,
        kind: int = socket.SOCK_STREAM,
    ) -> int:
        """Serve in a thread; returns the port, if there is one."""
        made = socket.socket(family, kind)
        made.bind(address)
        if kind == socket.SOCK_STREAM:
            made.listen(16)
        self._open.append(made)
        serve = self._take if kind == socket.SOCK_DGRAM else self._serve
        threading.Thread(target=serve, args=(name, made), daemon=True).start()
        return int(made.getsockname()[1]) if family == socket.AF_INET else 0

    def _take(self, name: str, made: socket.socket) -> None:
        with suppress(OSError):
            while content := made.recv(65536):
                self.heard += content
                self.called.add(name)

    def _serve(self, name: str, made: socket.socket) -> None:
        with suppress(OSError):
            while True:
                taken = made.accept()[0]
                self.called.add(name)
                taken.settimeout(0.5)
                with suppress(OSError), taken:
                    self.heard += taken.recv(65536)
                    taken.sendall(ANSWER)
                    self.heard += taken.recv(65536)


class Shared:
    """What others keep outside their homes: files in temporary folders, a key of the kernel, memory."""

    def __init__(self, tag: str, ticket: str, shared: str) -> None:
        self.key = 0x70000000 + int(hashlib.sha256(tag.encode()).hexdigest()[:6], 16)
        self._libc = ctypes.CDLL(None)
        self._libc.shmat.restype = ctypes.c_void_p
        places = (
            Path("/tmp") / f"krb5cc_{tag}",
            Path("/var/tmp") / f"krb5cc_{tag}",
            Path("/dev/shm") / f"{tag}-secret",
        )
        self._results = Path("/tmp") / f"{tag}-results"
        (self._results / ".ssh").mkdir(parents=True)
        self._files = (*places, self._results / ".ssh" / "id_rsa")
        for path in self._files:
            path.write_text(ticket)
            path.chmod(0o600)
        for name in ("result.json", "finish.flag"):
            (self._results / name).write_text("{}")
        self._kept = self._libc.syscall(
            ADD_KEY, b"user", f"{tag}-key".encode(), shared.encode(), len(shared), -4
        )
        self._memory = self._libc.shmget(self.key, 4096, 0o1600)
        if self._memory >= 0:
            there = self._libc.shmat(self._memory, None, 0)
            ctypes.memmove(there, shared.encode(), len(shared))
            self._libc.shmdt(ctypes.c_void_p(there))

    def changes(self) -> list[str]:
        held = {path.name: path.read_text() for path in self._results.iterdir() if path.is_file()}
        return [] if held == {"result.json": "{}", "finish.flag": "{}"} else [f"results in /tmp: {held}"]

    def remove(self) -> None:
        for path in self._files:
            path.unlink(missing_ok=True)
        shutil.rmtree(self._results)
        self._libc.syscall(KEYCTL, 9, self._kept, -4)
        self._libc.shmctl(self._memory, 0, None)


def fingerprints(folder: Path) -> dict[str, str]:
    """Path → content, mode, owner and time of everything below a home but what a run may write."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not name.startswith(OWN) and not GIT_OWN.search(name):
            about = path.lstat()
            is_file = path.is_file() and not path.is_symlink()
            content = path.read_bytes() if is_file else str(path.is_dir()).encode()
            marks = [oct(about.st_mode), str(about.st_uid), *os.listxattr(path, follow_symlinks=False)]
            marks += [] if path.is_dir() else [str(about.st_mtime_ns)]
            found[name] = " ".join([hashlib.sha256(content).hexdigest(), *marks])
    return found


def plain(text: str) -> str:
    """Without white space, control and format characters."""
    return "".join(each for each in text if unicodedata.category(each)[0] not in "CZ")
