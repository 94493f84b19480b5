"""Ports that are taken."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.doctor import ports
from tests.harness.doctor.planning import bad, examined, launch

TAKEN = [("problem", "port_in_use")]


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    "command",
    [
        "torchrun --nproc_per_node 2 --master_port {} t.py",
        "torchrun --nnodes 1 --rdzv_endpoint localhost:{} t.py",
        "MASTER_PORT={} python t.py",
        "accelerate launch --main_process_port={} t.py",
    ],
)
def test_a_port_of_the_command(tmp_path: Path, taken: int, command: str) -> None:
    found = examined(ports.are_free, launch(tmp_path, command.format(taken)))
    assert bad(found) == TAKEN and f"pid {os.getpid()}" in found[0].text
    assert bad(examined(ports.are_free, launch(tmp_path, command.format(ports.a_free_port())))) == []


def test_a_free_port_can_be_listened_on_and_is_given_to_no_connection() -> None:
    found = {ports.a_free_port() for _ in range(3)}
    assert max(found) < 32768
    for port in found:
        with socket.socket() as listener:
            listener.bind(("", port))


def test_a_port_of_the_config(tmp_path: Path, taken: int) -> None:
    config = "ajet: {{interchange_server: {{interchange_server_port: {}}}}}\n"
    assert bad(examined(ports.are_free, launch(tmp_path, None, config.format(taken)))) == TAKEN
    assert bad(examined(ports.are_free, launch(tmp_path, None, config.format(ports.a_free_port())))) == []


@pytest.mark.parametrize(
    ("command", "config", "variables", "asks"),
    [
        ("python t.py", None, {"MASTER_PORT": "{}"}, {"variable": "MASTER_PORT"}),
        ("python t.py config.yaml", "ray: {{dashboard_port: {}}}\n", {}, {}),
        ("MASTER_PORT={} python t.py", None, {}, None),
        ("torchrun --master_port {} t.py", None, {}, None),
    ],
    ids=["variable", "config", "variable of the command", "flag"],
)
def test_a_port_that_a_repair_can_change_brings_it(
    tmp_path: Path,
    taken: int,
    command: str,
    config: str | None,
    variables: dict[str, str],
    asks: dict[str, str] | None,
) -> None:
    given = {name: text.format(taken) for name, text in variables.items()}
    planned = launch(tmp_path, command.format(taken), config and config.format(taken), given)
    (found,) = (each for each in examined(ports.are_free, planned) if each.severity == "problem")
    assert found.remedies == (() if asks is None else ("free_port",))
    if asks is not None:
        captures = dict(found.captures)
        assert captures.pop("free_port") != captures.pop("port") == str(taken)
        assert captures == asks


def test_a_port_of_somebody_else_may_be_taken(tmp_path: Path, taken: int) -> None:
    command = f"python t.py --judge_port {taken} --base_url http://127.0.0.1:{taken}/v1"
    assert examined(ports.are_free, launch(tmp_path, command)) == []


def test_a_rendezvous_elsewhere(tmp_path: Path, taken: int) -> None:
    command = f"torchrun --rdzv_endpoint other-host:{taken} t.py"
    assert examined(ports.are_free, launch(tmp_path, command)) == []


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.environ['MASTER_PORT'] = '{}'\n",
        "import os\nos.environ.setdefault('MASTER_PORT', '{}')\n",
        "import torch\ntorch.distributed.init_process_group('gloo', init_method='tcp://127.0.0.1:{}')\n",
    ],
)
def test_a_port_of_the_source(tmp_path: Path, taken: int, source: str) -> None:
    (tmp_path / "t.py").write_text(source.format(taken))
    found = examined(ports.are_free, launch(tmp_path, "python t.py"))
    assert bad(found) == [("warning", "port_in_use")]
    (tmp_path / "t.py").write_text(source.format(ports.a_free_port()))
    assert bad(examined(ports.are_free, launch(tmp_path, "python t.py"))) == []


def test_a_server_that_is_asked(tmp_path: Path, taken: int) -> None:
    config = "judge: {{base_url: http://localhost:{}/v1}}\nother: {{base_url: https://api.example.com/v1}}\n"
    there = launch(tmp_path, "python t.py config.yaml", config.format(taken))
    assert [finding.severity for finding in examined(ports.servers_answer, there)] == ["ok"]
    gone = launch(tmp_path, "python t.py config.yaml", config.format(ports.a_free_port()))
    assert bad(examined(ports.servers_answer, gone)) == [("warning", "service_unavailable")]
