"""What all runs of a sweep share: the code as it was at the start, the packages, and the environment.

In: the blueprint. Out: `snapshot/code` (`harness.repair.code_copy`), `files.json` (checksums of its files),
`environment.json` (as `harness.environment` keeps it) and, once all of it is there, `snapshot.json`. Later it
is read, and compared with what is there then; the copy itself is not write-protected, because trainings
write beside their code.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from harness.atomic_write import write_json
from harness.blueprint import Blueprint
from harness.codec import decode, encode
from harness.command import paths_replaced, read_or_empty
from harness.config import changed as config_changed
from harness.config import edit as config_edit
from harness.environment import KeptEnvironment
from harness.repair.code_copy import CACHES, CodeCopy, freeze, installed_from
from harness.results import provenance
from harness.results.manifest import sha256
from harness.sweep.plan import SweepError, SweepFolder
from harness.sweep.points import Base, config_text, leaves
from harness.wording import listed
from monitors.launch import environment_of_caller

MOST_NAMED = 5
_MOST_WATCHED = 20_000  # source files of one folder that is not copied
_OF_THE_MACHINE = re.compile(r"HOME|TMPDIR|XDG_\w+|(?:AJET|HARNESS)_\w+|PYTHONPATH")
"""Places that the harness and all its runs have in common, wherever they lie, and what is set apart."""
_NAMED = re.compile(r"\$(?:\{(\w+)\}|(\w+))|(?<![^\s=:])(~)(?=/)")
_MOST_ROUNDS = 5  # of variables whose values name variables


@dataclass(frozen=True)
class Snapshot:
    """What was frozen. `linked`: what the copy only links to; `git`, `interpreter`: as in a run's
    provenance.json; `watched`: folders outside of the copy that the training imports code from, each with a
    checksum of its sources."""

    copy: CodeCopy
    linked: tuple[str, ...]
    git: Mapping[str, Any] | None
    interpreter: Mapping[str, Any] | None
    venv_exe: Path
    watched: Mapping[str, str]

    @property
    def codebase(self) -> Path:
        """Where the runs work."""
        return self.copy.codebase


def take(blueprint: Blueprint, folder: SweepFolder) -> Snapshot:
    """Freeze what the blueprint's runs share; one that is complete is kept as it is. Raises CopyError."""
    if _record(folder).exists():
        return load(folder)
    root = folder.snapshot / "code"
    shutil.rmtree(root, ignore_errors=True)
    copy = freeze(blueprint.codebase_dir, root, folder.dir.parent)
    facts = provenance.gather(
        blueprint.codebase_dir, blueprint.venv_exe, blueprint.yaml_path, blueprint.launch_command
    )
    installed = installed_from(blueprint.venv_exe)
    outside = sorted({place for place in installed if Path(place).is_dir() and copy.moved(place) is None})
    taken = Snapshot(
        copy=copy,
        linked=tuple(copy.links()),
        git=facts["git"],
        interpreter=facts["interpreter"],
        venv_exe=blueprint.venv_exe,
        watched={place: _of_sources(Path(place)) for place in outside},
    )
    write_json(folder.snapshot / "files.json", {str(p.relative_to(root)): sha256(p) for p in copy.files()})
    _environment_now(copy, installed).write(folder.snapshot / "environment.json")
    kept = {name: facts[name] for name in ("hardware", "problems")}
    write_json(_record(folder), {**encode(taken), "surroundings": kept})
    return taken


def load(folder: SweepFolder) -> Snapshot:
    """The snapshot of a sweep, wherever its folder lies now. Raises SweepError for none, or half of one."""
    try:
        data = json.loads(_record(folder).read_text(encoding="utf-8"))
        data["copy"]["root"] = str(folder.snapshot / "code")
        return decode(Snapshot, data)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise SweepError(
            f"{_record(folder)} cannot be read, so it is not known what the runs share: {error}"
        ) from error


def _record(folder: SweepFolder) -> Path:
    return folder.snapshot / "snapshot.json"


def changed(folder: SweepFolder) -> tuple[str, ...]:
    """What is different now from what was frozen, in words; () when all runs still share the same."""
    try:
        taken = load(folder)
        known: dict[str, str] = json.loads((folder.snapshot / "files.json").read_text(encoding="utf-8"))
        files = {name: taken.copy.root / name for name in known}
        edited = [name for name, file in files.items() if not file.is_file() or sha256(file) != known[name]]
        outside = [place for place, before in taken.watched.items() if _of_sources(Path(place)) != before]
    except (SweepError, OSError, ValueError, AttributeError) as error:
        return (f"the shared code and environment cannot be compared any more: {error}",)
    code = [f"the code that all runs share was changed: {listed(edited, MOST_NAMED)}"] if edited else []
    imported = [f"the code in {place}, which is imported from there, was changed" for place in outside]
    return (*code, *imported, *_changed_packages(taken))


