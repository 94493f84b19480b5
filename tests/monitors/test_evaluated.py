"""What an evaluation says of the pickles that it loads: all that can run code, and no usual data."""

import subprocess
import sys
from pathlib import Path

import pytest

from harness.launching import UNPICKLING

MAKES = """
import collections, datetime, fractions, io, os, pathlib, pickle, subprocess, sys
import numpy as np

class Runs:
    def __init__(self, *what): self.what = what
    def __reduce__(self): return self.what

made = {MADE}
pickle.dump(made, open("made.pkl", "wb"), protocol=int(sys.argv[1]))
"""
LOADS = "from net import Net\nimport pickle\nprint(pickle.load(open('made.pkl', 'rb')) is not None)\n"


def said(folder: Path, made: str, protocol: int = 4) -> list[str]:
    (folder / "net.py").write_text("class Net:\n    depth = 3\n")
    (folder / "makes.py").write_text(MAKES.replace("{MADE}", made))
    (folder / "loads.py").write_text(LOADS)
    subprocess.run([sys.executable, "makes.py", str(protocol)], cwd=folder, check=True)
    environment = {"PYTHONPATH": str(UNPICKLING), "PATH": "/usr/bin:/bin"}
    asked = [sys.executable, "loads.py"]
    told = subprocess.run(asked, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return [line.removeprefix("harness: unpickled ") for line in told.stderr.splitlines()]


@pytest.mark.parametrize("protocol", [0, 2, 5])
@pytest.mark.parametrize(
    "made",
    [
        "{'w': np.ones((3, 2)), 'n': np.float64(2), 'r': np.random.default_rng(3), 's': {1, 2}, 'b': b'x'}",
        "collections.OrderedDict(a=[1.0, 2j, (None, True)], d=datetime.date(2026, 1, 2))",
        "__import__('net').Net()",
        "[np.ma.masked_array([1, 2], [0, 1]), np.dtype('f4'), slice(1, 2), range(3), pathlib.Path('x')]",
    ],
)
def test_usual_data_are_passed_over(tmp_path: Path, made: str, protocol: int) -> None:
    assert said(tmp_path, made, protocol) == []


@pytest.mark.parametrize(
    ("made", "named"),
    [
        ("Runs(os.system, ('true',))", "posix.system"),
        ("Runs(eval, ('1',))", "builtins.eval"),
        ("Runs(subprocess.Popen, (['true'],))", "subprocess.Popen"),
        ("Runs(getattr, (1, 'real'))", "builtins.getattr"),
        ("Runs(np.fromfile, ('makes.py',))", "numpy.fromfile"),
        ("np.testing._private.utils.runstring", "numpy.testing._private.utils.runstring"),
        ("io.BytesIO.write", "builtins.getattr"),
    ],
)
def test_what_runs_code_is_named(tmp_path: Path, made: str, named: str) -> None:
    assert named in said(tmp_path, made)


def test_the_sitecustomize_of_the_program_is_run_too(tmp_path: Path) -> None:
    (own := tmp_path / "own").mkdir()
    (own / "sitecustomize.py").write_text("print('own')\n")
    environment = {"PYTHONPATH": f"{UNPICKLING}:{own}", "PATH": "/usr/bin:/bin"}
    program = "import sys; print(sum('evaluated' in each for each in sys.path))"
    asked = [sys.executable, "-c", program]
    told = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["own", "0"]
