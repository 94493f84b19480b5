"""What every command line offers: help, the version, completion."""

import os
import subprocess
import sys

import pytest

from harness import __version__
from harness.cli.app import COMMANDS, loaded
from tests.harness.cli.typed import typed


def test_missing_7_the_version_is_shown() -> None:
    assert typed("--version")[:2] == typed("-V")[:2]
    assert typed("--version")[1].startswith(f"harness {__version__} ")


@pytest.mark.parametrize("command", [(), ("run",), ("lessons",)])
def test_missing_7_help_is_also_h(command: tuple[str, ...]) -> None:
    status, output, _ = typed(*command, "-h")
    assert status == 0
    assert output == typed(*command, "--help")[1]


def test_without_arguments_the_help_is_shown() -> None:
    status, *output = typed()
    assert status == 2
    assert "Commands:" in "".join(output)


def test_missing_7_python_m_harness_completes_commands() -> None:
    asked = {"_HARNESS_COMPLETE": "complete_bash", "COMP_WORDS": "harness ver", "COMP_CWORD": "1"}
    command = [sys.executable, "-m", "harness"]
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["verify"]
    assert "--install-completion" in typed("-h")[1]


def test_every_command_says_in_one_line_what_it_does() -> None:
    shown = typed("-h")[1].partition("Commands:")[2].splitlines()
    assert len(shown) > 15
    assert [line for line in shown if line.rstrip().endswith("...")] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_all_commands_says_of_each_what_its_own_help_does(name: str) -> None:
    assert loaded(name).get_short_help_str(limit=200) == COMMANDS[name][1]
    assert COMMANDS[name][1] in " ".join(typed(name, "-h")[1].split())


def test_an_unknown_command_is_answered_with_the_closest() -> None:
    assert "Did you mean 'diagnose'?" in typed("diagnoze")[2]
