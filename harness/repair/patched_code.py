"""A private copy of the training's code in which a defect is corrected; the author's files stay as they
are.

In: the plan, and corrections as text that is replaced. Out: diffs, and what a launch needs to run the
copy: its folder, the command and PYTHONPATH that lead into it. The copy is
`$XDG_CACHE_HOME/harness/worktrees/<id>`, with `<id>.json` beside it once it is complete. A launch that
would be led to the author's own code is refused.
"""

import filecmp
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from harness.atomic_write import write_atomically, write_json
from harness.pending_changes import diff
from harness.repair import code_copy
from harness.repair.code_copy import CodeCopy, CopyError
from harness.repair.original_paths import leading_to_original, original_in, relocated
from harness.repair.text_patch import (
    PatchError,
    file_in,
    is_done,
    line_breaks_of,
    refuse_broken_python,
    replaced,
    shown,
    source,
)


@dataclass(frozen=True)
class AppliedPatch:
    """One correction made in the copy. `diff`: what it changed."""

    path: str
    old: str
    new: str
    diff: str


@dataclass(frozen=True)
class PatchedCode:
    """A complete copy with its corrections, in order."""

    copy: CodeCopy
    patches: tuple[AppliedPatch, ...] = ()

    def save(self) -> None:
        """Remember the copy; from now on it counts as complete."""
        paths = {name: str(getattr(self.copy, name)) for name in ("root", "source", "named")}
        record = {"copy": {**asdict(self.copy), **paths}, "patches": [asdict(each) for each in self.patches]}
        write_json(_record_of(self.copy.root), record, mode=0o600)


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
    if not root.is_dir():
        return None
    data = record["copy"]
    paths = {name: Path(data[name]) for name in ("root", "source", "named")}
    lists = {name: tuple(data[name]) for name in ("untracked", "left_out", "notes")}
    return PatchedCode(
        CodeCopy(**{**data, **paths, **lists}), tuple(AppliedPatch(**x) for x in record["patches"])
    )


def patch(plan: Mapping[str, Any], experiment_id: str, path: str, old: str, new: str) -> str:
    """Replace `old` by `new` in the private copy of `path`; returns a diff. Can be repeated.

    Raises PatchError, also where a file that was valid Python would be so no longer.
    """
    if old == new:
        raise PatchError("old and new are the same text, so nothing would change")
    code = find(experiment_id) or _made(plan, experiment_id)
    file = file_in(code.copy, path)
    text = source(file, path)
    begun = _keys_of(code)[-1:] == [(path, old, new)]
    if begun and is_done(text, *line_breaks_of(text, old, new)):
        return shown(f"{path} holds this change already\n{code.patches[-1].diff}")
    after = replaced(text, *line_breaks_of(text, old, new), path)
    refuse_broken_python(text, after, path)
    _refuse_original(code.copy, plan, {file: after})
    made = AppliedPatch(path, old, new, diff(text, after, path))
    if not begun:
        replace(code, patches=(*code.patches, made)).save()
    write_atomically(file, after.encode(), mode=file.stat().st_mode & 0o777)
    notes = "".join(f"note: {note}\n" for note in code.copy.notes[:10]) if not code.patches else ""
    return shown(made.diff + notes)


def folder(
    plan: Mapping[str, Any], experiment_id: str, patches: Sequence[Mapping[str, str]] | None = None
) -> Path:
    """The codebase's place in the private copy. Raises PatchError, also where the launch would run code of
    the author's own folder instead.

    `patches` are all that were made, in order: a copy that does not hold just these, because its cache was
    emptied or a kill came between, is made anew with them.
    """
    code = find(experiment_id)
    if code is None or (patches is not None and _keys_of(code) != _keys(patches)):
        code = _made(plan, experiment_id)
        for item in patches or ():
            patch(plan, experiment_id, item["path"], item["old"], item["new"])
    if patches:
        _refuse_original(code.copy, plan)
    return code.copy.codebase


def diffs(experiment_id: str, patches: Sequence[Mapping[str, str]]) -> str:
    """What these corrections changed, as unified diffs one after the other."""
    code, wanted = find(experiment_id), _keys(patches)
    done = code.patches if code is not None else ()
    return "".join(item.diff for item in done if (item.path, item.old, item.new) in wanted)


