"""A private copy of the training's code in which a defect is corrected; the author's files stay as they are.

In: the state of a run, whose `patches` are text that is replaced. Out: `PatchedCode`, which knows its diffs
and what a launch needs to run the copy: its folder, the command and PYTHONPATH that lead into it. The copy is
`$XDG_CACHE_HOME/harness/worktrees/<id>`, with `<id>.json` beside it while it is complete. What its training
has made of it is undone before a launch (`restoring`); one that would be led to the author's own code is
refused.
"""

import ast
import filecmp
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.atomic_write import write_atomically, write_json
from harness.blueprint.types import Blueprint
from harness.codec import decode, encode
from harness.command import paths_replaced
from harness.guard.file_access import SOURCE_SUFFIXES
from harness.pending_changes import diff
from harness.repair import code_copy, restoring
from harness.repair.code_copy import CodeCopy, CopyError
from harness.state import ExperimentState
from harness.wording import listed

_LARGEST = 2_000_000
_SETTINGS = frozenset((".cfg", ".conf", ".env", ".ini", ".json", ".mk", ".toml", ".yaml", ".yml", ""))
_HOME = re.compile(r"(?<![\w.$~/])(?:~|\$HOME|\$\{HOME\})(?=/)")
_PATH_GOES_ON = r"(?:/[^\s'\"`$(){}\[\]<>|;&*?,:#\\]*)?(?![\w.-])"


class PatchError(Exception):
    """The code cannot be patched this way; the message says why and what would do."""


@dataclass(frozen=True)
class AppliedPatch:
    """One correction made in the copy. `diff`: what it changed."""

    path: str
    old: str
    new: str
    diff: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells corrections apart."""
        return self.path, self.old, self.new


@dataclass(frozen=True)
class PatchedCode:
    """A complete copy with its corrections, in order."""

    copy: CodeCopy
    patches: tuple[AppliedPatch, ...] = ()

    def diffs(self, patches: Sequence[Mapping[str, str]]) -> str:
        """What these corrections changed, as unified diffs one after the other."""
        wanted = [(each["path"], each["old"], each["new"]) for each in patches]
        return "".join(made.diff for made in self.patches if made.key in wanted)

    def relocated(self, command: str) -> str:
        """The launch command with its absolute paths into the codebase pointing into the copy; what the copy
        links to (data, environments, results) stays the author's. Raises PatchError where it would run the
        author's code."""
        moved = paths_replaced(command, self.copy.moved)
        if self.patches and (found := list(_originals("the launch command", moved, self.copy))):
            raise PatchError(_refusal(found))
        return moved

    def variables(self, venv_exe: Path, environment: Mapping[str, str]) -> dict[str, str]:
        """PYTHONPATH, where the interpreter or the one of `environment` knows the author's folders."""
        installed = code_copy.installed_from(venv_exe)
        path = self.copy.python_path(installed, environment.get("PYTHONPATH", ""))
        return {"PYTHONPATH": path} if path else {}

    def patched(self, plan: Blueprint, path: str, old: str, new: str) -> "PatchedCode":
        """With one more correction. Raises PatchError, also where a file that was valid Python would be so no
        longer. While it is made, the copy counts as incomplete."""
        file = self.copy.codebase / path
        before, after = _corrected(self.copy.root, self.copy.codebase, path, old, new)
        self.refuse_original(plan, {file: after})
        _record_of(self.copy.root).unlink(missing_ok=True)
        write_atomically(file, after.encode(), mode=file.stat().st_mode & 0o777)
        restoring.keep_file(self.copy.root, file)
        made = AppliedPatch(path, old, new, diff(before, after, path))
        return _saved(replace(self, patches=(*self.patches, made)))

    def refuse_original(self, plan: Blueprint, patched: Mapping[Path, str] | None = None) -> None:
        """Raises PatchError where a launch would be led to the author's code; not for a correction that
        leaves fewer such lines than there were."""
        try:
            found = _leading_to_original(self.copy, plan, patched or {})
            before = _leading_to_original(self.copy, plan, {}) if found and patched else []
        except OSError as error:
            raise PatchError(str(error)) from error
        if found and len(found) >= len(before):
            raise PatchError(_refusal(found))


