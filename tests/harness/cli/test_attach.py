"""`harness attach`: how the terminal gets to the session of a run, inside tmux and outside."""

import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness import index
from harness.blueprint import read
from harness.journal import Journal
from harness.journal.events import Created, Intent, Launched
from monitors.tmux import Session
from tests.harness.cli.typed import typed


def test_d15_attach_inside_tmux_switches_the_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    launch = {"attempt": 1, "session": "ajet_x-01", "attempt_id": "x-01", "why": "w"}
    with Journal(folder / "journal.jsonl", time.time) as journal:
        journal.append(Created("0123456789ab", "run", 0.0, "playbook", read(folder / "blueprint.md")))
        journal.append(Intent("launch", launch))
        journal.append(Launched(time.time(), "train"))
    index.add(index.IndexedRun("0123456789ab", "run", str(folder), 1.0))
    assert "has no tmux session now" in typed("attach", "run")[2]
    session = Session.create("ajet_x-01", tmp_path)
    calls: list[tuple[list[str], bool]] = []

    def become(_: str, argv: list[str], environment: Mapping[str, str]) -> None:
        calls.append((argv, "TMUX" in environment))

    monkeypatch.setattr(os, "execvpe", become)
    (socket,) = session._output("display-message", "-p", "-t", session._pane, "#{socket_path}")
    typed("attach", "run")
    for server in (socket, "/elsewhere/default"):
        monkeypatch.setenv("TMUX", f"{server},77,0")
        typed("attach", "run")
    attach = (session.attach_argv(), False)
    assert calls == [attach, (["tmux", "switch-client", "-t", "=ajet_x-01"], True), attach]
