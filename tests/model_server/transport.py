"""HTTP on loopback: a request in, a `Delivery` out, byte by byte as planned, breaks included."""

import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event as Signal
from threading import Thread
from typing import Any


@dataclass(frozen=True)
class Delivery:
    """What is sent: a whole JSON body, or server-sent events as frames.

    When it is not `complete` the connection is closed where the frames end, after a silence of `silence_s`;
    without any frame not even a status line is sent.
    """

    status: int = 200
    frames: tuple[bytes, ...] = ()
    streamed: bool = False
    complete: bool = True
    silence_s: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)


def refusal(status: int, body: dict[str, Any], retry_after_s: float | None = None) -> Delivery:
    """An answer that is an error."""
    wait = {} if retry_after_s is None else {"retry-after": f"{retry_after_s:g}"}
    return Delivery(status, (json.dumps(body).encode(),), headers=wait)


Respond = Callable[[str, dict[str, str], bytes], Delivery]


class Loopback:
    """A server thread; `respond(path, headers, body)` decides. `release` ends every silence, also later."""

    def __init__(self, respond: Respond) -> None:
        self._released = Signal()
        self._connections: set[socket.socket] = set()
        self._httpd = ThreadingHTTPServer(("127.0.0.1", 0), self._handler(respond))
        self._httpd.daemon_threads = False
        self._thread = Thread(target=self._httpd.serve_forever, args=(0.02,), name="model-server")

    def start(self) -> None:
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._httpd.server_address[1]}"

    def release(self) -> None:
        self._released.set()

    def close(self) -> None:
        """Stop serving, close every connection, and wait for the threads."""
        self.release()
        self._httpd.shutdown()
        self._thread.join()
        for connection in list(self._connections):
            _hang_up(connection)
        self._httpd.server_close()

    def _handler(self, respond: Respond) -> type[BaseHTTPRequestHandler]:
        loopback = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                loopback._connections.add(self.connection)

            def finish(self) -> None:
                loopback._connections.discard(self.connection)
                super().finish()

            def handle(self) -> None:
                try:
                    super().handle()
                except ConnectionError:
                    self.close_connection = True  # the client has gone away, as clients may

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                loopback._send(self, respond(self.path.partition("?")[0], headers, body))

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing: a test reads the server's log instead."""

        return Handler

    def _send(self, handler: BaseHTTPRequestHandler, delivery: Delivery) -> None:
        if delivery.frames or delivery.complete:
            self._send_head(handler, delivery)
        for frame in delivery.frames:
            chunk = b"%x\r\n%b\r\n" % (len(frame), frame)
            handler.wfile.write(chunk if delivery.streamed else frame)
        if delivery.silence_s:
            self._released.wait(delivery.silence_s)
        if not delivery.complete:
            handler.close_connection = True
            _hang_up(handler.connection)
        elif delivery.streamed:
            handler.wfile.write(b"0\r\n\r\n")

    def _send_head(self, handler: BaseHTTPRequestHandler, delivery: Delivery) -> None:
        handler.send_response(delivery.status)
        kind = "text/event-stream; charset=utf-8" if delivery.streamed else "application/json"
        size = {"Content-Length": str(sum(map(len, delivery.frames)))}
        framing = {"Transfer-Encoding": "chunked"} if delivery.streamed else size
        for name, value in {"content-type": kind, **framing, **delivery.headers}.items():
            handler.send_header(name, value)
        handler.end_headers()


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the other side was quicker
