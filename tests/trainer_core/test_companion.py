"""Programs beside the training: ready when they say so, started again, and gone with whoever started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.trainer_core.processes import eventually, is_running
from trainer_core.companion import companions
from trainer_core.config.schema import Config
from trainer_core.config.services import Companion
from trainer_core.types import TrainingError

SERVER = f"{sys.executable} -u {{}}"
PROGRAM = """
import os, sys, subprocess, time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()

server = HTTPServer(("127.0.0.1", int(Path("port").read_text()) if Path("port").exists() else 0), Answer)
Path("port").write_text(str(server.server_port))
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open("pids", "a") as pids:
    print(os.getpid(), child.pid, file=pids, flush=True)
print("serving at", server.server_port)
server.serve_forever()
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.py").write_text(PROGRAM)
    return tmp_path


def server(**more: Any) -> Companion:
    return Companion.model_validate(
        {"command": SERVER.format("server.py"), "ready_pattern": "^serving", **more}
    )


def pids(folder: Path) -> list[list[int]]:
    return [[int(each) for each in line.split()] for line in (folder / "pids").read_text().splitlines()]


def test_it_is_ready_when_it_has_said_so_and_answers_and_ends_with_all_it_started(here: Path) -> None:
    (here / "port").write_text("0")
    with companions([server(), server(health_url="http://127.0.0.1:1")][:1], here):
        (started,) = pids(here)
        assert is_running(*started)
    eventually(lambda: not is_running(*started))
    (log,) = (here / "companions").iterdir()
    assert "serving at" in log.read_text()


def test_it_is_started_again_as_often_as_it_may(here: Path) -> None:
    said: list[str] = []
    with companions([server(max_restarts=2)], here, said.append):
        for number in range(3):
            eventually(lambda: len(pids(here)) == number + 1)  # noqa: B023
            os.kill(pids(here)[number][0], signal.SIGKILL)
        eventually(lambda: sum("ended; its last lines" in line for line in said) == 3)
        time.sleep(0.5)
        assert len(pids(here)) == 3
    eventually(lambda: not is_running(*(each for line in pids(here) for each in line)))


def test_one_that_does_not_get_ready_again_counts_as_ended(here: Path) -> None:
    once = "import os, time\nif os.path.exists('pids'): time.sleep(600)\n"
    (here / "server.py").write_text(once + PROGRAM)
    said: list[str] = []
    with companions([server(max_restarts=1, starts_in_s=5)], here, said.append):
        os.kill(pids(here)[0][0], signal.SIGKILL)
        eventually(lambda: sum("ended; its last lines" in line for line in said) == 2)
    assert len(pids(here)) == 1


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (
            {"command": "/no/such/program", "ready_pattern": "x"},
            r"companions\[1\] \(program\) ended at its start(.|\n)*not found",
        ),
        (
            {"command": "sh -c 'echo broken; exit 3'", "ready_pattern": "x"},
            r"ended at its start:\n    broken\n.*exit status 3",
        ),
        ({"command": "sleep 600", "ready_pattern": "never", "starts_in_s": 1}, "was not ready in 1 s"),
        (
            {"command": "sleep 600", "health_url": "http://127.0.0.1:1", "starts_in_s": 1},
            "was not ready in 1 s",
        ),
        ({"command": "sleep 600", "ready_pattern": "("}, r"companions\[1\]\.ready_pattern: missing \)"),
        (
            {"command": "echo 'a", "ready_pattern": "x"},
            r"ended at its start:(.|\n)*nterminated quoted string",
        ),
        ({"command": "  "}, r"companions\[1\]\.command is empty"),
    ],
)
def test_what_cannot_be_started_is_said_and_leaves_nothing(
    here: Path, program: dict[str, Any], told: str
) -> None:
    with pytest.raises(TrainingError, match=told):
        with companions([server(), Companion.model_validate(program)], here):
            pytest.fail("not ready")
    eventually(lambda: not is_running(*pids(here)[0]))


def test_who_waits_for_it_can_be_stopped(here: Path) -> None:
    def safe_point() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        companions([server(ready_pattern="never")], here, safe_point=safe_point).__enter__()
    eventually(lambda: not (here / "pids").exists() or not is_running(*pids(here)[0]))


def test_how_it_is_seen_to_be_ready_has_to_be_said() -> None:
    with pytest.raises(ValidationError, match=r"companions\[0\] does not say how it is seen"):
        Config.model_validate({"ajet": {"companions": [{"command": "sleep 1"}]}})


@pytest.mark.parametrize("ends", ["default_int_handler", "SIG_IGN"])
def test_it_is_gone_with_its_folders_when_the_trainer_is_killed(here: Path, ends: str) -> None:
    handle = f"import signal\nsignal.signal(signal.SIGTERM, signal.{ends})\n"
    (here / "server.py").write_text(handle + PROGRAM)
    (here / "leaves" / "deep").mkdir(parents=True)
    program = (
        "import sys, time; from pathlib import Path; from trainer_core.child_process import ChildProcess\n"
        "started = ChildProcess(sys.argv[1:], 'it', Path('log'), grace_s=1.0, leaves=['leaves', 'no'])\n"
        "started.wait_until(lambda: 'serving' in started.printed(), 60.0)\n"
        "print('ready', flush=True); time.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program, sys.executable, "-u", "server.py"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as trainer:
        assert trainer.stdout is not None and trainer.stdout.readline() == "ready\n"
        trainer.kill()
    eventually(lambda: not is_running(*pids(here)[0]) and not (here / "leaves").exists())
