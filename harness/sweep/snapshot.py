"""What all runs of a sweep share: the code as it was at the start, the packages, and the environment.

In: the blueprint. Out: `snapshot/code` (a copy of the code), `files.json` (its files), `environment.json`
(variables, secrets by name only) and, once all of it is there, `snapshot.json`. Afterwards it is read, and
compared with what is there now; the copy itself is not write-protected, because trainings write beside their
code.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.atomic_write import write_json
from harness.config import edit as config_edit
from harness.guard.file_access import SOURCE_SUFFIXES
from harness.repair import author_paths, worktree
from harness.repair.private_copy import CACHES, PrivateCopy
from harness.results import provenance
from harness.sweep import code_copy, shared_environment
from harness.sweep.code_copy import CodeCopy
from harness.sweep.folder import SweepFolder
from harness.sweep.plan import SweepError
from harness.sweep.points import Base, config_text, leaves
from harness.wording import listed

if TYPE_CHECKING:
    from harness.blueprint import Blueprint

MOST_NAMED = 5
_MOST_WATCHED = 20_000  # source files of one folder that is not copied
_LARGEST_READ = 2_000_000


@dataclass(frozen=True)
class Snapshot:
    """What was frozen. `root`: the copy of `source`, in which the codebase lies at `prefix`; `files`, `size`
    (in bytes) and `sha256` (over names and contents) are of the copied files; `linked`: what is only linked.
    `git`, `interpreter`: as in a run's provenance.json. `watched`: folders that the training imports code
    from although it is no part of the copy, each with a checksum of its sources."""

    root: Path
    source: Path
    prefix: str
    files: int
    size: int
    sha256: str
    linked: tuple[str, ...]
    notes: tuple[str, ...]
    git: Mapping[str, Any] | None
    interpreter: Mapping[str, Any] | None
    venv_exe: Path
    watched: Mapping[str, str]

    @property
    def codebase(self) -> Path:
        """Where the runs work."""
        return self.root / self.prefix

    @property
    def as_copy(self) -> PrivateCopy:
        """The same, as those who correct code in a copy know it."""
        return PrivateCopy(self.root, self.source, self.prefix)


def take(blueprint: "Blueprint", folder: SweepFolder) -> Snapshot:
    """Freeze what the blueprint's runs share; one that is complete is kept as it is. Raises SweepError."""
    if _record(folder).exists():
        return load(folder)
    root = folder.snapshot / "code"
    folder.snapshot.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(root, ignore_errors=True)
    copied = code_copy.copy_code(blueprint.codebase_dir, root, folder.dir.parent)
    inventory = _inventory(root)
    write_json(folder.snapshot / "files.json", inventory)
    facts = provenance.gather(
        blueprint.codebase_dir, blueprint.venv_exe, blueprint.yaml_path, blueprint.launch_command
    )
    taken = Snapshot(
        root=root,
        source=copied.source,
        prefix=copied.prefix,
        files=len(inventory),
        size=sum(entry["size"] for entry in inventory.values()),
        sha256=_together({name: entry["sha256"] for name, entry in inventory.items()}),
        linked=tuple(code_copy.links_of(root)),
        notes=(*copied.notes, *_naming_the_source(copied)),
        git=facts["git"],
        interpreter=facts["interpreter"],
        venv_exe=blueprint.venv_exe,
        watched=_watched(blueprint, copied),
    )
    installed = author_paths.installed_from(blueprint.venv_exe)
    shared_environment.write(_environment(folder), lambda path: moved(taken, blueprint, path), installed)
    record = {name: getattr(taken, name) for name in Snapshot.__dataclass_fields__ if name != "root"}
    write_json(_record(folder), {**record, "hardware": facts["hardware"], "problems": facts["problems"]})
    return taken


