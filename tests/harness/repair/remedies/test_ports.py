"""Another port goes where the taken one came from."""

import pytest

from tests.harness.repair.remedies.samples import AJET, PLAIN, VERL, edits, variables

STORE = {"cause": "The TCPStore cannot listen on port 29500."}


def test_the_key_that_holds_the_taken_port() -> None:
    two = "server: {port: 8000}\nmaster_port: 29500\n"
    assert edits("free_port", two, captures={"port": "8000"}) == {"server.port": 31234}
    assert edits("free_port", two, captures={"port": "29500"}) == {"master_port": 31234}


def test_no_key_where_the_log_names_no_port() -> None:
    assert edits("free_port", PLAIN) == {}
    assert edits("free_port", "redis: {host: localhost, port: 6379}\n") == {}


def test_but_at_the_only_one_that_is_evidently_meant() -> None:
    ours = "server: {port: 8000}\n"
    assert edits("free_port", ours) == {"server.port": 31234}
    assert edits("free_port", ours, facts={"is_taken": lambda port: False}) == {}
    assert edits("free_port", ours + "judge: {port: 8001}\n") == {}, "which of the two?"
    assert edits("free_port", "server: {port: 8000, host: gpu-box-7}\n") == {}


@pytest.mark.parametrize(
    ("config", "changed"),
    [
        ("judge: {host: gpu-box-7, port: 8000}\n", []),
        ("judge: {base_url: 'http://10.0.0.7', port: 8000}\n", []),
        ("judge_host: gpu-box-7\njudge_port: 8000\n", []),
        ("judge_host: gpu-box-7\nvllm_port: 8000\n", ["vllm_port"]),
        ("judge: {server_host: gpu-box-7, server_port: 8000}\nvllm_port: 8000\n", ["vllm_port"]),
        ("server: {host: 0.0.0.0, port: 8000}\n", ["server.port"]),
        ("server: {host: localhost, port: 8000}\n", ["server.port"]),
        ("server: {port: 8000}\nclient: {api: 'http://localhost:8000/v1'}\n", []),
        ("server: {port: 8000}\nclient: {api: 'http://localhost:80001/v1'}\n", ["server.port"]),
    ],
)
def test_only_a_port_of_this_machine_that_no_address_leads_to(config: str, changed: list[str]) -> None:
    found = edits("free_port", config, captures={"port": "8000"})
    assert found == dict.fromkeys(changed, 31234)


def test_a_port_of_another_machine_is_no_reason_to_move_ours() -> None:
    elsewhere = "store: {host: gpu-box-7, port: 29500}\n"
    assert variables("free_port", elsewhere, captures={"port": "29500"}, **STORE) == {}


def test_not_a_port_that_another_program_uses() -> None:
    assert edits("free_port", PLAIN, captures={"port": "8265"}) == {}


def test_the_variable_that_the_program_reads() -> None:
    taken = {"port": "29500"}
    assert variables("free_port", VERL, captures=taken, **STORE) == {"MASTER_PORT": "31234"}
    run = "torchrun --nproc_per_node 8 train.py"
    assert variables("free_port", VERL, captures=taken, command=run, **STORE) == {"PET_MASTER_PORT": "31234"}
    own = {"MASTER_PORT": "29500"}
    assert variables("free_port", VERL, captures=taken, environment=own) == {"MASTER_PORT": "31234"}


def test_not_where_the_command_line_decides() -> None:
    run = "torchrun --master_port 29500 train.py"
    assert variables("free_port", VERL, captures={"port": "29500"}, command=run, **STORE) == {}


def test_a_protected_port_stays() -> None:
    taken = {"port": "18000"}
    assert edits("free_port", AJET, captures=taken) == {
        "ajet.interchange_server.interchange_server_port": 31234
    }
    assert edits("free_port", AJET, captures=taken, protected=("interchange_server_port",)) == {}
