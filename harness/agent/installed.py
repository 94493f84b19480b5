"""The source of a package that is installed in the experiment's own interpreter.

In: a package and a file as a traceback names it. Out: lines of that file, with the package's version. Only
files that the package's own record lists, and that lie where its packages are installed, are read.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from harness import actions
from harness.agent import disk_access
from harness.agent.excerpts import NotShownError, fitted, part_of_file, plain
from harness.experiment import Experiment
from harness.guard.file_access import LIBRARIES, is_shown
from harness.wording import listed

LIMIT_S = 30.0
MOST_LISTED = 200
_FIND = """
import importlib.metadata as metadata, json, sys
name = sys.argv[1]
try:
    found = metadata.distribution(name)
except metadata.PackageNotFoundError:
    owners = getattr(metadata, "packages_distributions", dict)().get(name)
    found = metadata.distribution(owners[0]) if owners else None
print(json.dumps(found and {"name": found.metadata["Name"], "version": found.version,
    "root": str(found.locate_file("")), "files": [file.as_posix() for file in found.files or ()]}))
"""


def read_installed(action: actions.ReadInstalled, experiment: Experiment) -> str:
    """Part of a file of the package, or which files it has."""
    python = experiment.blueprint.venv_exe
    package = _found(python, action.package)
    if package is None:
        raise NotShownError(f"no package {action.package} is installed in {python.name} of this experiment")
    name = f"{package['name']} {package['version']}"
    sources = [file for file in package["files"] if ".." not in Path(file).parts and is_shown(Path(file))]
    if not action.file:
        lines = [*map(plain, sources[:MOST_LISTED])]
        left = [f"… {len(sources) - MOST_LISTED} more"] if len(sources) > MOST_LISTED else []
        return fitted(f"{name}: {len(sources)} files of source", [*lines, *left])
    file = _one(sources, action.file, name)
    root = Path(package["root"]).resolve()
    path = (root / file).resolve(strict=True)
    if not path.is_relative_to(root):
        raise NotShownError(f"{file} leads out of the folder where {name} is installed")
    if why := disk_access.refuse_kind(path, is_result=False):
        raise NotShownError(f"{file} {why}")
    return part_of_file(path, f"{name}, {file}", action, experiment)


def _found(python: Path, package: str) -> dict[str, Any] | None:
    """What the interpreter knows of the package of this name, or of the one that brings a module of it."""
    command = [str(python), "-I", "-c", _FIND, package]
    try:
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=LIMIT_S, check=True
        )
        found: dict[str, Any] | None = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        said = getattr(error, "stderr", None) or str(error).encode()
        last = said.decode(errors="replace").strip().rpartition("\n")[2]
        raise NotShownError(f"{python} does not say what is installed: {last}") from error
    return found


def _one(files: list[str], asked: str, name: str) -> str:
    """The file that is meant: as recorded, or the only one that ends so."""
    for library in LIBRARIES:
        asked = asked.rpartition(f"{library}/")[2]
    ending = [file for file in files if f"/{file}".endswith(f"/{asked.lstrip('/')}")]
    if asked in files or len(ending) == 1:
        return asked if asked in files else ending[0]
    same_name = [file for file in files if Path(file).name == Path(asked).name]
    others = listed(list(map(plain, ending or same_name)), 20)
    hint = f"it has {others}" if others else "leave file out to see what it has"
    raise NotShownError(f"{name} has {'several files' if ending else 'no file'} {asked}; {hint}")
