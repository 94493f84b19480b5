"""Which packages may be installed, and where.

In: a package's name and the experiment's interpreter. Out: a refusal, or None.
"""

import sys
from pathlib import Path

from harness.diagnosis.remedies.packages import known_packages


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
