"""A model server on 127.0.0.1 that answers with prepared bytes and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """One prepared answer. `cut`: the connection ends before the body does. `hold`: what it waits for."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    cut: bool = False
    hold: threading.Event | None = None


@dataclass
class Asked:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class Loopback:
    """The server's address, what it will answer (the last answer again and again) and what it was asked."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: list[Answer] = []
        self.asked: list[Asked] = []
        self.begun = threading.Event()


@contextmanager
def loopback() -> Iterator[Loopback]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            state.asked.append(Asked(self.path, headers, body))
            answer = state.answers.pop(0) if len(state.answers) > 1 else state.answers[0]
            state.begun.set()
            if answer.hold is not None:
                answer.hold.wait(20)
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(answer.body) + (100 if answer.cut else 0)))
            self.end_headers()
            self.wfile.write(answer.body)
            self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    state = Loopback(f"http://127.0.0.1:{server.server_address[1]}")
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def error(status: int, body: Any, **headers: str) -> Answer:
    return Answer(json.dumps(body).encode(), status, {"content-type": "application/json", **headers})


def anthropic_events(*events: dict[str, Any]) -> bytes:
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


def openai_chunks(*chunks: dict[str, Any], done: bool = True) -> bytes:
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return "".join([*lines, "data: [DONE]\n\n"] if done else lines).encode()
