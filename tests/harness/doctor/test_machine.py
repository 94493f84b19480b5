"""Disk, memory and shared memory that do not suffice."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.doctor import machine
from harness.doctor.types import Finding
from tests.harness.doctor.planning import bad, examined, launch, model, safetensors


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB with few inodes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mounted, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_the_disk_of_the_results(small_disk: Path, tmp_path: Path) -> None:
    assert bad(examined(machine.disk_of_results, launch(small_disk))) == [("problem", "disk_full")]
    assert bad(examined(machine.disk_of_results, launch(tmp_path))) == []


def test_files_left_on_the_disk_of_the_results(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=1g,nr_inodes=20", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mounted, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        found = examined(machine.disk_of_results, launch(folder))
        assert bad(found) == [("problem", "disk_full")] and "more files" in found[0].text
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_scratch_files(small_disk: Path, tmp_path: Path) -> None:
    def found(scratch: Path) -> list[tuple[str, str]]:
        return bad(
            examined(machine.disk_of_others, launch(tmp_path, "true", variables={"TMPDIR": str(scratch)}))
        )

    assert found(small_disk) == [("warning", "disk_full")]
    assert found(tmp_path / "none") == [("warning", "path_not_found")]
    assert found(tmp_path) == []


def test_the_cache_of_a_model_to_download(small_disk: Path, tmp_path: Path) -> None:
    def found(home: Path) -> list[tuple[str, str]]:
        given = launch(
            tmp_path,
            "python t.py --model_name_or_path a/b",
            variables={"HF_HOME": str(home), "TMPDIR": str(tmp_path)},
        )
        return bad(examined(machine.disk_of_others, given))

    assert found(small_disk) == [("warning", "disk_full")]
    model(small_disk / "hub/models--a--b/snapshots/x")
    assert found(small_disk) == []


def test_checkpoints_on_their_own_disk(small_disk: Path, tmp_path: Path) -> None:
    folder = model(tmp_path / "model")
    (folder / "model.safetensors").write_bytes(safetensors(b"\0" * 2**20))
    command = "python t.py --model_name_or_path ./model --output_dir {} --save_steps 10 --max_steps 40 {}"

    def found(target: Path, more: str = "") -> list[Finding]:
        return examined(machine.disk_for_checkpoints, launch(tmp_path, command.format(target, more)))

    assert (
        bad(found(small_disk)) == [("warning", "disk_full")]
        and "4 checkpoint(s)" in found(small_disk)[0].text
    )
    assert bad(found(small_disk, "--save_total_limit 1")) == []
    assert bad(found(tmp_path)) == []


def group(root: Path, path: str, limit: str, used: int, cache: int = 0) -> None:
    folder = root / path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(limit)
    (folder / "memory.current").write_text(str(used))
    (folder / "memory.stat").write_text(f"anon 1\ninactive_file {cache}\n")


def test_memory_inside_a_container(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/box/inner\n")
    group(tmp_path, "box/inner", "max", 0)
    group(tmp_path, "box", str(300 * 2**20), 200 * 2**20, cache=50 * 2**20)
    assert machine.memory_available(tmp_path, own) == 150 * 2**20
    group(tmp_path, "box", "max", 200 * 2**20)
    assert machine.memory_available(tmp_path, own) > 150 * 2**20


def test_memory_for_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = model(tmp_path / "model")
    (folder / "model.safetensors").write_bytes(safetensors(b"\0" * 2**20))
    given = launch(tmp_path, "python t.py --model_name_or_path ./model")
    assert bad(examined(machine.memory, given)) == []
    monkeypatch.setattr(machine, "memory_available", lambda: 6 * 2**20)
    assert bad(examined(machine.memory, given)) == [("warning", "host_oom")]


def test_shared_memory(small_disk: Path, tmp_path: Path) -> None:
    workers = launch(tmp_path, "python t.py --num_workers 4")
    assert bad(machine.shared_memory(workers, small_disk)) == [("warning", "shm_exhausted")]
    assert bad(machine.shared_memory(workers, tmp_path)) == []


def test_small_shared_memory_is_enough_for_one_process(tmp_path: Path) -> None:
    folder = tmp_path / "shm"
    folder.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mounted, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        assert bad(machine.shared_memory(launch(tmp_path, "python t.py"), folder)) == []
        assert bad(machine.shared_memory(launch(tmp_path, "python t.py --num_workers 2"), folder)) != []
    finally:
        subprocess.run(["umount", str(folder)], check=True)
