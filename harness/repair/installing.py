"""Installs a package into the experiment's own virtual environment, with that environment's own pip.

In: the environment's interpreter, the package's name. Out: the version that was installed, or an
`InstallError`, also where it was there before. What is installed already keeps its version: pip is told so by
constraints.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT_S = 900.0
NOT_PERMITTED = "the run was started without --allow-install"
_VERSION = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))"


class InstallError(Exception):
    """The package is not there; the message says what pip said."""


def refuse(python: Path) -> str | None:
    """Why nothing may be installed into the environment of `python`, or None."""
    home = python.parent.parent
    if not (home / "pyvenv.cfg").is_file():
        return (
            f"{python} does not belong to a virtual environment of the experiment's own; name one in "
            "[exp_venv_exe], or install the package yourself"
        )
    if home.resolve() == Path(sys.prefix).resolve():
        return (
            "the experiment uses the harness's own environment, which stays as it is; give it one of its own"
        )
    return None


def why_not(python: Path, is_permitted: bool) -> str:
    """Why a run may install no package, "" where it may."""
    return (refuse(python) or "") if is_permitted else NOT_PERMITTED


def install(python: Path, package: str) -> str:
    """The version that was installed. Raises InstallError."""
    pip, quiet = ("-m", "pip"), ("--disable-pip-version-check", "--no-input")
    present = _run(python, *pip, "list", "--format=freeze", *quiet)
    try:
        there = _run(python, "-c", _VERSION, package).strip()
    except InstallError:
        there = ""
    if there:
        raise InstallError(f"{package} {there} is there already, so it is not what is missing")
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "constraints.txt"
        constraints.write_text(present, encoding="utf-8")
        _run(python, *pip, "install", *quiet, "--progress-bar=off", "--constraint", str(constraints), package)
    return _run(python, "-c", _VERSION, package).strip()


def _run(python: Path, *arguments: str) -> str:
    """What the interpreter prints; it sees neither the codebase nor packages of the user."""
    told = f"{python} {' '.join(arguments[:3])}"
    try:
        done = subprocess.run(
            [str(python), "-I", *arguments],
            cwd=python.parent,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InstallError(f"{told}: {error}") from error
    if done.returncode != 0:
        said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise InstallError(f"{told}: {' '.join(said[-3:])[:600]}")
    return done.stdout
