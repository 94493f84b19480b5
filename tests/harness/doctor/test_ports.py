"""Ports that are taken, and servers that do not answer."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.doctor import ports
from harness.machine.ports import a_free_port
from tests.harness.doctor.planning import bad, examined, launch

TAKEN = [("problem", "port_in_use")]
AJET = "ajet: {{interchange_server: {{interchange_server_port: {}}}}}\n"
DASHBOARD = "ray: {{dashboard_port: {}}}\n"


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    ("command", "config", "variables", "asks"),
    [
        ("torchrun --nproc_per_node 2 --master_port {} t.py", None, {}, None),
        ("torchrun --nnodes 1 --rdzv_endpoint localhost:{} t.py", None, {}, None),
        ("MASTER_PORT={} python t.py", None, {}, None),
        ("accelerate launch --main_process_port={} t.py", None, {}, None),
        (None, AJET, {}, {}),
        ("python t.py config.yaml", DASHBOARD, {}, {}),
        ("python t.py", None, {"MASTER_PORT": "{}"}, {"variable": "MASTER_PORT"}),
    ],
)
def test_a_port_that_is_taken_and_the_repair_that_reaches_it(
    tmp_path: Path,
    taken: int,
    command: str | None,
    config: str | None,
    variables: dict[str, str],
    asks: dict[str, str] | None,
) -> None:
    def found_with(port: int) -> list[ports.Finding]:
        given = {name: text.format(port) for name, text in variables.items()}
        planned = launch(tmp_path, command and command.format(port), config and config.format(port), given)
        return [each for each in examined(ports.are_free, planned) if each.severity != "ok"]

    assert found_with(a_free_port()) == []
    (found,) = found_with(taken)
    assert bad([found]) == TAKEN and f"pid {os.getpid()}" in found.text
    assert found.remedies == (() if asks is None else ("free_port",))
    if asks is not None:
        captures = dict(found.captures)
        assert captures.pop("free_port") != captures.pop("port") == str(taken)
        assert captures == asks


@pytest.mark.parametrize(
    "command",
    [
        "python t.py --judge_port {0} --base_url http://127.0.0.1:{0}/v1",
        "torchrun --rdzv_endpoint other-host:{0} t.py",
    ],
)
def test_a_port_of_somebody_else_may_be_taken(tmp_path: Path, taken: int, command: str) -> None:
    assert examined(ports.are_free, launch(tmp_path, command.format(taken))) == []


def test_a_server_that_is_asked(tmp_path: Path, taken: int) -> None:
    config = "judge: {{base_url: http://localhost:{}/v1}}\nother: {{base_url: https://api.example.com/v1}}\n"
    there = launch(tmp_path, "python t.py config.yaml", config.format(taken))
    assert [finding.severity for finding in examined(ports.servers_answer, there)] == ["ok"]
    gone = launch(tmp_path, "python t.py config.yaml", config.format(a_free_port()))
    assert bad(examined(ports.servers_answer, gone)) == [("warning", "service_unavailable")]