def relocate(command: str, experiment_id: str) -> str:
    """The launch command with its absolute paths into the codebase pointing into the copy; what the copy
    links to (data, environments, results) stays the author's. Raises PatchError where it would run the
    author's code."""
    code = find(experiment_id)
    if code is None:
        return command
    moved = relocated(command, code.copy)
    if code.patches and (found := original_in("the launch command", moved, code.copy)):
        raise PatchError(_refusal(found))
    return moved


def variables(plan: Mapping[str, Any], experiment_id: str, environment: Mapping[str, str]) -> dict[str, str]:
    """PYTHONPATH, where the interpreter or the one of `environment` knows the author's folders: those of
    the copy come first."""
    code = find(experiment_id)
    if code is None:
        return {}
    given = [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    installed = code_copy.installed_from(Path(plan["venv_exe"]))
    moved = [place for entry in (*installed, *given) if (place := code.copy.moved(entry)) is not None]
    wanted = list(dict.fromkeys([*moved, *given]))
    return {"PYTHONPATH": os.pathsep.join(wanted)} if wanted else {}


def remove(experiment_id: str) -> Path | None:
    """Remove the copy at the end; its diff stays beside it as `<id>.diff`. Where the training has left
    files in it that are nowhere else, it is kept, and its folder is returned."""
    code = find(experiment_id)
    if code is None:
        return None
    kept = code.copy.root.with_name(f"{code.copy.root.name}.diff")
    write_atomically(kept, "".join(item.diff for item in code.patches), mode=0o600)
    if _left_behind(code):
        return code.copy.codebase
    forget(experiment_id, code.copy.source)
    return None


def forget(experiment_id: str, codebase: Path) -> None:
    """Remove a copy, complete or not."""
    root = place_of(experiment_id)
    _record_of(root).unlink(missing_ok=True)
    code_copy.remove(root, codebase)


def _made(plan: Mapping[str, Any], experiment_id: str) -> PatchedCode:
    codebase = Path(plan["codebase_dir"])
    results = plan.get("result_dir")
    try:
        forget(experiment_id, codebase)
        root = place_of(experiment_id)
        root.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        code = PatchedCode(code_copy.freeze(codebase, root, Path(results) if results else None))
        code.save()
    except (CopyError, OSError) as error:
        raise PatchError(str(error)) from error
    return code


def _record_of(root: Path) -> Path:
    return root.with_name(f"{root.name}.json")


def _keys_of(code: PatchedCode) -> list[tuple[str, str, str]]:
    return [(item.path, item.old, item.new) for item in code.patches]


def _keys(patches: Iterable[Mapping[str, str]]) -> list[tuple[str, str, str]]:
    """What tells corrections apart; one that was asked for again right away counts once."""
    return [key for key, _ in groupby((item["path"], item["old"], item["new"]) for item in patches)]


def _refuse_original(
    copy: CodeCopy, plan: Mapping[str, Any], patched: Mapping[Path, str] | None = None
) -> None:
    """Raises PatchError where a launch would be led to the author's code; not for a correction that leaves
    fewer such lines than there were."""
    try:
        found = leading_to_original(copy, plan, patched or {})
        before = leading_to_original(copy, plan, {}) if found and patched else []
    except OSError as error:
        raise PatchError(str(error)) from error
    if found and len(found) >= len(before):
        raise PatchError(_refusal(found))


def _refusal(found: Sequence[str]) -> str:
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return (
        f"{', '.join(found[:3])}{more}: this names the author's own folder, so a launch would run the code "
        "there instead of the corrected copy; write it relative to the codebase first, or repair by config "
        "or environment"
    )


def _left_behind(code: PatchedCode) -> bool:
    """True if the copy has files that the author's tree has not, apart from corrections and caches."""
    corrected = {code.copy.codebase / item.path for item in code.patches}
    for here in code.copy.files():
        original = code.copy.source / here.relative_to(code.copy.root)
        is_own = here in corrected or here.suffix == ".pyc"
        if not is_own and not (original.is_file() and filecmp.cmp(here, original, shallow=False)):
            return True
    return False
