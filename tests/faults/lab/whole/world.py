"""What an experiment meets outside of itself: taken ports, judges with bad hours, small disks, a killer, a
folder of wheels. All of it is real, and gone when the experiment is over."""

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.e2e.bench import Bench
from tests.faults.lab.confine import control_groups
from tests.faults.lab.programs.loopback import Handler, hang_up, reply, serve
from tests.faults.lab.types import Limits
from tests.small_disk import small_disk


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
        port, servers = _free_port(), list[socket.socket]()
        self._at_end.callback(lambda: [server.close() for server in servers])
        started = self.bench.attempt(1) / "started"
        take = _once(started.exists, lambda: servers.append(socket.create_server(("", port))))
        self._at_end.enter_context(take)
        return port

    def judge(self, *bad_answers: int) -> str:
        """The address of a judge: its first answers have these status codes (0: it hangs up), later ones
        are good."""
        statuses = list(bad_answers)

        def answer(request: Handler) -> None:
            status = statuses.pop(0) if statuses else 200
            if status == 0:
                hang_up(request)
            else:
                reply(request, status, b"1.0" if status == 200 else b"")

        server = serve(answer)
        self._at_end.callback(server.server_close)
        self._at_end.callback(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}/score"

    def small_disk(self, name: str, megabytes: int) -> Path:
        """A folder of the codebase with a disk of its own."""
        return self._at_end.enter_context(small_disk(self.bench.codebase / name, megabytes))

    def process_group(self, most: int) -> Path:
        """A control group in which there may be so many processes and threads."""
        return self._at_end.enter_context(control_groups(Limits(processes=most)))[0]

    def killer(self, number: signal.Signals, after: str) -> None:
        """Sends the signal to the training of the first attempt once its log holds `after`."""
        pid = self.bench.codebase / "pid"
        kill = _once(lambda: after in self.bench.log(), lambda: os.kill(int(pid.read_text()), number))
        self._at_end.enter_context(kill)

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


def _free_port() -> int:
    """A free port that no connection gets by chance: below those that the kernel gives out."""
    while True:
        port = random.randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("", port)):
            return port


@contextmanager
def _once(happens: Callable[[], bool], act: Callable[[], object]) -> Iterator[None]:
    """Act in a thread, as soon as this happens."""

    def watch() -> None:
        while not over.wait(0.005):
            if happens():
                act()
                return

    over, watcher = threading.Event(), threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
