"""A server on loopback, in this process, that gives everybody the same answer."""

import http.server
import os
import socket
import struct
import threading
from collections.abc import Callable

Handler = http.server.BaseHTTPRequestHandler


def serve(answer: Callable[[Handler], None]) -> http.server.ThreadingHTTPServer:
    """Start a server that reads each request and leaves the rest to `answer`."""

    class Answer(Handler):
        def do_POST(self) -> None:  # noqa: N802
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer(self)

        do_GET = do_HEAD = do_POST  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def reply(handler: Handler, status: int, body: bytes = b"", **headers: str) -> None:
    """Send an answer; the `_` of a header's name is a dash."""
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def hang_up(handler: Handler) -> None:
    """Reset the connection."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os.close(handler.connection.detach())
