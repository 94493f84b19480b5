"""Looking around in the author's code: what is listed and searched, and what stays out of sight."""

import time
from pathlib import Path

import pytest

from harness.actions import Action, ListFiles, SearchCode
from harness.agent import log_search
from harness.agent.look import look
from harness.experiment import Experiment
from tests.harness.agent.world import World, new_experiment

KEY = "sk-abcdefghijklmnop1234567890"


@pytest.fixture
def codebase(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    (folder / "src").mkdir(parents=True)
    (folder / "train.py").write_text("from src import data\nloader = data.load()\n")
    (folder / "src" / "data.py").write_text(f"api_key = '{KEY}'\ndef load():\n    return 1\n")
    (folder / ".env").write_text("load=1\n")
    (folder / "credentials.json").write_text('{"load": 1}')
    (folder / "weights.bin").write_bytes(b"load" * 1000)
    (tmp_path / "outside.py").write_text("def load(): ...\n")
    (folder / "linked.py").symlink_to(tmp_path / "outside.py")
    (folder / "up").symlink_to(tmp_path)
    for library in ("venv/lib", "node_modules", "old_run"):
        (folder / library).mkdir(parents=True)
        (folder / library / "other.py").write_text("def load(): ...\n")
    (folder / "venv" / "pyvenv.cfg").write_text("")
    (folder / "old_run" / "journal.jsonl").write_text("{}\n")
    return folder


@pytest.fixture
def experiment(tmp_path: Path, codebase: Path) -> Experiment:
    return new_experiment(tmp_path / "result", World([]), codebase_dir=str(codebase))


def shown(action: Action, experiment: Experiment) -> str:
    found = look(action, experiment)
    return found.text or f"refused: {found.error}"


def test_folders_are_listed_with_sizes_and_without_what_is_private(experiment: Experiment) -> None:
    top = shown(ListFiles(), experiment)
    assert "src/" in top and "train.py  42 B" in top and "weights.bin  4 kB" in top
    assert "linked.py (a link)" in top and "the result folder" in top and "blueprint.md" in top
    assert ".env" not in top and "credentials" not in top
    assert "data.py" in shown(ListFiles(path="src"), experiment)


@pytest.mark.parametrize("path", ["up", "..", "up/result", "/etc", "~", "train.py", "nowhere", ".git"])
def test_nothing_else_is_listed(experiment: Experiment, codebase: Path, path: str) -> None:
    (codebase / ".git").mkdir()
    assert shown(ListFiles(path=path), experiment).startswith("refused: ")


def test_the_codebase_is_searched_without_libraries_links_and_secrets(experiment: Experiment) -> None:
    found = shown(SearchCode(pattern=r"load|key"), experiment).split("\n")
    assert found[0] == "3 lines in 2 of 2 files match"
    assert found[1:] == [
        "src/data.py",
        "> 1| api_key = '[redacted]'",
        "> 2| def load():",
        "train.py",
        "> 2| loader = data.load()",
    ]
    assert shown(SearchCode(pattern=KEY[:12]), experiment).startswith("0 lines")
    assert "plain text" in shown(SearchCode(pattern="load("), experiment)


def test_an_endless_search_of_code_is_given_up(
    experiment: Experiment, codebase: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (codebase / "long.py").write_text("a" * 60 + "!\n")
    monkeypatch.setattr(log_search, "BUDGET_S", 3.0)
    began = time.monotonic()
    assert "took more than 3 s" in shown(SearchCode(pattern="(a+)+$"), experiment)
    assert time.monotonic() - began < 3.0 + 5.0


def test_of_a_home_folder_nothing_is_shown(
    experiment: Experiment, codebase: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(codebase))
    assert "train.py" not in shown(ListFiles(), experiment)
    assert "home folder" in shown(SearchCode(pattern="load"), experiment)
