"""What a model may see of the person's files, and of the trainer's keys, asked of the trainer."""

import os
from pathlib import Path

import pytest

from harness.agent.excerpts import NotShownError
from harness.agent.trainer_keys import MOST_KEYS, NoKeysError, TrainerKeys
from harness.author.lookups import look


@pytest.fixture(scope="module")
def keys() -> TrainerKeys:
    return TrainerKeys.ask()


def test_keys_are_found_by_name_and_meaning(keys: TrainerKeys) -> None:
    assert "ajet.trainer_common.n_gpus_per_node: int > 0, default 8" in keys.search("GPU machine")
    assert "ajet.trainer_common.kl_loss_coef" in keys.search("kl_loss")
    assert keys.search("a").count("\n") == MOST_KEYS
    with pytest.raises(NoKeysError, match="no key has 'zebra'"):
        keys.search("zebra")
    assert keys.knows("ajet.model") and keys.knows("ajet.model.*") and not keys.knows("ajet.modell")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "data").mkdir(parents=True)
    (folder / "train.py").write_text("import argparse\nprint('step:1 - loss:2')\n")
    (folder / "data" / "train.jsonl").write_text('{"question": "1+1", "answer": "2"}\n' * 500)
    (folder / ".env").write_text("OPENAI_API_KEY=sk-abcdefghijklmnop")
    (tmp_path / "outside.txt").write_text("outside")
    (folder / "link.txt").symlink_to(tmp_path / "outside.txt")
    (folder / "up").symlink_to(tmp_path)
    return folder


def test_folders_and_the_first_lines_of_files_are_shown(project: Path) -> None:
    listing = look(".", 1, project)
    assert "train.py" in listing and "data/" in listing and ".env" not in listing
    shown = look("data/train.jsonl", 3, project)
    assert "the first 3 of 500 lines" in shown and shown.count('"question"') == 3


def test_nothing_else_is(project: Path) -> None:
    os.mkfifo(project / "pipe.txt")
    outside = (".env", "link.txt", "up", "up/outside.txt", "..", "../outside.txt", "/etc/passwd")
    for path in (*outside, "~/.ssh/id_rsa", "nothing.txt", "a\0b", "train.py/..", "x" * 5000, "pipe.txt"):
        with pytest.raises(NotShownError):
            look(path, 10, project)


def test_secrets_and_home_folders_are_not_shown(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "notes.txt").write_text("key: sk-abcdefghijklmnopqrst\nlr 1e-5\n")
    shown = look("notes.txt", 10, project)
    assert "sk-abc" not in shown and "lr 1e-5" in shown
    monkeypatch.setenv("HOME", str(project / "data"))
    with pytest.raises(NotShownError, match="home folder"):
        look(".", 10, project)
