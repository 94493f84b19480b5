"""Another port goes where the taken one came from."""

from tests.harness.diagnosis.remedies.samples import AJET, PLAIN, VERL, edits, variables

STORE = {"cause": "The TCPStore cannot listen on port 29500."}


def test_the_key_that_holds_the_taken_port() -> None:
    two = "server: {port: 8000}\nmaster_port: 29500\n"
    assert edits("free_port", two, captures={"port": "8000"}) == {"server.port": 31234}
    assert edits("free_port", two, captures={"port": "29500"}) == {"master_port": 31234}


def test_the_only_port_where_the_log_names_none() -> None:
    assert edits("free_port", PLAIN) == {"port": 31234}
    assert edits("free_port", "a_port: 1\nb_port: 2\n") == {}


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
