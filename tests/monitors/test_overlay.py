"""A folder whose changes only the command sees."""

import subprocess
from pathlib import Path

import pytest

from monitors import overlay


def test_what_is_written_is_seen_by_the_command_alone_but_in_its_own_folder(tmp_path: Path) -> None:
    code, scratch = tmp_path / "co:de, mine", tmp_path / "scratch"
    (code / "out").mkdir(parents=True)
    (code / "results").mkdir()
    (code / "out" / "model").write_text("old")
    (code / "old").write_text("old")
    if not overlay.works(code, scratch):
        pytest.skip("this machine makes no overlays")
    command = "echo new > out/model; rm old; cat out/model; ls; echo log > results/log"
    program = overlay.program(code, scratch, [code / "results"])
    ran = subprocess.run([*program, "bash", "-c", command], cwd=code, capture_output=True, text=True)
    assert ran.stdout.split() == ["new", "out", "results"], ran.stderr
    assert (code / "out" / "model").read_text() == (code / "old").read_text() == "old"
    assert (code / "results" / "log").read_text() == "log\n"
    overlay.remove(scratch)
    assert not scratch.exists()


def test_a_command_is_not_run_where_there_is_no_overlay(tmp_path: Path) -> None:
    program = overlay.program(tmp_path / "nowhere", tmp_path / "scratch", [])
    ran = subprocess.run([*program, "touch", str(tmp_path / "ran")], capture_output=True, text=True)
    assert ran.returncode == overlay.NOT_SET_UP and "cannot be seen apart" in ran.stderr
    assert not (tmp_path / "ran").exists()
