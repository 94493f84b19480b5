"""A private copy of the training's code, in which a policy may correct a defect.

The author's files stay as they are. What the copy holds and what it links to stands in `private_copy.py`. In:
the plan, and corrections as text that is replaced. Out: diffs, and what a launch needs to run the copy.
"""

import ast
import difflib
import filecmp
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from harness.agent import excerpts
from harness.atomic_write import write_atomically
from harness.command import paths_replaced
from harness.pending_changes import diff
from harness.repair import author_paths, private_copy
from harness.repair.private_copy import AppliedPatch, CopyError, PrivateCopy

LARGEST_SOURCE = 2_000_000
_LONGEST_SHOWN = 160


class PatchError(Exception):
    """The code cannot be patched this way; the message says why and what would do."""


def patch(plan: Mapping[str, Any], experiment_id: str, path: str, old: str, new: str) -> str:
    """Replace `old` by `new` in the private copy of `path`; returns a diff. Can be repeated.

    Raises PatchError, also where a file that was valid Python would be so no longer.
    """
    if old == new:
        raise PatchError("old and new are the same text, so nothing would change")
    copy = private_copy.find(experiment_id) or _made(plan, experiment_id)
    file = _file_in(copy, path)
    text = _source(file, path)
    begun = _made_in(copy)[-1:] == [(path, old, new)]
    if begun and _is_done(text, *_line_breaks_of(text, old, new)):
        return _shown(f"{path} holds this change already\n{copy.patches[-1].diff}")
    after = _replaced(text, *_line_breaks_of(text, old, new), path)
    _refuse_broken_python(text, after, path)
    _refuse_leading_out(copy, plan, {file: after})
    made = AppliedPatch(path, old, new, diff(text, after, path))
    if not begun:
        replace(copy, patches=(*copy.patches, made)).save()
    write_atomically(file, after.encode(), mode=file.stat().st_mode & 0o777)
    notes = "".join(f"note: {note}\n" for note in copy.notes[:10]) if not copy.patches else ""
    return _shown(made.diff + notes)


def folder(
    plan: Mapping[str, Any], experiment_id: str, patches: Sequence[Mapping[str, str]] | None = None
) -> Path:
    """The codebase's place in the private copy. Raises PatchError, also where the launch would run code
    of the author's own folder instead.

    `patches` are all that were made, in order: a copy that does not hold just these, because its cache was
    emptied or a kill came between, is made anew with them.
    """
    copy = private_copy.find(experiment_id)
    if copy is None or (patches is not None and _made_in(copy) != _keys(patches)):
        copy = _made(plan, experiment_id)
        for item in patches or ():
            patch(plan, experiment_id, item["path"], item["old"], item["new"])
    if patches:
        _refuse_leading_out(copy, plan)
    return copy.codebase


def diffs(experiment_id: str, patches: Sequence[Mapping[str, str]]) -> str:
    """What these corrections changed, as unified diffs one after the other."""
    copy = private_copy.find(experiment_id)
    wanted = _keys(patches)
    done = copy.patches if copy is not None else ()
    return "".join(item.diff for item in done if (item.path, item.old, item.new) in wanted)


def relocate(command: str, plan: Mapping[str, Any], experiment_id: str) -> str:
    """The launch command with its absolute paths into the codebase pointing into the copy.

    Only whole paths are changed, and only those of which the copy has its own: what it links to (data,
    virtual environments, the result folder) and what is not there yet stay the author's. Raises PatchError
    where the command would run the author's code all the same.
    """
    copy = private_copy.find(experiment_id)
    if copy is None:
        return command
    moved = relocated(command, copy, plan)
    if copy.patches and (found := author_paths.leading_out_of_command(copy, plan, moved)):
        raise PatchError(author_paths.refusal(found))
    return moved


def relocated(command: str, copy: PrivateCopy, plan: Mapping[str, Any]) -> str:
    """The command with its absolute paths into the codebase pointing into this copy."""
    roots = author_paths.roots(copy, plan)

    def place(path: str) -> str | None:
        return author_paths.moved(
            str(Path(path).expanduser()) if path.startswith("~/") else path, copy, roots
        )

    return paths_replaced(command, place)


