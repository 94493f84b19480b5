"""A command as it is typed at a terminal of 80 columns: its status and what it prints."""

from pathlib import Path

from typer.testing import CliRunner

from harness.cli.app import app


def typed(*words: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "80"})
    return done.exit_code, done.stdout, done.stderr
