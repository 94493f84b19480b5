"""A command as it is typed: its status and what it prints."""

from pathlib import Path

from typer.testing import CliRunner

from harness.cli.app import app


def typed(*words: str | Path, columns: int = 80, piped: bytes | None = None) -> tuple[int, str, str]:
    """`piped`: what stands on standard input."""
    done = CliRunner().invoke(app, [*map(str, words)], piped, env={"COLUMNS": str(columns)})
    return done.exit_code, done.stdout, done.stderr
