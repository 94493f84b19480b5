"""The harness without the trainer's packages: `pip install .` brings none of them."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ABSENT = ("torch", "transformers", "tokenizers", "safetensors", "datasets", "pyarrow", "pandas", "swanlab")
NOT_INSTALLED = f"""
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, NotInstalled())
"""
CONFIG = "ajet:\n  experiment_name: run\n  model: {path: tiny}\n  task_reader: {type: builtin}\n"


@pytest.fixture
def env(tmp_path: Path) -> Mapping[str, str]:
    """An environment whose Python cannot import the trainer's packages."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(NOT_INSTALLED)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(Path(__file__).parents[2])])}


def typed(folder: Path, env: Mapping[str, str], *command: str) -> "subprocess.CompletedProcess[str]":
    whole = [sys.executable, "-m", *command]
    return subprocess.run(whole, cwd=folder, env=env, capture_output=True, text=True, timeout=120)


def test_missing_6_the_harness_needs_nothing_of_the_trainer(tmp_path: Path, env: Mapping[str, str]) -> None:
    blocked = subprocess.run([sys.executable, "-c", "import torch"], env=env, capture_output=True)
    assert b"No module named 'torch'" in blocked.stderr
    (tmp_path / "train.py").write_text("for step in range(1, 4): print(f'step={step} loss={1 / step}')")
    for words in (
        ("--help",),
        ("new", "trial", "--command", "python train.py"),
        ("check", "trial/blueprint.md"),
        ("doctor", "trial/blueprint.md"),
        ("run", "trial/blueprint.md"),
        ("verify", "trial"),
        ("metrics", "exp_results/trial/attempts/01/pane.log", "--json"),
        ("ls", "--json"),
    ):
        done = typed(tmp_path, env, "harness", *words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    assert "<html" in (tmp_path / "exp_results" / "trial" / "report.html").read_text()


def test_missing_6_the_trainer_says_what_to_install(tmp_path: Path, env: Mapping[str, str]) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    checked = typed(tmp_path, env, "trainer_core.cli", "--conf", "config.yaml", "--dry-run")
    assert checked.returncode == 0, checked.stderr
    done = typed(tmp_path, env, "trainer_core.cli", "--conf", "config.yaml")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("type: pip install '.[trainer]'")
    assert "Traceback" not in done.stderr


def test_missing_6_the_doctor_says_what_the_bundled_trainer_lacks(
    tmp_path: Path, env: Mapping[str, str]
) -> None:
    made = typed(tmp_path, env, "harness", "new", "digits", "--trainer")
    assert made.returncode == 0, made.stderr
    examined = typed(tmp_path, env, "harness", "doctor", "digits/blueprint.md")
    assert examined.returncode == 2
    assert "pip install '.[trainer]'" in " ".join(examined.stdout.split())
