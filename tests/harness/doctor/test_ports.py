"""Ports that are taken."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.doctor import ports
from harness.machine.ports import a_free_port
from tests.harness.doctor.planning import bad, examined, launch

TAKEN = [("problem", "port_in_use")]


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        yield server.getsockname()[1]


def test_a_server_that_is_asked(tmp_path: Path, taken: int) -> None:
    config = "judge: {{base_url: http://localhost:{}/v1}}\nother: {{base_url: https://api.example.com/v1}}\n"
    there = launch(tmp_path, "python t.py config.yaml", config.format(taken))
    assert [finding.severity for finding in examined(ports.servers_answer, there)] == ["ok"]
    gone = launch(tmp_path, "python t.py config.yaml", config.format(a_free_port()))
    assert bad(examined(ports.servers_answer, gone)) == [("warning", "service_unavailable")]
