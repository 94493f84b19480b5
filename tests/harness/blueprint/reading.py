"""One blueprint text in, a Blueprint out, on a machine without surprises."""

from functools import partial
from pathlib import Path

from harness.blueprint import Blueprint, parse

FOLDER = Path("/nowhere/plans/exp1")
CWD = Path("/nowhere/cwd")
ENV = {"HOME": "/home/me", "PROJECT": "/opt/project"}


def read_text(text: str, path: Path = FOLDER / "blueprint.md") -> Blueprint:
    return parse(text, path, CWD, ENV)


def section(name: str, body: str) -> str:
    """A blueprint with a purpose and one more section."""
    return f"## [exp_purpose]\nx\n\n## [{name}]\n{body}\n"


def problems(blueprint: Blueprint, severity: str) -> list[tuple[int, str]]:
    return [(each.line, each.message) for each in blueprint.problems if each.severity == severity]


errors = partial(problems, severity="error")
warnings = partial(problems, severity="warning")
