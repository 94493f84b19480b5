"""The options that `harness run` and `harness resume` share."""

from dataclasses import fields

import pytest
import typer
from typer.testing import CliRunner

from harness.cli.app import app
from harness.cli.options import Given, of_a_run


def given_by(*words: str) -> Given:
    """What a command with these options gets."""
    seen: list[Given] = []
    small = typer.Typer()

    @small.command()
    @of_a_run
    def command(name: str, *, given: Given) -> None:
        assert name == "plan.md"
        seen.append(given)

    done = CliRunner().invoke(small, ["plan.md", *words])
    assert done.exit_code == 0, done.output
    return seen[0]


def test_a_command_gets_its_options_together() -> None:
    assert given_by() == Given()
    words = ("--policy", "llm", "--max-cost", "2.5", "--pass-key", "A", "--pass-key", "B", "--keep-session")
    assert given_by(*words) == Given("llm", max_cost=2.5, pass_key=["A", "B"], keep_session=True)


@pytest.mark.parametrize("command", ["run", "resume"])
def test_every_option_is_shown(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"]).output
    assert [each.name for each in fields(Given) if f"--{each.name.replace('_', '-')}" not in shown] == []
