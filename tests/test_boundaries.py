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


def imports_of(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize("package", sorted(FORBIDDEN))
def test_arrows_never_point_back(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    backwards = {str(file): imports_of(file) & FORBIDDEN[package] for file in files}
    assert {file: names for file, names in backwards.items() if names} == {}


@pytest.mark.parametrize("module", ["harness.cli.app", "trainer_core.cli", "monitors.wait", "monitors.run"])
def test_start_up_imports_nothing_heavy(module: str) -> None:
    code = f"import {module}, sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert set(done.stdout.split()) & HEAVY == set()
