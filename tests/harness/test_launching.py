"""The command and the environment that an attempt gets."""

import os
import pty
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from harness import environment, launching
from harness.blueprint import Blueprint
from harness.options import RunOptions
from monitors.files import AttemptFiles
from tests.harness.runs import planned


@pytest.fixture
def plan(tmp_path: Path) -> Blueprint:
    config = tmp_path / "plans" / "config.yaml"
    config.parent.mkdir()
    config.write_text("a: 1\n")
    places = {"path": tmp_path / "plans" / "blueprint.md", "codebase_dir": tmp_path / "code"}
    return planned({**places, "venv_exe": "/opt/venv/bin/python", "yaml_path": config})


@pytest.mark.parametrize(
    "command",
    [
        "python train.py --config {absolute} --lr 1e-4",
        "python train.py --config=../plans/config.yaml",
        "cd x && python train.py -c 'config.yaml'",
        "python train.py \\\n  --config config.yaml",
        'bash -c "python train.py -c config.yaml"',
    ],
)
def test_the_config_named_by_the_command_becomes_the_attempts_copy(plan: Blueprint, command: str) -> None:
    plan = replace(plan, launch_command=command.format(absolute=plan.yaml_path))
    changed = launching.command(plan, Path("/results/attempts/01/config.yaml"))
    assert changed.count("/results/attempts/01/config.yaml") == 1
    assert "plans/config.yaml" not in changed
    assert launching.uses_config(plan)


def test_other_words_of_the_command_stay_as_they_are(plan: Blueprint) -> None:
    other = "accelerate launch --config_file other/config.yaml train.py > out.txt 2>&1"
    plan = replace(plan, launch_command=other)
    assert launching.command(plan, Path("/x/config.yaml")) == plan.launch_command
    assert not launching.uses_config(plan)
    assert launching.base_config(plan, None, None) is None


def test_without_a_command_the_bundled_trainer_is_launched(plan: Blueprint) -> None:
    assert launching.command(plan, Path("/x/my config.yaml")) == (
        "/opt/venv/bin/python -m trainer_core.cli --conf '/x/my config.yaml'"
    )


def test_the_callers_environment_without_its_terminal_and_without_the_harnesss_own_keys(
    plan: Blueprint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {"WANDB_API_KEY": "w", "CUDA_VISIBLE_DEVICES": "3"}
    keys = {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o", "MY_KEY": "m"}
    of_the_shell = {"TMUX": "/tmp/x", "BASH_FUNC_ml%%": "() { :; }"}
    monkeypatch.setattr(os, "environ", {"PATH": "/usr/bin", **kept, **keys, **of_the_shell})
    variables = environment.of_training(tmp_path, RunOptions(key_variable="MY_KEY").hidden)
    env = launching.environment(plan, AttemptFiles(tmp_path), variables)
    assert env.pop("HARNESS_ATTEMPT_DIR") == str(tmp_path)
    added = {"PATH": "/opt/venv/bin:/usr/bin", "PYTHONUNBUFFERED": "1", "GIT_TERMINAL_PROMPT": "0"}
    assert env == {**kept, **added}


def in_a_terminal(command: str) -> str:
    """What a shell that has a terminal of its own prints."""
    master, slave = pty.openpty()
    with os.fdopen(master, "rb"), os.fdopen(slave, "rb") as terminal:
        shell = ["bash", "-c", launching.unattended(command)]
        done = subprocess.run(shell, stdin=terminal, capture_output=True, text=True, timeout=20, check=False)
    return done.stdout


def test_a_question_that_nobody_is_there_to_answer_ends_at_once() -> None:
    assert in_a_terminal("read answer || echo nobody") == "nobody\n"
    assert in_a_terminal("test -t 0 && echo terminal; echo yes | cat") == "yes\n"


@pytest.mark.parametrize("flag", ["-it", "-ti", "--tty", "--pty"])
def test_a_command_that_asks_for_a_terminal_keeps_it(flag: str) -> None:
    assert in_a_terminal(f"true run {flag} image; test -t 0 && echo terminal") == "terminal\n"
