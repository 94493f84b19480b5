"""Which packages may be installed, and where.

In: a package's name and the experiment's interpreter. Out: a refusal, or None.
"""

import re
import sys
from pathlib import Path

from harness.repair.remedies.packages import known_packages


def refuse(package: str, python: Path) -> str | None:
    """Why the package may not be installed into the environment of `python`, or None."""
    if package not in known_packages():
        return f"{package} is not one of the packages that are known by their module; a person installs it"
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


def is_there(package: str, python: Path) -> str | None:
    """Why installing the package cannot help: the environment of `python` has it already; or None."""
    home = python.parent.parent
    for info in home.glob("lib*/python*/site-packages/*.dist-info"):
        name, _, version = info.name.removesuffix(".dist-info").partition("-")
        if _flat(name) == _flat(package):
            return f"{package} {version} is installed already"
    return None


def _flat(name: str) -> str:
    """Names of packages do not differ by case, `-`, `_` or `.`."""
    return re.sub(r"[-_.]+", "-", name).lower()
