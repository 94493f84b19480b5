"""Notifications of real runs, to a service on this machine."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from tests.e2e.bench import PATIENCE_S, Bench, until

TOKEN = "T0PSECRETT0KEN99"


class Service:
    """Takes what is posted; `held` until it may answer. Sees the command lines that are there meanwhile."""

    def __init__(self, status: int = 200) -> None:
        self.posted: Queue[dict[str, Any]] = Queue()
        self.command_lines: list[bytes] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.command_lines += [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
                service.posted.put({"path": self.path, **body})
                service.may_answer.wait(PATIENCE_S)
                self.send_response(status)
                self.end_headers()

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"json://127.0.0.1:{self.server.server_address[1]}/{TOKEN}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def next(self) -> dict[str, Any]:
        return self.posted.get(timeout=PATIENCE_S)


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.may_answer.set()
    made.server.shutdown()


def files_with(token: str, *folders: Path) -> list[Path]:
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return [file for file in files if token.encode() in file.read_bytes()]


def test_missing_2_a_failure_and_the_end_are_told(bench: Bench, service: Service, tmp_path: Path) -> None:
    state = tmp_path / "state"
    bench.env = {"XDG_STATE_HOME": str(state)}
    bench.plan("echo step=1 loss=0.5; echo 'ValueError: no such colour'; exit 1")
    service.may_answer.clear()  # and the run ends all the same
    bench.harness("run", str(bench.blueprint), "--notify", service.url, status=1)
    assert bench.flag["outcome"] == "failed"
    messages = {message["title"]: message for message in (service.next(), service.next())}
    service.may_answer.set()
    assert set(messages) == {"trial: attempt 1 failed", "trial: failed"}
    assert all(message["path"] == f"/{TOKEN}" for message in messages.values())
    assert "no such colour" in messages["trial: attempt 1 failed"]["message"]
    assert not any(TOKEN.encode() in line for line in service.command_lines)
    assert files_with(TOKEN, bench.folder) == []


def test_missing_2_harness_toml_names_addresses_and_a_question_is_told(
    bench: Bench, service: Service, tmp_path: Path
) -> None:
    settings = tmp_path / "config" / "harness" / "harness.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'[notifications]\nurls = ["{service.url}"]\n')
    bench.env = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    bench.plan("echo step=1 loss=0.5")
    running = bench.start("run", str(bench.blueprint), "--approve", "launch")
    question = service.next()
    assert question["title"] == "trial waits for your answer"
    assert f"harness approve {bench.result_dir}" in question["message"]
    bench.harness("approve", str(bench.result_dir))
    assert running.end(PATIENCE_S) == 0
    end = service.next()
    assert end["title"] == "trial: succeeded"
    assert bench.state.reported is not None
    assert all(line in end["message"] for line in bench.state.reported.headline)


def test_a_detached_run_tells_of_its_end(bench: Bench, service: Service) -> None:
    bench.plan("echo step=1 loss=0.5")
    bench.harness("run", str(bench.blueprint), "--detach", "--notify", service.url)
    assert service.next()["title"] == "trial: succeeded"
    assert files_with(TOKEN, bench.folder) == []


def test_a_service_that_refuses_is_logged_once_and_changes_nothing(bench: Bench, tmp_path: Path) -> None:
    refusing = Service(status=500)
    bench.env = {"XDG_STATE_HOME": str(tmp_path / "state")}
    bench.plan("echo step=1 loss=0.5")
    bench.harness("run", str(bench.blueprint), "--notify", refusing.url)
    log = tmp_path / "state" / "harness" / "notifications.log"
    until(log.exists, "the failure is logged")
    (line,) = log.read_text().splitlines()
    assert "json: not delivered: trial: succeeded" in line and TOKEN not in line
    refusing.server.shutdown()