def _changed_packages(taken: Snapshot) -> list[str]:
    problems: list[str] = []
    now = provenance.interpreter(taken.venv_exe, problems) if taken.interpreter is not None else None
    if now is None or taken.interpreter is None:
        return problems
    differing = config_changed(taken.interpreter["packages"], now["packages"], "absent")
    shown = listed([f"{name} {old} → {new}" for name, (old, new) in sorted(differing.items())], MOST_NAMED)
    what = f"packages of {taken.venv_exe} are not what they were at the start: {shown}"
    return [what] if differing else []


def _of_sources(folder: Path) -> str:
    """One checksum over the Python sources in a folder, caches left out."""
    paths = (path for path in folder.rglob("*.py") if path.is_file() and not CACHES.intersection(path.parts))
    found = {str(path.relative_to(folder)): sha256(path) for path in islice(paths, _MOST_WATCHED)}
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


# --- paths into the copy ------------------------------------------------------------------------------------


def base_of(blueprint: Blueprint, folder: SweepFolder, taken: Snapshot) -> Base:
    """What all runs are made from; absolute paths to code point into the frozen copy. Raises SweepError."""
    config = config_text(blueprint)
    if config is not None:
        moved = {
            key: place
            for key, value in leaves(config).items()
            if isinstance(value, str) and (place := _moved(taken.copy, value)) is not None
        }
        try:
            config = config_edit.edit(config, moved)
        except config_edit.ConfigEditError as error:
            raise SweepError(
                f"the config names the author's own code, and {error}: write it relative"
            ) from error
    variables = _kept(folder).variables
    return Base(blueprint, config, taken.codebase, lambda text: relocated(taken.copy, variables, text))


def relocated(copy: CodeCopy, variables: Mapping[str, str], command: str) -> str:
    """The command with its absolute paths to code pointing into the copy. Raises SweepError where it would
    run the author's own code all the same, by way of variables."""
    text = paths_replaced(command, lambda path: _moved(copy, path))
    meant = _expanded(text, variables)
    led = paths_replaced(meant, lambda path: _moved(copy, path))
    if led != meant:
        pairs = zip(meant.split(), led.split(), strict=False)
        word = next((one for one, other in pairs if one != other), meant)
        raise SweepError(
            f"the launch command ({word}) names code in the author's own folder, which may change while the "
            "sweep runs: write it relative to the codebase, so that the copy is used that all runs share"
        )
    return text


def _moved(copy: CodeCopy, path: str) -> str | None:
    """Where an absolute path to the author's code lies in the copy; None where the copy has no own one."""
    return copy.moved(path) if path.startswith("/") else None


def _expanded(command: str, variables: Mapping[str, str]) -> str:
    """The command with the variables put in that it sets itself, or that were frozen; others are left."""
    own = read_or_empty(command).values
    known = {**variables, **{key[4:]: value for key, value in own.items() if key.startswith("env:")}}
    for _ in range(_MOST_ROUNDS):
        command = _NAMED.sub(
            lambda found: known.get("HOME" if found[3] else found[1] or found[2], found[0]), command
        )
    return command


# --- the environment ----------------------------------------------------------------------------------------


def environment(folder: SweepFolder) -> dict[str, str]:
    """The variables of every job of the sweep: those that were frozen, and secrets as they are now. Raises
    SweepError that names the secrets which are not set any more."""
    kept, now = _kept(folder), environment_of_caller()
    if missing := kept.missing(now):
        raise SweepError(
            f"the sweep was started with {', '.join(missing)} set, and now that is not; secrets are never "
            "written down: export them again, then `harness resume` the sweep"
        )
    return kept.now(now)


def _environment_now(copy: CodeCopy, installed: Iterable[str]) -> KeptEnvironment:
    """The caller's variables. Those that hold paths to the author's code point into the copy; where Python
    would find the author's modules (`installed`: where an interpreter takes them from), the copy's come
    first."""
    kept = KeptEnvironment.of(environment_of_caller())
    variables = dict(kept.variables)
    for name, value in variables.items():
        if not _OF_THE_MACHINE.fullmatch(name):
            parts = value.split(os.pathsep)
            variables[name] = os.pathsep.join(_moved(copy, part) or part for part in parts)
    if wanted := copy.python_path(installed, variables.get("PYTHONPATH", "")):
        variables["PYTHONPATH"] = wanted
    return replace(kept, variables=variables)


def _kept(folder: SweepFolder) -> KeptEnvironment:
    path = folder.snapshot / "environment.json"
    try:
        kept = KeptEnvironment.read(path)
    except (OSError, ValueError) as error:
        raise SweepError(f"{path} cannot be read, so the runs have no environment: {error}") from error
    if kept is None:
        raise SweepError(f"{path} is not there, so the runs have no environment")
    return kept
