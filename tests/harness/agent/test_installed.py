"""Source of installed packages, through a package that is put into a virtual environment."""

import venv
from pathlib import Path

import pytest

from harness.actions import ReadInstalled
from harness.agent.look import look
from harness.experiment import Experiment
from tests.harness.agent.world import World, new_experiment

RECORD = "toy/__init__.py toy/nn/core.py toy/nn/other/core.py toy/link.py toy/weights.bin ../../../outside.py"


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    venv.create(tmp_path / "venv", symlinks=True)
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (site / "toy" / "nn" / "other").mkdir(parents=True)
    (site / "toy_kit-1.2.dist-info").mkdir()
    info = site / "toy_kit-1.2.dist-info"
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-kit\nVersion: 1.2\n")
    (info / "RECORD").write_text("".join(f"{name},,\n" for name in RECORD.split()))
    (info / "top_level.txt").write_text("toy\n")
    (tmp_path / "venv" / "outside.py").write_text("SECRET = 1\n")
    for name in RECORD.split()[:3]:
        (site / name).write_text(f"# {name}\ndef forward(x):\n    return x\n")
    (site / "toy" / "link.py").symlink_to(tmp_path / "venv" / "outside.py")
    python = tmp_path / "venv" / "bin" / "python"
    return new_experiment(tmp_path / "result", World([]), venv_exe=str(python))


def shown(experiment: Experiment, file: str = "", package: str = "toy-kit") -> str:
    found = look(ReadInstalled(package=package, file=file, lines=2), experiment)
    return found.text or f"refused: {found.error}"


@pytest.mark.parametrize("file", ["toy/nn/core.py", "/opt/venv/lib/site-packages/toy/nn/core.py"])
@pytest.mark.parametrize("package", ["toy-kit", "toy"])
def test_a_file_is_read_as_a_traceback_names_it(experiment: Experiment, file: str, package: str) -> None:
    assert shown(experiment, file, package).split("\n") == [
        "toy-kit 1.2, toy/nn/core.py, lines 1 to 2 of 3; for more ask with first_line=3",
        "1| # toy/nn/core.py",
        "2| def forward(x):",
    ]


def test_its_files_are_listed_and_what_is_meant_is_said(experiment: Experiment) -> None:
    assert shown(experiment).split("\n")[0] == "toy-kit 1.2: 4 files of source"
    assert "several files core.py; it has toy/nn/core.py, toy/nn/other/core.py" in shown(
        experiment, "core.py"
    )
    assert "no file toy/core.py; it has" in shown(experiment, "toy/core.py")
    assert "no package absent is installed" in shown(experiment, "x.py", "absent")


@pytest.mark.parametrize("file", ["toy/link.py", "toy/weights.bin", "outside.py", "../../../outside.py"])
def test_nothing_outside_and_no_binary_is_read(experiment: Experiment, file: str) -> None:
    assert shown(experiment, file).startswith("refused: ")
    assert "SECRET" not in shown(experiment, file)
