"""The process in the pane: shows the log as it grows, passes keys, interrupts and sizes to the supervisor.

It may be killed at any time; only the display is lost. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import selectors
import signal
import socket
import sys
import termios
import tty
from pathlib import Path
from typing import BinaryIO

from monitors.records import EVALUATION_LOG


class Front:
    """What a person sees and types into; holds nothing that the training needs. Runs in the attempt's
    folder."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.has_terminal = os.isatty(0) and os.isatty(1)

    def run(self) -> int:
        """Serve until the supervisor or the pane is gone; return the training's exit status."""
        saved = termios.tcgetattr(0) if self.has_terminal else None
        signal.signal(signal.SIGINT, lambda *_: self.tell(b"i"))
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        if saved:
            signal.signal(signal.SIGWINCH, lambda *_: self.tell_size())
            with contextlib.suppress(termios.error):
                tty.setraw(0)
            self.tell_size()
        try:
            self.serve()
        except OSError:
            return 1  # the pane is gone; the training is not
        finally:
            if saved:
                with contextlib.suppress(termios.error):
                    termios.tcsetattr(0, termios.TCSADRAIN, saved)
        return self.ending()

    def tell(self, frame: bytes) -> None:
        with contextlib.suppress(OSError):
            self.link.send(frame)

    def tell_size(self) -> None:
        with contextlib.suppress(OSError):
            self.tell(b"w" + fcntl.ioctl(1, termios.TIOCGWINSZ, b"\0" * 8))

    def serve(self) -> None:
        selector = selectors.DefaultSelector()
        selector.register(self.link, selectors.EVENT_READ, "link")
        if self.has_terminal:
            selector.register(0, selectors.EVENT_READ, "keys")
        with Path("pane.log").open("rb") as log, contextlib.ExitStack() as others:
            logs, alive = [log], True
            while alive:
                for key, _ in selector.select():
                    if key.data == "link":
                        frame = self.link.recv(4096)
                        alive = bool(frame)
                        if frame == b"e" and len(logs) == 1:
                            logs.append(others.enter_context(Path(EVALUATION_LOG).open("rb")))
                        for each in logs:
                            self.show(each)
                    elif keys := os.read(0, 4096):
                        self.tell(b"k" + keys)
                    else:
                        return

    def show(self, log: BinaryIO) -> None:
        """Print what the log gained; a pane that is more than 1 MB behind skips ahead."""
        if os.fstat(log.fileno()).st_size - log.tell() > 1 << 20:
            log.seek(-(1 << 18), os.SEEK_END)
        while data := log.read(65536):
            while data:
                data = data[os.write(1, data) :]

    def ending(self) -> int:
        """Say how the attempt ended, for whoever looks at the pane, and return its status."""
        try:
            record = json.loads(Path("exit.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            print("the supervisor of this attempt is gone; how the command ended is not known", flush=True)
            return 255
        status = record["status"] if record["status"] is not None else 1
        print(f"[attempt {record['attempt_id']}: {record['reason']}, status {record['status']}]", flush=True)
        return int(status)
