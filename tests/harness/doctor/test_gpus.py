"""GPUs that are missing or in use, and a driver that does not fit."""

import os
from pathlib import Path

import pytest

from harness.doctor import gpus
from harness.doctor.asking import Look
from harness.doctor.launch import PlannedLaunch
from tests.harness.doctor.planning import bad, examined, launch
from tests.nvml import stand_in

CHECKS = (gpus.enough, gpus.are_free, gpus.driver_fits)


@pytest.fixture(autouse=True)
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    stand_in(monkeypatch, ("GPU-aaa", 4), ("GPU-bbb", 4))


def asked(folder: Path, count: int, more: str = "", **variables: str) -> PlannedLaunch:
    return launch(folder, f"torchrun --nproc_per_node {count} t.py {more}", variables=variables)


def test_as_many_as_asked_for(tmp_path: Path) -> None:
    assert bad(examined(gpus.enough, asked(tmp_path, 2))) == []
    assert bad(examined(gpus.enough, asked(tmp_path, 4))) == [("warning", "gpu_placement")]
    surely = asked(tmp_path, 4, "trainer.n_gpus_per_node=4")
    assert bad(examined(gpus.enough, surely)) == [("problem", "gpu_placement")]


def test_none_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch)
    no_gpu = launch(tmp_path, "python -m verl.trainer.main_ppo trainer.n_gpus_per_node=2")
    assert bad(examined(gpus.enough, no_gpu)) == [("problem", "driver_or_arch")]
    assert [check for check in CHECKS if examined(check, asked(tmp_path, 2))] == [], "workers can do without"


@pytest.mark.parametrize(
    ("given", "expected"), [("0,1", []), ("1", ["warning"]), ("0,7", ["problem"]), ("GPU-aaa,GPU-bbb", [])]
)
def test_visible_devices(tmp_path: Path, given: str, expected: list[str]) -> None:
    found = bad(examined(gpus.enough, asked(tmp_path, 2, CUDA_VISIBLE_DEVICES=given)))
    assert found == [(severity, "gpu_placement") for severity in expected]


def test_a_gpu_in_use_names_who_uses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, ("GPU-aaa", 20_000), ("GPU-bbb", 4), users={os.getpid(): "GPU-aaa"})
    found = examined(gpus.are_free, asked(tmp_path, 1))
    assert bad(found) == [("warning", "gpu_occupied")] and f"pid {os.getpid()}" in found[0].text
    assert bad(examined(gpus.are_free, asked(tmp_path, 1, CUDA_VISIBLE_DEVICES="1"))) == []
    (found_more,) = examined(gpus.are_free, asked(tmp_path, 1, "--vllm_gpu_memory_utilization 0.9"))
    assert "asks for 90%" in found_more.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cuda: Optional[str] = '12.8'\n", []),
        ("cuda: Optional[str] = '13.0'\n", [("problem", "driver_or_arch")]),
        ("cuda: Optional[str] = None\n", [("problem", "driver_or_arch")]),
    ],
)
def test_the_driver_and_torch(tmp_path: Path, text: str, expected: list[tuple[str, str]]) -> None:
    (tmp_path / "version.py").write_text(text)
    seen = Look((3, 11, 0), torch=tmp_path)
    given = asked(tmp_path, 1)
    given.__dict__["look"] = seen
    assert bad(examined(gpus.driver_fits, given)) == expected


def test_the_bundled_trainer_on_a_laptop_asks_for_none(tmp_path: Path) -> None:
    config = "ajet: {{backbone: {}, trainer_common: {{n_gpus_per_node: 8}}}}\n"
    assert [launch(tmp_path, None, config.format(name)).gpus_asked for name in ("local", "verl")] == [0, 8]