def variables(plan: Mapping[str, Any], experiment_id: str, environment: Mapping[str, str]) -> dict[str, str]:
    """What must stand in the training's environment so that Python finds the copy's modules: where the
    interpreter, or the PYTHONPATH of `environment`, knows the author's folders, the copy's come first."""
    copy = private_copy.find(experiment_id)
    if copy is None:
        return {}
    roots = author_paths.roots(copy, plan)
    given = [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    moved = [
        author_paths.moved(entry, copy, roots)
        for entry in (*author_paths.installed_from(Path(plan["venv_exe"])), *given)
    ]
    wanted = list(dict.fromkeys([*(entry for entry in moved if entry is not None), *given]))
    return {"PYTHONPATH": os.pathsep.join(wanted)} if wanted else {}


def remove(plan: Mapping[str, Any], experiment_id: str) -> Path | None:
    """Remove the copy at the end; its diff stays beside it as `<experiment id>.diff`.

    Where the training has left files in it that are nowhere else, it is kept, and its folder is returned.
    """
    copy = private_copy.find(experiment_id)
    if copy is None:
        return None
    kept = copy.root.with_name(f"{copy.root.name}.diff")
    write_atomically(kept, "".join(item.diff for item in copy.patches), mode=0o600)
    if _left_behind(copy):
        return copy.codebase
    private_copy.forget(copy.root, copy.source)
    return None


def _refuse_leading_out(
    copy: PrivateCopy, plan: Mapping[str, Any], patched: Mapping[Path, str] | None = None
) -> None:
    """Raises PatchError where a launch would be led to the author's code; not for a correction that leaves
    fewer such lines than there were."""
    command = relocated(str(plan.get("launch_command") or ""), copy, plan)
    try:
        found = author_paths.leading_out(copy, plan, command, patched)
        before = author_paths.leading_out(copy, plan, command) if found and patched else []
    except (CopyError, OSError) as error:
        raise PatchError(str(error)) from error
    if found and len(found) >= len(before):
        raise PatchError(author_paths.refusal(found))


def _made(plan: Mapping[str, Any], experiment_id: str) -> PrivateCopy:
    try:
        return private_copy.make(plan, experiment_id)
    except (CopyError, OSError) as error:
        raise PatchError(str(error)) from error


def _made_in(copy: PrivateCopy) -> list[tuple[str, str, str]]:
    return [(item.path, item.old, item.new) for item in copy.patches]


def _keys(patches: Iterable[Mapping[str, str]]) -> list[tuple[str, str, str]]:
    """What tells corrections apart; one that was asked for again right away counts once."""
    return [key for key, _ in groupby((item["path"], item["old"], item["new"]) for item in patches)]


# --- one file -------------------------------------------------------------------------------------------


def _file_in(copy: PrivateCopy, path: str) -> Path:
    """The file of the copy that a path in the codebase names."""
    parts = Path(path).parts
    if Path(path).is_absolute() or ".." in parts or ".git" in parts:
        raise PatchError(f"{path}: name a source file by its path inside the codebase, such as src/train.py")
    file = copy.codebase / path
    if not file.resolve().is_relative_to(copy.root.resolve()):
        raise PatchError(
            f"{path} leads out of the private copy through a link: it is no code of this codebase"
        )
    if not file.is_file():
        there = [name for name in private_copy.tracked(copy.codebase) if (copy.codebase / name).is_file()]
        close = difflib.get_close_matches(path, there, n=3, cutoff=0.5)
        meant = f"; did you mean {', '.join(close)}?" if close else ""
        raise PatchError(f"there is no file {path} in the codebase{meant}")
    return file


def _source(file: Path, path: str) -> str:
    if file.stat().st_size > LARGEST_SOURCE:
        raise PatchError(f"{path} is too large to be source code")
    try:
        return file.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise PatchError(f"{path} is no UTF-8 text (byte {error.start}); only text can be patched") from error


def _line_breaks_of(text: str, old: str, new: str) -> tuple[str, str]:
    """The correction with the line breaks of the file."""
    if "\r\n" in text and "\r" not in old:
        return old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
    return old, new


def _is_done(text: str, old: str, new: str) -> bool:
    """Whether a correction that was begun stands there: the old text is left only as part of the new one."""
    return text.count(old) == (text.count(new) * new.count(old) if new else 0)


def _replaced(text: str, old: str, new: str, path: str) -> str:
    count = text.count(old)
    if count == 1:
        return text.replace(old, new)
    if count > 1:
        lines = [text.count("\n", 0, at.start()) + 1 for at in re.finditer(re.escape(old), text)]
        shown = ", ".join(map(str, lines[:10]))
        raise PatchError(
            f"the text stands {count} times in {path} (lines {shown}): give more of what stands around the "
            "one that is meant"
        )
    raise PatchError(f"the text does not stand in {path}{_closest(text, old)}")


def _shown(text: str) -> str:
    return excerpts.fitted("", excerpts.of_text(text))


def _closest(text: str, old: str) -> str:
    """Lines that look like the first line looked for, with their numbers, for a message."""
    wanted = next((line for line in old.split("\n") if line.strip()), old)[:_LONGEST_SHOWN]
    lines = [line.rstrip("\r")[:_LONGEST_SHOWN] for line in text.split("\n")[:20_000]]
    close = difflib.get_close_matches(wanted, list(dict.fromkeys(lines)), n=3, cutoff=0.5)
    if not close:
        return "; read_file shows what does"
    shown = "\n".join(f"  line {lines.index(line) + 1}: {excerpts.plain(line)}" for line in close)
    return f" exactly as given (spaces and line breaks count). The closest lines to its first one:\n{shown}"


def _refuse_broken_python(before: str, after: str, path: str) -> None:
    if path.endswith(".py") and _python_error(before) is None and (error := _python_error(after)):
        raise PatchError(f"{path} would be no valid Python any more ({error}); nothing was changed")


def _python_error(text: str) -> str | None:
    try:
        ast.parse(text)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error) or type(error).__name__
    return None


def _left_behind(copy: PrivateCopy) -> bool:
    """Whether the copy has files that the author's tree has not, apart from corrections and caches."""
    corrected = {copy.codebase / item.path for item in copy.patches}
    for parent, folders, names in os.walk(copy.root):
        folders[:] = [name for name in folders if name not in private_copy.CACHES and name != ".git"]
        for name in names:
            here = Path(parent, name)
            if here.is_symlink() or here in corrected or here == copy.root / ".git" or name.endswith(".pyc"):
                continue
            original = copy.source / here.relative_to(copy.root)
            if not original.is_file() or not filecmp.cmp(here, original, shallow=False):
                return True
    return False