def place_of(experiment_id: str) -> Path:
    """Where the copy of an experiment is, or would be."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    cache = Path(given) if given.startswith("/") else Path.home() / ".cache"
    return cache / "harness" / "worktrees" / experiment_id


def find(experiment_id: str) -> PatchedCode | None:
    """The complete copy of an experiment; None when there is none, or only half of one."""
    root = place_of(experiment_id)
    try:
        record = json.loads(_record_of(root).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    is_whole = root.is_dir() and restoring.untouched(root).is_dir()
    return decode(PatchedCode, record) if is_whole else None


def holding(state: ExperimentState) -> PatchedCode:
    """The copy with just the corrections of the run, in order, and nothing that a training made of it; one
    that holds others, because its cache was emptied or a kill came between, is made anew. Raises
    PatchError."""
    plan = state.blueprint
    wanted = list(dict.fromkeys((each["path"], each["old"], each["new"]) for each in state.patches))
    code, root = find(state.experiment_id), place_of(state.experiment_id)
    try:
        if code is not None and [each.key for each in code.patches] == wanted:
            restoring.put_back(root)
            return code
        forget(state.experiment_id, plan.codebase_dir)
        root.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = code_copy.freeze(plan.codebase_dir, root, plan.result_dir)
        restoring.keep(root)
        code = _saved(PatchedCode(made))
    except (CopyError, OSError) as error:
        raise PatchError(str(error)) from error
    for correction in wanted:
        code = code.patched(plan, *correction)
    return code


def used(state: ExperimentState) -> PatchedCode | None:
    """The copy that the run trains in; None where no code was corrected."""
    return find(state.experiment_id) if state.patches else None


def codebase(state: ExperimentState) -> Path:
    """Where the training runs: the private copy where code was corrected."""
    code = used(state)
    return state.blueprint.codebase_dir if code is None else code.copy.codebase


def preview(state: ExperimentState, path: str, old: str, new: str) -> str:
    """What the correction would change, as a diff, before anything is copied. Raises PatchError."""
    code = used(state)
    root = state.blueprint.codebase_dir
    if code is not None:
        root = restoring.untouched(code.copy.root) / code.copy.prefix
    return diff(*_corrected(root, root, path, old, new), path)


def patch(state: ExperimentState, path: str, old: str, new: str) -> str:
    """Replace `old` by `new` in the private copy of `path`; returns a diff. Can be repeated. Raises
    PatchError."""
    if old == new:
        raise PatchError("old and new are the same text, so nothing would change")
    code = holding(state)
    done = next((each for each in code.patches if each.key == (path, old, new)), None)
    if done is not None:
        return f"{path} holds this change already\n{done.diff}"
    code = code.patched(state.blueprint, path, old, new)
    notes = "" if state.patches else "".join(f"note: {note}\n" for note in code.copy.notes[:10])
    return code.patches[-1].diff + notes


def smallest_change(before: str, after: str) -> tuple[str, str]:
    """The lines that differ, as text that stands in `before` once and what replaces it."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    shorter = min(len(old), len(new))
    first = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    rest = shorter - first
    last = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
    while True:
        here, there = ("".join(lines[first : len(lines) - last]) for lines in (old, new))
        stands_once = here and before.find(here) == before.rfind(here)
        if before == after or stands_once or (first, last) == (0, 0):
            return here, there
        first, last = max(0, first - 1), max(0, last - 1)


def for_launch(state: ExperimentState) -> tuple[PatchedCode, str]:
    """The copy that a launch runs, and what its training had done to it, as diffs. Raises PatchError, also
    where it would run code of the author's own folder instead."""
    code = holding(state)
    code.refuse_original(state.blueprint)
    return code, restoring.done_by_training(code.copy.root)


def remove(experiment_id: str) -> Path | None:
    """Remove the copy at the end; its diff stays beside it as `<id>.diff`. Where the training has left
    files in it that are nowhere else, it is kept, and its folder is returned."""
    code = find(experiment_id)
    if code is None:
        return None
    kept = code.copy.root.with_name(f"{code.copy.root.name}.diff")
    write_atomically(kept, "".join(each.diff for each in code.patches), mode=0o600)
    corrected = {code.copy.codebase / each.path for each in code.patches}
    for here in code.copy.files():
        original = code.copy.source / here.relative_to(code.copy.root)
        is_known = here in corrected or here.suffix == ".pyc"
        if not is_known and not (original.is_file() and filecmp.cmp(here, original, shallow=False)):
            return code.copy.codebase
    forget(experiment_id, code.copy.source)
    return None


