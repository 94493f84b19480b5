"""Dependency arrows never point back, and start-up imports nothing heavy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FORBIDDEN = {
    "harness": {"trainer_core"},
    "monitors": {"harness", "trainer_core"},
    "trainer_core": {"harness", "monitors"},
}
HEAVY = {
    "torch", "transformers", "ray", "verl", "vllm", "pandas", "matplotlib", "scipy", "statsmodels",
    "datasets", "libtmux", "anthropic", "openai", "swanlab",
}  # fmt: skip


ROOMS_BEHIND = {
    "command": {"results", "sweep", "cli", "agent", "diagnosis"},
    "results": {"sweep", "cli"},
    "sweep": {"cli"},
}
"""Rooms of the harness, and those that a room may not know: they come later, and use it."""


def modules_in(path: Path) -> set[str]:
    """Every module a file imports, also inside functions, as far as a name may be one."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def imports_of(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in modules_in(path)}


@pytest.mark.parametrize("package", sorted(FORBIDDEN))
def test_arrows_never_point_back(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    backwards = {str(file): imports_of(file) & FORBIDDEN[package] for file in files}
    assert {file: names for file, names in backwards.items() if names} == {}


@pytest.mark.parametrize("room", sorted(ROOMS_BEHIND))
def test_no_room_of_the_harness_knows_one_that_comes_later(room: str) -> None:
    files = sorted((ROOT / "harness" / room).rglob("*.py"))
    assert files
    later = {f"harness.{name}" for name in ROOMS_BEHIND[room]}
    backwards = {
        str(file): {name for name in modules_in(file) if ".".join(name.split(".")[:2]) in later}
        for file in files
    }
    assert {file: names for file, names in backwards.items() if names} == {}


@pytest.mark.parametrize("module", ["harness.cli.app", "trainer_core.cli", "monitors.wait", "monitors.run"])
def test_start_up_imports_nothing_heavy(module: str) -> None:
    code = f"import {module}, sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert set(done.stdout.split()) & HEAVY == set()
