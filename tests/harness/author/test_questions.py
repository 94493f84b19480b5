"""`harness new "WORDS"` without a language model."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.author.request_text import questions
from harness.blueprint import read
from harness.cli.app import app


@pytest.fixture(autouse=True)
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_terminal_is_asked_with_what_the_words_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.cli.new.is_terminal", lambda: True)
    request = "does a higher KL coefficient help on sort_digits? 90 minutes, 30 steps"
    enters = "trainer\n" + "\n" * (1 + len(questions("x", "grpo")))
    result = CliRunner().invoke(app, ["new", request], input=enters)
    assert result.exit_code == 0, result.output
    assert "No language model is configured" in result.output
    plan = read(tmp_path / "higher-kl-coefficient-help-sort_digits" / "blueprint.md")
    assert (plan.purpose, plan.max_time_s) == (request, 5400)
    assert "total_training_steps: 30" in plan.yaml_path.read_text()  # type: ignore[union-attr]


def test_what_was_set_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.cli.new.is_terminal", lambda: True)
    options = ["--command", "python a.py", "--set", "max_time=1 hour"]
    result = CliRunner().invoke(app, ["new", "is a faster?", *options], input="mine\n\n\n")
    assert result.exit_code == 0, result.output
    plan = read(tmp_path / "mine" / "blueprint.md")
    assert (plan.launch_command, plan.max_time_s) == ("python a.py", 3600)


def test_without_a_terminal_both_ways_out_are_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["new", "is a higher KL better?"])
    assert result.exit_code == 2
    assert "--model anthropic:NAME" in result.stderr and "a terminal" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["demo", "--model", "anthropic:x"], "'demo' is a name"),
        (["is it so?", "--model", "claude"], "names no provider"),
        (["is it so?", "--max-cost", "-1"], "--max-cost"),
        (["is it so?", "--model", "anthropic:x@http://127.0.0.1:9", "--set", "lrr=1"], "did you mean lr?"),
        (["is it so?", "--trainer", "--command", "a"], "give one of them"),
    ],
)
def test_what_cannot_be_used_is_said(tmp_path: Path, arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(app, ["new", *arguments])
    assert result.exit_code == 2 and words in result.stderr
    assert list(tmp_path.iterdir()) == []