def forget(experiment_id: str, codebase: Path) -> None:
    """Remove a copy, complete or not."""
    root = place_of(experiment_id)
    for left in (_record_of(root), *root.parent.glob(f"{root.name}.*.json")):
        left.unlink(missing_ok=True)
    restoring.forget(root)
    code_copy.remove(root, codebase)


def _saved(code: PatchedCode) -> PatchedCode:
    """Remember the copy; from now on it counts as complete."""
    write_json(_record_of(code.copy.root), encode(code), mode=0o600)
    return code


def _record_of(root: Path) -> Path:
    return root.with_name(f"{root.name}.json")


def _corrected(root: Path, codebase: Path, path: str, old: str, new: str) -> tuple[str, str]:
    """A file of the codebase, which is below `root`, before and after the correction."""
    before = _source(codebase / path, path, root)
    breaks = "\r\n" if "\r\n" in before and "\r" not in old else "\n"
    old_text, new_text = (text.replace("\n", breaks) for text in (old, new))
    if (count := len(re.findall(f"(?={re.escape(old_text)})", before))) != 1:  # also where they overlap
        raise PatchError(
            f"the text stands {count} times in {path}, and has to stand there once, exactly as given "
            "(spaces and line breaks count): read_file shows what does, give more of what stands around"
        )
    after = before.replace(old_text, new_text)
    if path.endswith(".py") and not _python_error(before) and (error := _python_error(after)):
        raise PatchError(f"{path} would be no valid Python any more ({error}); nothing was changed")
    return before, after


def _source(file: Path, path: str, root: Path) -> str:
    parts, is_inside = Path(path).parts, file.resolve().is_relative_to(root.resolve())
    if Path(path).is_absolute() or {"..", ".git"} & set(parts) or not is_inside or not file.is_file():
        raise PatchError(
            f"{path} is no source file of the codebase: name one by its path inside, such as src/train.py; "
            "what is only linked there is not changed"
        )
    try:
        return file.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise PatchError(f"{path} is no UTF-8 text (byte {error.start}); only text can be patched") from error


def _python_error(text: str) -> str | None:
    try:
        ast.parse(text)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error) or type(error).__name__
    return None


# --- what would lead a training in the copy to the author's own, uncorrected code ---------------------------


def _leading_to_original(copy: CodeCopy, plan: Blueprint, patched: Mapping[Path, str]) -> list[str]:
    """Where the command, the config, or scripts and settings of the copy name code of which the copy has its
    own. `patched`: files with another text. Earlier results are left out."""
    command = paths_replaced(plan.launch_command or "", copy.moved)
    found = list(_originals("the launch command", command, copy))
    if plan.yaml_path is not None and plan.yaml_path.is_file():
        found += _originals(plan.yaml_path.name, _read(plan.yaml_path), copy)
    results = {file.parent for file in copy.files() if file.name == "journal.jsonl"}
    for file in copy.files():
        is_text = file.suffix.lower() in SOURCE_SUFFIXES | _SETTINGS and file.stat().st_size <= _LARGEST
        if is_text and not results & set(file.parents):
            base = copy.codebase if file.is_relative_to(copy.codebase) else copy.root
            found += _originals(str(file.relative_to(base)), patched.get(file) or _read(file), copy)
    return list(dict.fromkeys(found))


def _originals(name: str, text: str, copy: CodeCopy) -> Iterator[str]:
    """Places of a text that name code of which the copy has its own, as `run.sh:3 (/home/ada/code)`. Paths to
    what the copy only links to and to what is not there yet lead nowhere else."""
    roots = "|".join(map(re.escape, (str(copy.named), str(copy.source))))
    spelled = re.compile(rf"(?<![\w.])(?:{roots}){_PATH_GOES_ON}")
    text = _HOME.sub(lambda _: str(Path.home()), text)
    for number, line in enumerate(text.split("\n"), start=1):
        for match in spelled.finditer(line) if not line.lstrip().startswith(("#", "//")) else ():
            place = copy.moved(match.group().rstrip("/"))
            if place is not None and (Path(place).is_dir() or Path(place).suffix in SOURCE_SUFFIXES | {""}):
                yield f"{name if ' ' in name else f'{name}:{number}'} ({match.group()})"


def _read(file: Path) -> str:
    return file.read_bytes().decode(errors="replace")


def _refusal(found: Sequence[str]) -> str:
    return (
        f"{listed(found, 3)}: this names the author's own folder, so a launch would run the code "
        "there instead of the corrected copy; write it relative to the codebase first, or repair by config "
        "or environment"
    )
