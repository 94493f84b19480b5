"""GPUs, as nvidia-smi tells of them: a program of that name stands in for it."""

import os
from pathlib import Path

import pytest

from harness.doctor import gpus
from harness.doctor.interpreter_probe import Probe
from harness.doctor.launch import Once, PlannedLaunch
from tests.harness.doctor.planning import bad, examined, launch

SMI = """#!/bin/sh
case "$1" in
--query-gpu=*)
  echo "0, GPU-aaa, NVIDIA H100 80GB HBM3, {used}, 81559"
  echo "1, GPU-bbb, NVIDIA H100 80GB HBM3, 4, 81559";;
--query-compute-apps=*) echo "{pid}, GPU-aaa";;
*) echo "| NVIDIA-SMI 550.54    Driver Version: 550.54    CUDA Version: 12.4 |";;
esac
"""


@pytest.fixture
def smi(tmp_path: Path) -> Path:
    return stand_in(tmp_path)


def stand_in(folder: Path, used: int = 4) -> Path:
    program = folder / "bin/nvidia-smi"
    program.parent.mkdir(exist_ok=True)
    program.write_text(SMI.format(used=used, pid=os.getpid()))
    program.chmod(0o755)
    return program.parent


def asked(folder: Path, count: int, more: str = "", **variables: str) -> PlannedLaunch:
    path = f"{folder / 'bin'}:/usr/bin:/bin"
    command = f"torchrun --nproc_per_node {count} t.py {more}"
    return launch(folder, command, variables={"PATH": path, **variables})


def test_as_many_as_asked_for(tmp_path: Path, smi: Path) -> None:
    assert bad(examined(gpus.enough, asked(tmp_path, 2))) == []
    assert bad(examined(gpus.enough, asked(tmp_path, 4))) == [("warning", "gpu_placement")]
    surely = asked(tmp_path, 4, "trainer.n_gpus_per_node=4")
    assert bad(examined(gpus.enough, surely)) == [("problem", "gpu_placement")]


def test_none_at_all(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    command = "python -m verl.trainer.main_ppo trainer.n_gpus_per_node=2"
    no_gpu = launch(tmp_path, command, variables={"PATH": str(tmp_path / "bin")})
    assert bad(examined(gpus.enough, no_gpu)) == [("problem", "driver_or_arch")]
    assert examined(gpus.enough, launch(tmp_path, "python t.py", variables={"PATH": ""})) == []


@pytest.mark.parametrize(
    ("given", "expected"), [("0,1", []), ("1", ["warning"]), ("0,7", ["problem"]), ("GPU-aaa,GPU-bbb", [])]
)
def test_visible_devices(tmp_path: Path, smi: Path, given: str, expected: list[str]) -> None:
    found = bad(examined(gpus.enough, asked(tmp_path, 2, CUDA_VISIBLE_DEVICES=given)))
    assert found == [(severity, "gpu_placement") for severity in expected]


def test_a_gpu_in_use_names_who_uses_it(tmp_path: Path) -> None:
    stand_in(tmp_path, used=40_000)
    found = examined(gpus.are_free, asked(tmp_path, 1))
    assert bad(found) == [("warning", "gpu_occupied")] and f"pid {os.getpid()}" in found[0].text
    elsewhere = asked(tmp_path, 1, CUDA_VISIBLE_DEVICES="1")
    assert bad(examined(gpus.are_free, elsewhere)) == []


def test_more_memory_than_is_free(tmp_path: Path) -> None:
    stand_in(tmp_path, used=20_000)
    words = "--vllm_gpu_memory_utilization 0.9"
    found = examined(gpus.are_free, asked(tmp_path, 1, words))
    assert bad(found) == [("warning", "gpu_occupied")] and "asks for 71.7" in found[0].text


def with_torch(given: PlannedLaunch, folder: Path, text: str) -> PlannedLaunch:
    (folder / "torch").mkdir(exist_ok=True)
    (folder / "torch/version.py").write_text(text)
    probe = Probe((3, 11, 0), {}, {}, {"torch": folder / "torch"})
    object.__setattr__(given, "probe", Once(lambda: probe))
    return given


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cuda: Optional[str] = '12.8'\n", []),
        ("cuda: Optional[str] = '13.0'\n", [("problem", "driver_or_arch")]),
        ("cuda: Optional[str] = None\n", [("problem", "driver_or_arch")]),
    ],
)
def test_the_driver_and_torch(tmp_path: Path, smi: Path, text: str, expected: list[tuple[str, str]]) -> None:
    assert bad(examined(gpus.driver_fits, with_torch(asked(tmp_path, 1), tmp_path, text))) == expected


def test_the_bundled_trainer_on_a_laptop_asks_for_none(tmp_path: Path) -> None:
    assert (
        launch(tmp_path, None, "ajet: {backbone: local, trainer_common: {n_gpus_per_node: 8}}\n").gpus_asked
        == 0
    )
    assert (
        launch(tmp_path, None, "ajet: {backbone: verl, trainer_common: {n_gpus_per_node: 8}}\n").gpus_asked
        == 8
    )


def test_workers_of_a_launcher_can_do_without_gpus(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    given = launch(tmp_path, "torchrun --nproc_per_node 2 t.py", variables={"PATH": str(tmp_path / "bin")})
    assert [check for check in (gpus.enough, gpus.are_free, gpus.driver_fits) if examined(check, given)] == []
