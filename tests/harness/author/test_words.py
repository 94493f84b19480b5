"""What code can tell from a request in words."""

from pathlib import Path

import pytest

from harness.author import request_text as words

REQUEST = "does a higher KL coefficient stop reward hacking on countdown? Qwen2.5-3B, 4 GPUs, 6 hours"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (REQUEST, True),
        ("更高的KL系数会阻止奖励作弊吗？", True),
        ("kl-high_0.01", False),
        ("a/b", False),
        ("..", False),
        (" demo ", False),
    ],
)
def test_a_name_is_no_request(text: str, expected: bool) -> None:
    assert words.is_request(text) is expected


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (REQUEST, "higher-kl-coefficient-stop-reward"),
        ("Is Über-Training bad?", "uber-training-bad"),
        ("更高的系数会阻止作弊吗？", "my-experiment"),
        ("../../etc/passwd please", "etc-passwd"),
        ("is it", "my-experiment"),
        ("x" * 200 + " y", "x" * 40),
    ],
)
def test_a_name_out_of_the_words(text: str, name: str) -> None:
    assert words.slug(text) == name


def test_what_leaves_no_doubt_is_proposed(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for name in ("src/train.py", "train.jsonl", "val.jsonl"):
        (tmp_path / name).write_text("")
    text = "Use the code in src/ with src/train.py, train.jsonl and val.jsonl, 1,200 steps, half an hour."
    assert words.guesses(text, tmp_path) == {
        "purpose": text,
        "codebase_dir": "src/",
        "launch_command": "python src/train.py",
        "training_file": "train.jsonl",
        "validation_file": "val.jsonl",
        "max_time": "30 minutes",
        "total_training_steps": "1200",
    }


@pytest.mark.parametrize(
    "text",
    ["12-24 hours, train.jsonl", "2 hours or 3 hours", "100 steps against 200 steps", "no/such/folder"],
)
def test_what_leaves_doubt_is_not(tmp_path: Path, text: str) -> None:
    (tmp_path / "train.jsonl").write_text("")
    assert words.guesses(text, tmp_path) == {"purpose": text}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (4, True),
        (4.0, True),
        (3, False),
        (6, True),
        (2.5, False),
        ("Qwen/Qwen2.5-3B", True),
        ("Qwen/Qwen2.5-7B", False),
        ("360 minutes", True),
        ("5 hours", False),
        (True, False),
        ("count", False),
    ],
)
def test_whether_the_words_state_a_value(value: object, expected: bool) -> None:
    assert words.states(REQUEST, value) is expected


@pytest.mark.parametrize(
    ("path", "expected"), [("src", True), ("./src/", True), ("sr", False), ("src/evil", False), ("", False)]
)
def test_whether_the_words_name_a_folder(path: str, expected: bool) -> None:
    assert words.names_path("use the code in src/, please", path) is expected


def test_a_slash_or_a_tilde_between_words_is_no_path() -> None:
    assert words.guesses("compare lr 1e-5 / 1e-6 on ~ 5 tasks in .. ways", Path("/")) == {
        "purpose": "compare lr 1e-5 / 1e-6 on ~ 5 tasks in .. ways"
    }
    assert not words.names_path("about ~ 6 hours of KL / entropy", "~")
    assert not words.names_path("about ~ 6 hours of KL / entropy", "/")
