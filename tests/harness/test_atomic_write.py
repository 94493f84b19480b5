"""Atomic writes leave one file, whatever died before."""

import os
import subprocess
import sys
from pathlib import Path

from harness.atomic_write import write_atomically


def test_what_a_killed_writer_left_is_removed_and_what_a_live_one_writes_is_not(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    path = tmp_path / "result.json"
    (tmp_path / f".result.json.{dead.pid}.tmp").write_text("half")
    alive = tmp_path / f".result.json.{os.getppid()}.tmp"
    alive.write_text("half")
    other = tmp_path / f".another.json.{dead.pid}.tmp"
    other.write_text("half")
    write_atomically(path, "whole")
    assert set(tmp_path.iterdir()) == {path, alive, other}
    assert path.read_text() == "whole"
