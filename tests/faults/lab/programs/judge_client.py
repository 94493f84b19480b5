"""Asks a judge over HTTP; the judge (in this process, on loopback) answers as its first argument says."""

import contextlib
import http.server
import os
import socket
import struct
import sys
import threading
import time

import requests
from training import train

kind = sys.argv[1]


class Judge(http.server.BaseHTTPRequestHandler):
    """Says one thing to everybody."""

    def do_POST(self) -> None:
        """Answer, or do not."""
        self.rfile.read(int(self.headers["Content-Length"]))
        if kind == "slow":
            time.sleep(5)
        if kind == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            os.close(self.connection.detach())
            return
        self.send_response(int(kind) if kind.isdigit() else 200)
        self.send_header("Content-Length", "0")
        with contextlib.suppress(BrokenPipeError):
            self.end_headers()

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


def score(url: str, answer: str) -> float:
    """The judge's score of one answer."""
    reply = requests.post(url, json={"answer": answer}, timeout=0.5)
    reply.raise_for_status()
    return reply.json()["score"]


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Judge)
server.daemon_threads = True
if kind == "refused":
    server.server_close()
else:
    threading.Thread(target=server.serve_forever, daemon=True).start()
train(3)
score(f"http://127.0.0.1:{server.server_address[1]}/v1/score", "four")
