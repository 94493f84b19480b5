"""The file that a path must mean which leads to none: a slip of the pen, or a file of that name elsewhere.

Only names are looked at. Nothing hidden, and no environment or result folder, is walked through.
"""

import difflib
import os
import re
from collections.abc import Iterator
from pathlib import Path

MOST_ENTRIES = 20_000
"""Where the codebase has more, it is not known that a name stands there only once."""
_LIKENESS = 0.8
_NOT_WALKED = {"node_modules", "venv", "__pycache__", "wandb", "exp_results", "site-packages"}


def similar(text: str, base: Path) -> str:
    """The only file like the missing one at `text`, seen from `base` and written as `text` is; "" where there
    is none, or more than one."""
    missing = base / Path(text).expanduser()
    is_inside = missing.is_relative_to(base)
    top = base if is_inside else Path(missing.anchor)
    found = list(_respelt(top, missing.relative_to(top).parts))
    if not found and is_inside:
        found = _of_this_name(missing.name, base)
    if len(found) != 1:
        return ""
    is_relative = is_inside and not Path(text).expanduser().is_absolute()
    return str(found[0].relative_to(base) if is_relative else found[0])


def _respelt(folder: Path, parts: tuple[str, ...]) -> Iterator[Path]:
    """Files below the folder whose path has the same parts, each as it is or, where there is none of that
    name, nearly so."""
    if not parts:
        if folder.is_file():
            yield folder
        return
    is_there = (folder / parts[0]).exists()
    for name in [parts[0]] if is_there else [each for each in _names(folder) if _is_like(parts[0], each)]:
        yield from _respelt(folder / name, parts[1:])


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir() if not entry.name.startswith(".")]
    except OSError:
        return []


def _is_like(one: str, other: str) -> bool:
    """True if the names differ by a slip: not in their numbers or their ending, as versions and splits do."""
    is_of_a_kind = Path(one).suffix == Path(other).suffix and re.findall(r"\d+", one) == re.findall(
        r"\d+", other
    )
    return is_of_a_kind and difflib.SequenceMatcher(None, one, other).ratio() >= _LIKENESS


def _of_this_name(name: str, base: Path) -> list[Path]:
    """The files of this name in the codebase; none where it is too large to be sure."""
    found, left = [], MOST_ENTRIES
    for folder, folders, files in os.walk(base):
        folders[:] = [each for each in folders if not each.startswith(".") and each not in _NOT_WALKED]
        left -= len(files) + len(folders)
        if left < 0:
            return []
        found += [Path(folder, name)] if name in files else []
    return found
