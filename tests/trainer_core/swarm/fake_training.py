"""Plays the part of a training for a swarm server, without a model: `python fake_training.py CONFIG`.

It answers every call of an agent with `answer`, and goes on with the next step as soon as it has a batch. Its
config may hold `total_training_steps`: after so many it ends well.
"""

import json
import os
import re
import socketserver
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

_WAIT_S = 0.1
"""Of a phase: short, so that servers often see the same one again."""


class Training:
    def __init__(self, steps: int) -> None:
        self.steps, self.calls = steps, {}
        self.changed, self.phase = (
            threading.Condition(),
            {"number": 0, "name": "booting", "step": 0, "saved": 0},
        )

    def doing(self, name: str, step: int) -> None:
        with self.changed:
            self.phase = {"number": self.phase["number"] + 1, "name": name, "step": step, "saved": 0}
            self.changed.notify_all()

    def wait(self, seen: int) -> dict:
        with self.changed:
            self.changed.wait_for(lambda: self.phase["number"] != seen, _WAIT_S)
            return self.phase

    def learn(self, step: int) -> None:
        if step >= self.steps:
            os._exit(0)
        self.doing("collecting", step + 1)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    training: Training

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        calls, headers, answer = self.training.calls, {}, {}
        if self.path == "/swarm/phase":
            answer = self.training.wait(body["seen"])
        elif self.path == "/swarm/batch":
            self.training.learn(body["step"])
        elif self.path == "/swarm/close":
            headers["x-ajet-calls"] = str(calls.pop(body["name"], 0))
            answer = body
        elif self.path == "/swarm/drop":
            calls.pop(body["name"], None)
        else:
            name = self.headers["authorization"].removeprefix("Bearer ")
            calls[name] = calls.get(name, 0) + 1
            message = {"role": "assistant", "content": "answer"}
            answer = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        raw = json.dumps(answer).encode()
        self.send_response(200)
        for key, value in {**headers, "content-type": "application/json", "content-length": len(raw)}.items():
            self.send_header(key, str(value))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        pass

    def address_string(self) -> str:
        return "the server"


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    found = re.search(r"total_training_steps: (\d+)", Path(sys.argv[1]).read_text())
    Handler.training = Training(int(found[1]) if found else 10**6)
    with Server(os.environ["AJET_SWARM_SOCKET"], Handler) as server:
        Handler.training.doing("collecting", 1)
        server.serve_forever()
