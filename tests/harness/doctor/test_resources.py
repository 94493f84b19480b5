"""Disk, memory, open files, GPUs and ports that do not suffice."""

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.doctor import resources
from harness.doctor.findings import Finding
from harness.doctor.launch import PlannedLaunch
from harness.machine.ports import a_free_port
from tests.harness.doctor.planning import Bad, bad, launch, model, safetensors
from tests.nvml import stand_in
from tests.small_disk import small_disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 8) as folder:
        yield folder


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A folder with a model of a MiB."""
    (model(tmp_path / "model") / "model.safetensors").write_bytes(safetensors(b"\0" * 2**20))
    return tmp_path


def test_the_disk_of_the_results(disk: Path, tmp_path: Path) -> None:
    assert bad(resources.disk_of_results(launch(disk))) == [("problem", "disk_full")]
    assert bad(resources.disk_of_results(launch(tmp_path))) == []
    with small_disk(tmp_path / "crowded", 1024, "nr_inodes=20") as folder:
        (found,) = resources.disk_of_results(launch(folder))
    assert bad([found]) == [("problem", "disk_full")] and "more files" in found.text


def test_checkpoints_on_their_own_disk(disk: Path, weights: Path) -> None:
    def found(target: Path, more: str = "") -> Finding:
        command = "python t.py --model_name_or_path ./model --output_dir {} --save_steps 10 --max_steps 40 {}"
        return next(iter(resources.checkpoints(launch(weights, command.format(target, more)))))

    assert bad([found(disk)]) == [("warning", "disk_full")]
    assert "4 checkpoint(s)" in found(disk).text
    assert bad([found(disk, "--save_total_limit 1"), found(weights)]) == []


def test_memory_for_the_model(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = launch(weights, "python t.py --model_name_or_path ./model")
    assert bad(resources.memory(given)) == []
    monkeypatch.setattr(resources, "memory_available", lambda: 6 * 2**20)
    assert bad(resources.memory(given)) == [("warning", "host_oom")]


def test_shared_memory_of_several_processes(disk: Path, tmp_path: Path) -> None:
    workers = launch(tmp_path, "python t.py --num_workers 4")
    assert bad(resources.shared_memory(workers, disk)) == [("warning", "shm_exhausted")]
    assert bad(resources.shared_memory(workers, tmp_path)) == []
    assert bad(resources.shared_memory(launch(tmp_path, "python t.py"), disk)) == []


@pytest.mark.parametrize(
    ("limit", "command", "suffices"),
    [
        (128, "python t.py", False),
        (128, "ulimit -Sn 4096 && python t.py", True),
        (1024, "python -m verl.trainer.main_ppo", False),
        (1024, "python t.py", True),
        (1024, "ulimit -n 64; python t.py", False),
        (-1, "python t.py", True),
    ],
)
def test_open_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, command: str, suffices: bool
) -> None:
    given = launch(tmp_path, command)
    monkeypatch.setattr(resources.resource, "getrlimit", lambda which: (limit, 8192))
    (found,) = resources.open_files(given)
    assert bad([found]) == ([] if suffices else [("warning", "os_limit")])
    assert suffices or "ulimit -n 8192" in found.fix


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    stand_in(monkeypatch, ("GPU-aaa", 4), ("GPU-bbb", 4))


def asked(folder: Path, count: int, more: str = "", **variables: str) -> PlannedLaunch:
    return launch(folder, f"torchrun --nproc_per_node {count} t.py {more}", variables=variables)


@pytest.mark.parametrize(
    ("count", "more", "visible", "expected"),
    [
        (2, "", None, []),
        (4, "", None, ["warning"]),
        (4, "trainer.n_gpus_per_node=4", None, ["problem"]),
        (2, "", "0,1", []),
        (2, "", "1", ["warning"]),
        (2, "", "0,7", ["problem"]),
        (2, "", "GPU-aaa,GPU-bbb", []),
    ],
)
@pytest.mark.usefixtures("two_gpus")
def test_enough_gpus(tmp_path: Path, count: int, more: str, visible: str | None, expected: Any) -> None:
    variables = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    found = bad(resources.enough_gpus(asked(tmp_path, count, more, **variables)))
    assert found == [(severity, "gpu_placement") for severity in expected]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("JAX_PLATFORMS=cuda python t.py", [("problem", "driver_or_arch")]),
        ("python t.py --device cuda:0", [("warning", "driver_or_arch")]),
        ("python t.py trainer.accelerator=gpu", [("warning", "driver_or_arch")]),
        ("JAX_PLATFORMS=cuda,cpu python t.py --device auto trainer.accelerator=cpu", []),
    ],
)
def test_an_accelerator_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, expected: Bad
) -> None:
    monkeypatch.setattr(resources, "_GPU_DEVICES", ())
    given = launch(tmp_path, command)
    given.__dict__["gpus"] = ()
    assert bad(resources.accelerator(given)) == expected


def test_no_gpu_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)
    no_gpu = launch(tmp_path, "python -m verl.trainer.main_ppo trainer.n_gpus_per_node=2")
    assert bad(resources.enough_gpus(no_gpu)) == [("problem", "driver_or_arch")]
    workers = asked(tmp_path, 2)
    assert [*resources.enough_gpus(workers), *resources.free_gpus(workers)] == [], "workers can do without"
    config = "ajet: {{backbone: {}, trainer_common: {{n_gpus_per_node: 8}}}}\n"
    assert [launch(tmp_path, None, config.format(name)).gpus_asked for name in ("local", "verl")] == [0, 8]


@pytest.mark.usefixtures("two_gpus")
def test_a_gpu_in_use_names_who_uses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, ("GPU-aaa", 20_000), ("GPU-bbb", 4), users={os.getpid(): "GPU-aaa"})
    (found,) = resources.free_gpus(asked(tmp_path, 1))
    assert bad([found]) == [("warning", "gpu_occupied")] and f"pid {os.getpid()}" in found.text
    assert bad(resources.free_gpus(asked(tmp_path, 1, CUDA_VISIBLE_DEVICES="1"))) == []
    (found,) = resources.free_gpus(asked(tmp_path, 1, "--vllm_gpu_memory_utilization 0.9"))
    assert "asks for 90%" in found.text


AJET = "ajet: {{interchange_server: {{interchange_server_port: {}}}}}\n"


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    ("command", "config", "variable", "asks"),
    [
        ("torchrun --nproc_per_node 2 --master_port {} t.py", None, "", None),
        ("torchrun --nnodes 1 --rdzv_endpoint localhost:{} t.py", None, "", None),
        ("MASTER_PORT={} python t.py", None, "", None),
        (None, AJET, "", {}),
        ("python t.py config.yaml", "ray: {{dashboard_port: {}}}\n", "", {}),
        ("python t.py", None, "MASTER_PORT", {"variable": "MASTER_PORT"}),
    ],
)
def test_a_port_that_is_taken_and_the_repair_that_reaches_it(
    tmp_path: Path, taken: int, command: str | None, config: str | None, variable: str, asks: Any
) -> None:
    def found_with(port: int) -> list[Finding]:
        given = {variable: str(port)} if variable else {}
        words = [text and text.format(port) for text in (command, config)]
        planned = launch(tmp_path, *words, variables=given)
        return [each for each in resources.free_ports(planned) if each.severity != "ok"]

    assert found_with(a_free_port()) == []
    (found,) = found_with(taken)
    assert bad([found]) == [("problem", "port_in_use")] and f"pid {os.getpid()}" in found.text
    assert found.remedies == (() if asks is None else ("free_port",))
    if asks is not None:
        captures = dict(found.captures)
        assert captures.pop("free_port") != captures.pop("port") == str(taken)
        assert captures == asks


def test_a_port_of_somebody_else_may_be_taken(tmp_path: Path, taken: int) -> None:
    asked = f"python t.py --judge_port {taken} --base_url http://127.0.0.1:{taken}/v1"
    for command in (asked, f"torchrun --rdzv_endpoint other-host:{taken} t.py"):
        assert list(resources.free_ports(launch(tmp_path, command))) == []


def test_tmux_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bad(resources.tmux(launch(tmp_path))) == []
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bad(resources.tmux(launch(tmp_path))) == [("problem", "path_not_found")]


def test_d29_a_home_that_cannot_be_written_to_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert bad(resources.state_folder(launch(tmp_path, "true"))) == []
    with small_disk(tmp_path / "home", 1, "ro") as home:
        for state in (str(home / "state"), "/proc/state", "/dev/null/state"):
            monkeypatch.setenv("XDG_STATE_HOME", state)
            (found,) = resources.state_folder(launch(tmp_path, "true", variables={"MY_TOKEN": "zq81"}))
            assert found.severity == "problem" and "XDG_STATE_HOME" in found.fix
            (found,) = resources.state_folder(replace(launch(tmp_path, "true"), given={"A": "1"}))
            assert found.severity == "warning", "only `harness ls` needs it"


def test_secrets_that_are_words_are_named_without_their_value(tmp_path: Path) -> None:
    given = {"DB_PASSWORD": "validation", "MY_TOKEN": "zq81-lmxw-77", "USER_NAME": "training"}
    (found,) = resources.secrets(replace(launch(tmp_path, "true"), given=given))
    assert found.severity == "warning" and "of DB_PASSWORD is" in found.text
    assert "validation" not in found.sentence
    others = {"MY_TOKEN": "zq81-lmxw-77", "USER_NAME": "training"}
    assert list(resources.secrets(replace(launch(tmp_path, "true"), given=others))) == []