def load(folder: SweepFolder) -> Snapshot:
    """The snapshot of a sweep. Raises SweepError where there is none, or only half of one."""
    try:
        record = json.loads(_record(folder).read_text(encoding="utf-8"))
        known = {name: record[name] for name in Snapshot.__dataclass_fields__ if name != "root"}
    except (OSError, ValueError, KeyError) as error:
        raise SweepError(
            f"{_record(folder)} cannot be read, so nobody knows what the runs share: {error}"
        ) from error
    paths = {name: Path(known[name]) for name in ("source", "venv_exe")}
    lists = {name: tuple(known[name]) for name in ("linked", "notes")}
    return Snapshot(root=folder.snapshot / "code", **{**known, **paths, **lists})


def environment(folder: SweepFolder) -> dict[str, str]:
    """The variables of every job of the sweep: those that were frozen, and secrets as they are now. Raises
    SweepError that names the secrets which are not set any more."""
    return shared_environment.read(_environment(folder))


def changed(folder: SweepFolder) -> tuple[str, ...]:
    """What is different now from what was frozen, in words; () when all runs still share the same."""
    try:
        taken = load(folder)
        inventory = json.loads((folder.snapshot / "files.json").read_text(encoding="utf-8"))
    except (SweepError, OSError, ValueError) as error:
        return (f"the shared code and environment cannot be compared any more: {error}",)
    edited = [name for name, entry in inventory.items() if _is_edited(taken.root / name, entry)]
    code = [f"the code that all runs share was changed: {listed(edited, MOST_NAMED)}"] if edited else []
    outside = [
        f"the code in {place}, which is imported from there, was changed"
        for place, checksum in taken.watched.items()
        if _checksum(Path(place)) != checksum
    ]
    return (*code, *outside, *_changed_packages(taken))


def moved(taken: Snapshot, blueprint: "Blueprint", path: str) -> str | None:
    """Where an absolute path to the author's code lies in the copy; None when the copy has no own one."""
    roots = author_paths.roots(taken.as_copy, {"codebase_dir": str(blueprint.codebase_dir)})
    return author_paths.moved(path, taken.as_copy, roots) if path.startswith("/") else None


def relocated(folder: SweepFolder, taken: Snapshot, blueprint: "Blueprint", command: str) -> str:
    """The command with its absolute paths to code pointing into the copy. Raises SweepError where it would
    run the author's own code all the same, also by way of variables."""
    plan = {"codebase_dir": str(blueprint.codebase_dir)}
    text = worktree.relocated(command, taken.as_copy, plan)
    meant = shared_environment.expanded(text, _environment(folder))
    found = [
        *author_paths.leading_out_of_command(taken.as_copy, plan, text),
        *author_paths.leading_out_of_command(taken.as_copy, plan, meant),
        *_differing_words(meant, worktree.relocated(meant, taken.as_copy, plan)),
    ]
    if found:
        raise SweepError(
            f"{found[0]} names code in the author's own folder, which may change while the sweep runs: write "
            "it relative to the codebase, so that the copy is used that all runs share"
        )
    return text


def base_of(blueprint: "Blueprint", folder: SweepFolder, taken: Snapshot) -> Base:
    """What all runs are made from; absolute paths to code point into the frozen copy. Raises SweepError."""
    config = config_text(blueprint)
    if config is not None:
        elsewhere = {
            key: place
            for key, value in leaves(config).items()
            if isinstance(value, str) and (place := moved(taken, blueprint, value)) is not None
        }
        try:
            config = config_edit.edit(config, elsewhere)
        except config_edit.ConfigEditError as error:
            raise SweepError(
                f"the config names the author's own code, and {error}: write it relative"
            ) from error
    return Base(blueprint, config, taken.codebase, lambda text: relocated(folder, taken, blueprint, text))


def _differing_words(one: str, other: str) -> list[str]:
    pairs = zip(one.split(), other.split(), strict=False)
    return [f"the launch command ({first})" for first, second in pairs if first != second]


# --- taking -------------------------------------------------------------------------------------------------


