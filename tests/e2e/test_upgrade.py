"""The installation is upgraded, or gone, while a harness watches a training."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness import journal
from tests.e2e.bench import PATIENCE_S, Bench, until

ROOT = Path(__file__).parents[2]
TRAIN = """
import os, sys, time
print("step=1 loss=0.5 reward=0.25", flush=True)
while not os.path.exists("go on"):
    time.sleep(0.05)
print("step=2 loss=0.25 reward=0.5", flush=True)
if "fail" in sys.argv:
    raise RuntimeError("CUDA error: no kernel image is available for execution on the device")
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """An installation of the product."""
    for package in ("harness", "monitors", "templates"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / "site" / package, ignore=ignored)
    return tmp_path / "site"


def upgrade(site: Path) -> None:
    """Put another version in the place of the one there, with which no file of the old one works."""
    for path in site.rglob("*"):
        if path.is_file():
            path.write_text("{{ another }} raise ImportError('another version')")
    shutil.rmtree(site / "harness" / "diagnosis")


@pytest.mark.parametrize(("word", "status"), [("succeed", 0), ("fail", 1)])
def test_a_harness_ends_with_the_version_it_began_with(
    bench: Bench, site: Path, word: str, status: int
) -> None:
    bench.script("train.py", TRAIN)
    plan = bench.plan(f"{sys.executable} train.py {word}")
    command = [sys.executable, "-m", "harness", "run", str(plan), "--policy", "playbook"]
    env = {**os.environ, "PYTHONPATH": str(site)}
    with subprocess.Popen(command, cwd=bench.folder, env=env, stdout=subprocess.PIPE, text=True) as harness:
        until(lambda: "step=1" in bench.log(), "the training's first step")
        upgrade(site)
        (bench.codebase / "go on").touch()
        printed, _ = harness.communicate(timeout=PATIENCE_S)
    assert harness.returncode == status, printed
    assert "report could not be built" not in printed
    assert bench.state.reported is not None and not bench.state.reported.error
    assert bench.flag["exit_code"] == status
    assert journal.read(bench.result_dir / "journal.jsonl")[-1].kind == "finish"
    if word == "fail":
        assert "driver_or_arch" in (bench.attempt() / "diagnosis.json").read_text()
    assert "nothing differs" in bench.harness("verify", str(bench.result_dir))
