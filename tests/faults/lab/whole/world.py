"""What an experiment meets outside of itself: taken ports, judges with bad hours, small disks, a killer, a
folder of wheels. All of it is real, and gone when the experiment is over."""

import http.server
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.e2e.bench import Bench
from tests.faults.lab.confine import control_groups
from tests.faults.lab.types import Limits


class World:
    """Everything around one experiment on its bench."""

    def __init__(self, bench: Bench, at_end: ExitStack) -> None:
        self.bench = bench
        self._at_end = at_end

    def taken_port(self) -> int:
        """A port that somebody else listens on."""
        server = self._at_end.enter_context(socket.create_server(("", 0)))
        return int(server.getsockname()[1])

    def port_taken_at_launch(self) -> int:
        """A port that somebody else takes when the first attempt has just been launched."""
        port = _free_port()
        self._at_end.enter_context(_taking(self.bench, port))
        return port

    def judge(self, *bad_answers: int) -> str:
        """The address of a judge: its first answers have these status codes (0: it hangs up), later ones
        are good."""
        server = _Judge(list(bad_answers))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self._at_end.callback(server.server_close)
        self._at_end.callback(server.shutdown)
        return f"http://127.0.0.1:{server.server_address[1]}/score"

    def small_disk(self, name: str, megabytes: int) -> Path:
        """A folder of the codebase with a disk of its own."""
        folder = self.bench.codebase / name
        folder.mkdir()
        options = ["-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
        subprocess.run(["mount", *options], check=True)
        self._at_end.callback(subprocess.run, ["umount", "--lazy", str(folder)], check=True)
        return folder

    def process_group(self, most: int) -> Path:
        """A control group in which there may be so many processes and threads."""
        return self._at_end.enter_context(control_groups(Limits(processes=most)))[0]

    def killer(self, number: signal.Signals, after: str) -> None:
        """Sends the signal to the training of the first attempt once its log holds `after`."""
        self._at_end.enter_context(_killing(self.bench, number, after))

    def wheel(self, name: str, version: str) -> Path:
        """A folder with a wheel of that name, as a package index on this machine."""
        folder = self.bench.folder / "wheels"
        folder.mkdir()
        info = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/__init__.py", f'__version__ = "{version}"\n')
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            tags = "Wheel-Version: 1.0\nGenerator: lab\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            wheel.writestr(f"{info}/WHEEL", tags)
            wheel.writestr(f"{info}/RECORD", f"{name}/__init__.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n")
        return folder

    def environment(self) -> Path:
        """The interpreter of a virtual environment of the experiment's own; it has pip."""
        folder = self.bench.codebase / ".venv"
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        return folder / "bin" / "python"


class _Judge(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, bad_answers: list[int]) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.bad_answers = bad_answers


class _Answer(http.server.BaseHTTPRequestHandler):
    server: _Judge

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.bad_answers.pop(0) if self.server.bad_answers else 200
        if status == 0:
            reset_on_close = b"\1\0\0\0\0\0\0\0"
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset_on_close)
            os.close(self.connection.detach())
            return
        self.send_response(status)
        self.end_headers()
        self.wfile.write(b"1.0" if status == 200 else b"")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _free_port() -> int:
    """A free port that no connection gets by chance: below those that the kernel gives out."""
    while True:
        port = random.randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("", port)):
            return port


@contextmanager
def _taking(bench: Bench, port: int) -> Iterator[None]:
    started = bench.attempt(1) / "started"

    def watch() -> None:
        while not over.wait(0.005):
            if started.exists():
                taken.append(socket.create_server(("", port)))
                return

    over, taken = threading.Event(), list[socket.socket]()
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        for server in taken:
            server.close()


@contextmanager
def _killing(bench: Bench, number: signal.Signals, after: str) -> Iterator[None]:
    over = threading.Event()
    log = bench.attempt(1) / "pane.log"

    def watch() -> None:
        while not over.wait(0.02):
            with suppress(FileNotFoundError):
                if after in log.read_text(errors="replace"):
                    os.kill(int((bench.codebase / "pid").read_text()), number)
                    return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