def _record(folder: SweepFolder) -> Path:
    return folder.snapshot / "snapshot.json"


def _environment(folder: SweepFolder) -> Path:
    return folder.snapshot / "environment.json"


def _inventory(root: Path) -> dict[str, dict[str, Any]]:
    """Every copied file by name; size and time tell quickly that a file is the same, the checksum that it is
    not."""
    found = {}
    for path in code_copy.files_of(root):
        stat = path.stat()
        found[str(path.relative_to(root))] = {
            "size": stat.st_size,
            "mtime_ns": stat.st_mtime_ns,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        }
    return found


def _together(checksums: Mapping[str, str]) -> str:
    lines = "".join(f"{checksum}  {name}\n" for name, checksum in sorted(checksums.items()))
    return hashlib.sha256(lines.encode(errors="surrogateescape")).hexdigest()


def _naming_the_source(copied: CodeCopy) -> Iterable[str]:
    """Files of the copy that name the author's folder: what they name there is not frozen."""
    wanted = f"{copied.source}/".encode()
    for path in code_copy.files_of(copied.root):
        is_script = path.suffix.lower() in SOURCE_SUFFIXES and path.stat().st_size <= _LARGEST_READ
        if is_script and wanted in path.read_bytes():
            yield f"{path.relative_to(copied.root)} names {copied.source}: what it names there is not frozen"


def _watched(blueprint: "Blueprint", copied: CodeCopy) -> dict[str, str]:
    """Folders outside of the copy that hold code which the training may import: editable installs, and
    repositories that are only linked."""
    installed = [Path(place) for place in author_paths.installed_from(blueprint.venv_exe)]
    linked = [copied.root / name for name in code_copy.links_of(copied.root)]
    places = [place for place in installed if place.is_dir() and not _has_own(copied, place)]
    places += [place for place in linked if (place / ".git").exists()]
    return {str(place): _checksum(place) for place in sorted({place.resolve() for place in places})}


def _has_own(copied: CodeCopy, place: Path) -> bool:
    """Whether the copy holds this folder of the source itself."""
    real = place.resolve()
    if not real.is_relative_to(copied.source):
        return False
    there = copied.root / real.relative_to(copied.source)
    return there.is_dir() and there.resolve().is_relative_to(copied.root.resolve())


def _checksum(folder: Path) -> str:
    """One checksum over the sources in a folder; virtual environments, caches and git's own left out."""
    found: dict[str, str] = {}
    for parent, folders, names in os.walk(folder):
        here = Path(parent)
        folders[:] = [
            name
            for name in folders
            if name not in CACHES and name != ".git" and not (here / name / "pyvenv.cfg").exists()
        ]
        for path in (here / name for name in names):
            is_source = path.suffix.lower() in SOURCE_SUFFIXES and path.is_file()
            if is_source and path.stat().st_size <= _LARGEST_READ:
                found[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
        if len(found) > _MOST_WATCHED:
            break
    return _together(found)


# --- comparing ----------------------------------------------------------------------------------------------


def _is_edited(path: Path, entry: Mapping[str, Any]) -> bool:
    try:
        stat = path.lstat()
        if (stat.st_size, stat.st_mtime_ns) == (entry["size"], entry["mtime_ns"]):
            return False
        return hashlib.sha256(path.read_bytes()).hexdigest() != entry["sha256"]
    except OSError:
        return True


def _changed_packages(taken: Snapshot) -> list[str]:
    if taken.interpreter is None:
        return []
    problems: list[str] = []
    now = provenance.interpreter(taken.venv_exe, problems)
    if now is None:
        return problems
    before, after = taken.interpreter["packages"], now["packages"]
    differing = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    if not differing:
        return []
    shown = [
        f"{name} {before.get(name, 'absent')} → {after.get(name, 'absent')}" for name in sorted(differing)
    ]
    return [f"packages of {taken.venv_exe} are not what they were at the start: {listed(shown, MOST_NAMED)}"]
