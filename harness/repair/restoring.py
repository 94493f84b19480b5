"""Puts a copy of code back to what was copied and corrected, before it is corrected further or launched.

In: the copy, with an untouched one of its own beside it. Out: what trainings had done to it, as unified
diffs: rewritten files of the author are put back, code that the training has added stays (it may be what it
is to produce) and is shown. Links are not followed: a training may have made them.
"""

import filecmp
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from harness.atomic_write import write_atomically
from harness.guard.file_access import LARGEST_SOURCE_BYTES, SOURCE_SUFFIXES
from harness.pending_changes import ADDED, PUT_BACK, diff

_CODE = SOURCE_SUFFIXES | {".so", ".pyd", ".pth"}
_COMPILED = "__pycache__"
"""What Python would run instead of a source that it says it was made from."""


def untouched(root: Path) -> Path:
    """The folder beside a copy that holds it as it was made."""
    return root.with_name(f"{root.name}.untouched")


def keep(root: Path) -> None:
    """Remember the copy as it is now."""
    forget(root)
    shutil.copytree(root, untouched(root), symlinks=True, ignore=shutil.ignore_patterns(".git"))


def keep_file(root: Path, file: Path) -> None:
    """Remember a file of it as it is now."""
    write_atomically(_counterpart(root, file), file.read_bytes(), mode=file.stat().st_mode & 0o777)


def forget(root: Path) -> None:
    """Remove what was remembered."""
    shutil.rmtree(untouched(root), ignore_errors=True)
    _record(root).unlink(missing_ok=True)


def done_by_training(root: Path) -> str:
    """What the trainings in this copy have done to it, as diffs."""
    file = _record(root)
    return file.read_text(encoding="utf-8") if file.exists() else ""


def put_back(root: Path) -> None:
    """Make the copy's code what it was, and remember what had been done to it. Raises OSError."""
    changed = list(_changed(root))
    done = [diff(_text(here), _text(kept), f"{PUT_BACK}{name}") for here, kept, name in changed]
    for here, kept, _ in changed:
        _replace(root, here, kept)
    for parent, folders, files in os.walk(root):
        if _COMPILED in (*folders, *files):
            _remove(Path(parent, _COMPILED))
        folders[:] = sorted(name for name in folders if name not in (_COMPILED, ".git"))
        for file in (Path(parent, name) for name in sorted(files) if Path(name).suffix in _CODE):
            if not os.path.lexists(_counterpart(root, file)):
                done.append(diff("", _text(file), f"{ADDED}{file.relative_to(root)}"))
    known = done_by_training(root)
    if fresh := [each for each in done if each not in known]:
        write_atomically(_record(root), known + "".join(fresh), mode=0o600)


def _record(root: Path) -> Path:
    return root.with_name(f"{root.name}.done.diff")


def _changed(root: Path) -> Iterator[tuple[Path, Path, Path]]:
    """Files and links that are no longer what they were: where they are, as they were, their names."""
    for parent, folders, files in os.walk(untouched(root)):
        links = [name for name in folders if Path(parent, name).is_symlink()]
        for kept in (Path(parent, name) for name in sorted((*files, *links))):
            name = kept.relative_to(untouched(root))
            if not _is_same(root, root / name, kept):
                yield root / name, kept, name


def _is_same(root: Path, here: Path, kept: Path) -> bool:
    if any(each.is_symlink() for each in here.parents if each.is_relative_to(root) and each != root):
        return False
    if kept.is_symlink() or here.is_symlink():
        return kept.is_symlink() and here.is_symlink() and kept.readlink() == here.readlink()
    return here.is_file() and filecmp.cmp(here, kept, shallow=False)


def _replace(root: Path, here: Path, kept: Path) -> None:
    """Through folders that are really there."""
    for folder in reversed([each for each in here.parents if each.is_relative_to(root) and each != root]):
        if folder.is_symlink() or not folder.is_dir():
            _remove(folder)
            folder.mkdir()
    _remove(here)
    shutil.copy2(kept, here, follow_symlinks=False)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _counterpart(root: Path, file: Path) -> Path:
    return untouched(root) / file.relative_to(root)


def _text(path: Path) -> str:
    """Of a file; in a word what else it is."""
    if path.is_symlink():
        return f"a link to {path.readlink()}\n"
    if not path.is_file():
        return ""
    if path.stat().st_size > LARGEST_SOURCE_BYTES:
        return f"a file of {path.stat().st_size} bytes\n"
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return f"a file of {path.stat().st_size} bytes, no text\n"
