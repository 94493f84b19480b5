"""The command line where the locale is not UTF-8."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness import index
from harness.blueprint import read
from harness.journal import Journal
from harness.journal.events import Created


@pytest.mark.parametrize("command", [["ls"], ["show", "größe"], ["logs", "größe"]])
def test_d28_a_locale_without_utf8_gives_no_traceback(tmp_path: Path, command: list[str]) -> None:
    folder = tmp_path / "größe"
    folder.mkdir()
    with Journal(folder / "journal.jsonl", time.time) as journal:
        journal.append(
            Created("0123456789ab", "größe", time.time(), "playbook", read(folder / "blueprint.md"))
        )
    index.add(index.IndexedRun("0123456789ab", "größe", str(folder), time.time()))
    done = subprocess.run(
        [sys.executable, "-m", "harness", *command],
        env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "", "COLUMNS": "300"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    said = done.stdout.decode() + done.stderr.decode()
    assert "Traceback" not in said and folder.name in said
