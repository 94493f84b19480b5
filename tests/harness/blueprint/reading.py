"""What the tests of this folder share: one blueprint text in, a Blueprint out, on a machine without
surprises."""

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


def errors(blueprint: Blueprint) -> list[tuple[int, str]]:
    return [(problem.line, problem.message) for problem in blueprint.problems if problem.severity == "error"]


def warnings(blueprint: Blueprint) -> list[tuple[int, str]]:
    return [
        (problem.line, problem.message) for problem in blueprint.problems if problem.severity == "warning"
    ]
