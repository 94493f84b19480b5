"""Disk, memory and shared memory that do not suffice."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.doctor import resources
from harness.doctor.findings import Finding
from tests.harness.doctor.planning import bad, examined, launch, model, safetensors


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """A file system of its own."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", "size=8m") as folder:
        yield folder


def test_the_disk_of_the_results(small_disk: Path, tmp_path: Path) -> None:
    assert bad(examined(resources.disk_of_results, launch(small_disk))) == [("problem", "disk_full")]
    assert bad(examined(resources.disk_of_results, launch(tmp_path))) == []
    with mounted(tmp_path / "crowded", "size=1g,nr_inodes=20") as folder:
        found = examined(resources.disk_of_results, launch(folder))
    assert bad(found) == [("problem", "disk_full")] and "more files" in found[0].text


def test_scratch_files(small_disk: Path, tmp_path: Path) -> None:
    def found(scratch: Path) -> list[tuple[str, str]]:
        return bad(examined(resources.scratch, launch(tmp_path, "true", variables={"TMPDIR": str(scratch)})))

    assert found(small_disk) == [("warning", "disk_full")]
    assert found(tmp_path / "none") == [("warning", "path_not_found")]
    assert found(tmp_path) == []


def test_checkpoints_on_their_own_disk(small_disk: Path, tmp_path: Path) -> None:
    folder = model(tmp_path / "model")
    (folder / "model.safetensors").write_bytes(safetensors(b"\0" * 2**20))
    command = "python t.py --model_name_or_path ./model --output_dir {} --save_steps 10 --max_steps 40 {}"

    def found(target: Path, more: str = "") -> list[Finding]:
        return examined(resources.checkpoints, launch(tmp_path, command.format(target, more)))

    assert (
        bad(found(small_disk)) == [("warning", "disk_full")]
        and "4 checkpoint(s)" in found(small_disk)[0].text
    )
    assert bad(found(small_disk, "--save_total_limit 1")) == []
    assert bad(found(tmp_path)) == []


def test_memory_for_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = model(tmp_path / "model")
    (folder / "model.safetensors").write_bytes(safetensors(b"\0" * 2**20))
    given = launch(tmp_path, "python t.py --model_name_or_path ./model")
    assert bad(examined(resources.memory, given)) == []
    monkeypatch.setattr(resources, "memory_available", lambda: 6 * 2**20)
    assert bad(examined(resources.memory, given)) == [("warning", "host_oom")]


def test_shared_memory(small_disk: Path, tmp_path: Path) -> None:
    workers = launch(tmp_path, "python t.py --num_workers 4")
    assert bad(resources.shared_memory(workers, small_disk)) == [("warning", "shm_exhausted")]
    assert bad(resources.shared_memory(workers, tmp_path)) == []


def test_small_shared_memory_is_enough_for_one_process(tmp_path: Path) -> None:
    with mounted(tmp_path / "shm", "size=64m") as folder:
        assert bad(resources.shared_memory(launch(tmp_path, "python t.py"), folder)) == []
        assert bad(resources.shared_memory(launch(tmp_path, "python t.py --num_workers 2"), folder)) != []


PROGRAM = """
import json, resource, sys
from pathlib import Path
from harness.doctor import resources
from tests.harness.doctor.planning import bad, examined, launch
given = launch(Path(sys.argv[1]), sys.argv[2])
name, value = sys.argv[3].split("=")
resource.setrlimit(getattr(resource, name), (int(value), resource.getrlimit(getattr(resource, name))[1]))
print(json.dumps(bad(examined(getattr(resources, sys.argv[4]), given))))
"""


@pytest.mark.parametrize(
    ("limit", "command", "check", "expected"),
    [
        ("RLIMIT_NOFILE=128", "python t.py", "limits", "os_limit"),
        ("RLIMIT_NOFILE=128", "ulimit -Sn 4096 && python t.py", "limits", ""),
        ("RLIMIT_NOFILE=1024", "python -m verl.trainer.main_ppo", "limits", "os_limit"),
        ("RLIMIT_NOFILE=1024", "python t.py", "limits", ""),
        ("RLIMIT_NOFILE=1024", "ulimit -n 64; python t.py", "limits", "os_limit"),
        ("RLIMIT_FSIZE=1048576", "python t.py", "limits", "disk_full"),
        ("RLIMIT_CPU=600", "python t.py", "limits", "time_limit"),
        (f"RLIMIT_AS={4 * 2**30}", "python t.py", "limits", "host_oom"),
    ],
)
def test_limits_really_lowered(tmp_path: Path, limit: str, command: str, check: str, expected: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), command, limit, check],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    assert json.loads(done.stdout) == ([["warning", expected]] if expected else [])
