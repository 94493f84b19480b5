"""A private copy of the training's code in which a defect is corrected; the author's files stay as they are.

In: the blueprint, and corrections as text that is replaced. Out: `PatchedCode`, which knows its diffs and
what a launch needs to run the copy: its folder, the command and PYTHONPATH that lead into it. The copy is
`$XDG_CACHE_HOME/harness/worktrees/<id>`, with `<id>.json` beside it while it is complete. A launch that would
be led to the author's own code is refused.
"""

import filecmp
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.atomic_write import write_atomically, write_json
from harness.blueprint.types import Blueprint
from harness.codec import decode, encode
from harness.pending_changes import diff
from harness.repair import code_copy
from harness.repair.code_copy import CodeCopy, CopyError
from harness.repair.original_paths import leading_to_original, original_in, relocated
from harness.repair.text_patch import PatchError, file_in, refuse_broken_python, replaced, source

Patches = Sequence[Mapping[str, str]]


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

    def save(self) -> None:
        """Remember the copy; from now on it counts as complete."""
        write_json(_record_of(self.copy.root), encode(self), mode=0o600)

    def diffs(self, patches: Patches) -> str:
        """What these corrections changed, as unified diffs one after the other."""
        wanted = [(each["path"], each["old"], each["new"]) for each in patches]
        return "".join(made.diff for made in self.patches if made.key in wanted)

    def relocated(self, command: str) -> str:
        """The launch command with its absolute paths into the codebase pointing into the copy; what the copy
        links to (data, environments, results) stays the author's. Raises PatchError where it would run the
        author's code."""
        moved = relocated(command, self.copy)
        if self.patches and (found := original_in("the launch command", moved, self.copy)):
            raise PatchError(_refusal(found))
        return moved

    def variables(self, venv_exe: Path, environment: Mapping[str, str]) -> dict[str, str]:
        """PYTHONPATH, where the interpreter or the one of `environment` knows the author's folders: those of
        the copy come first."""
        given = [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
        known = (*code_copy.installed_from(venv_exe), *given)
        moved = [place for entry in known if (place := self.copy.moved(entry)) is not None]
        wanted = list(dict.fromkeys([*moved, *given]))
        return {"PYTHONPATH": os.pathsep.join(wanted)} if wanted else {}

    def patched(self, plan: Blueprint, path: str, old: str, new: str) -> "PatchedCode":
        """With one more correction. Raises PatchError, also where a file that was valid Python would be so no
        longer. While it is made, the copy counts as incomplete."""
        file = file_in(self.copy, path)
        before = source(file, path)
        after = replaced(before, old, new, path)
        refuse_broken_python(before, after, path)
        self.refuse_original(plan, {file: after})
        _record_of(self.copy.root).unlink(missing_ok=True)
        write_atomically(file, after.encode(), mode=file.stat().st_mode & 0o777)
        made = AppliedPatch(path, old, new, diff(before, after, path))
        code = replace(self, patches=(*self.patches, made))
        code.save()
        return code

    def refuse_original(self, plan: Blueprint, patched: Mapping[Path, str] | None = None) -> None:
        """Raises PatchError where a launch would be led to the author's code; not for a correction that
        leaves fewer such lines than there were."""
        try:
            found = leading_to_original(self.copy, plan, patched or {})
            before = leading_to_original(self.copy, plan, {}) if found and patched else []
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
    return decode(PatchedCode, record) if root.is_dir() else None


def holding(plan: Blueprint, experiment_id: str, patches: Patches) -> PatchedCode:
    """The copy with just these corrections, in order; one that holds others, because its cache was emptied or
    a kill came between, is made anew. Raises PatchError."""
    wanted = list(dict.fromkeys((each["path"], each["old"], each["new"]) for each in patches))
    code = find(experiment_id)
    if code is not None and [each.key for each in code.patches] == wanted:
        return code
    root = place_of(experiment_id)
    try:
        forget(experiment_id, plan.codebase_dir)
        root.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        copy = code_copy.freeze(plan.codebase_dir, root, plan.result_dir)
    except (CopyError, OSError) as error:
        raise PatchError(str(error)) from error
    code = PatchedCode(copy)
    code.save()
    for correction in wanted:
        code = code.patched(plan, *correction)
    return code


def patch(plan: Blueprint, experiment_id: str, patches: Patches, path: str, old: str, new: str) -> str:
    """Replace `old` by `new` in the private copy of `path`, which has had `patches`; returns a diff. Can be
    repeated. Raises PatchError."""
    if old == new:
        raise PatchError("old and new are the same text, so nothing would change")
    code = holding(plan, experiment_id, patches)
    done = next((each for each in code.patches if each.key == (path, old, new)), None)
    if done is not None:
        return f"{path} holds this change already\n{done.diff}"
    code = code.patched(plan, path, old, new)
    notes = "" if patches else "".join(f"note: {note}\n" for note in code.copy.notes[:10])
    return code.patches[-1].diff + notes


def for_launch(plan: Blueprint, experiment_id: str, patches: Patches) -> PatchedCode:
    """The copy that a launch runs. Raises PatchError, also where it would run code of the author's own folder
    instead."""
    code = holding(plan, experiment_id, patches)
    code.refuse_original(plan)
    return code


def remove(experiment_id: str) -> Path | None:
    """Remove the copy at the end; its diff stays beside it as `<id>.diff`. Where the training has left
    files in it that are nowhere else, it is kept, and its folder is returned."""
    code = find(experiment_id)
    if code is None:
        return None
    kept = code.copy.root.with_name(f"{code.copy.root.name}.diff")
    write_atomically(kept, "".join(each.diff for each in code.patches), mode=0o600)
    if _left_behind(code):
        return code.copy.codebase
    forget(experiment_id, code.copy.source)
    return None


def forget(experiment_id: str, codebase: Path) -> None:
    """Remove a copy, complete or not."""
    root = place_of(experiment_id)
    _record_of(root).unlink(missing_ok=True)
    code_copy.remove(root, codebase)


def _record_of(root: Path) -> Path:
    return root.with_name(f"{root.name}.json")


def _refusal(found: Sequence[str]) -> str:
    more = f" and {len(found) - 3} more" if len(found) > 3 else ""
    return (
        f"{', '.join(found[:3])}{more}: this names the author's own folder, so a launch would run the code "
        "there instead of the corrected copy; write it relative to the codebase first, or repair by config "
        "or environment"
    )


def _left_behind(code: PatchedCode) -> bool:
    """True if the copy has files that the author's tree has not, apart from corrections and caches."""
    corrected = {code.copy.codebase / each.path for each in code.patches}
    for here in code.copy.files():
        original = code.copy.source / here.relative_to(code.copy.root)
        is_own = here in corrected or here.suffix == ".pyc"
        if not is_own and not (original.is_file() and filecmp.cmp(here, original, shallow=False)):
            return True
    return False
