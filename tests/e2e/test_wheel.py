"""The installed wheel works outside the checkout: templates and blueprints travel inside it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.installation import version

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but our wheel, unpacked by pip."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    build = [*pip, "wheel", str(ROOT), "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(folder / "site"), str(wheel)], check=True)
    return folder / "site"


def test_new_check_run_and_report(site: Path, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(site)}

    def harness(*arguments: str) -> str:
        command = [sys.executable, "-m", "harness", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    told = "from harness import installation as own; print(own.__file__, own.version())"
    where = [sys.executable, "-c", told]
    found = subprocess.run(where, cwd=tmp_path, env=env, capture_output=True, text=True, check=True).stdout
    assert found.startswith(str(site)) and found.strip().endswith(version()), "the same code, installed"
    harness("new", "trial", "--set", "launch_command=echo step=1 loss=0.5")
    harness("check", "trial/blueprint.md")
    harness("run", "trial/blueprint.md")
    assert "<html" in (tmp_path / "exp_results" / "trial" / "report.html").read_text()
