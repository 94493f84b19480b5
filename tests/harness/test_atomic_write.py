"""Atomic writes leave one file, whatever died before."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.atomic_write import write_atomically, write_json


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


@pytest.mark.parametrize("text", ["数 é", "caf\udce9", "\ud800"])
def test_names_that_are_not_utf8_are_written(tmp_path: Path, text: str) -> None:
    write_json(tmp_path / "a.json", {text: text})
    assert json.loads((tmp_path / "a.json").read_bytes().decode()) == {text: text}
    if text != "\ud800":  # no bytes of a name
        write_atomically(tmp_path / "a.yaml", f"path: {text}\n")
        assert (tmp_path / "a.yaml").read_bytes() == os.fsencode(f"path: {text}\n")


def test_json_holds_no_number_that_strict_readers_refuse(tmp_path: Path) -> None:
    numbers = {"lost": float("nan"), "list": [float("inf"), (1.5, -float("inf"))], "text": "NaN"}
    write_json(tmp_path / "a.json", numbers)
    read = json.loads((tmp_path / "a.json").read_text(), parse_constant=pytest.fail)
    assert read == {"lost": "NaN", "list": ["Infinity", [1.5, "-Infinity"]], "text": "NaN"}
