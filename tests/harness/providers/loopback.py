"""A model server on 127.0.0.1 that answers with prepared bytes and remembers what it was asked."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.model_server import transport
from tests.model_server.transport import Delivery


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
    def respond(path: str, headers: dict[str, str], content: bytes) -> Delivery:
        state.asked.append(Asked(headers, json.loads(content)))
        answer = state.answers.pop(0) if len(state.answers) > 1 else state.answers[0]
        state.begun.set()
        if answer.hold is not None:
            answer.hold.wait(20)
        frames = (answer.body,) if answer.body else ()
        return Delivery(answer.status, frames, True, not answer.cut, headers=answer.headers)

    server = transport.Loopback(respond)
    state = Loopback(server.url)
    server.start()
    try:
        yield state
    finally:
        server.close()


def error(status: int, body: Any, **headers: str) -> Answer:
    return Answer(json.dumps(body).encode(), status, {"content-type": "application/json", **headers})


def anthropic_events(*events: dict[str, Any]) -> bytes:
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


def openai_chunks(*chunks: dict[str, Any], done: bool = True) -> bytes:
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return "".join([*lines, "data: [DONE]\n\n"] if done else lines).encode()
