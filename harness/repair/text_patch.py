"""One correction of one source file: text that stands in it exactly once, replaced.

In: the copy and the words of a correction. Out: the new text, or a PatchError that says what would do.
"""

import ast
import difflib
import re
from pathlib import Path

from harness.repair.code_copy import CodeCopy

LARGEST_SOURCE = 2_000_000


class PatchError(Exception):
    """The code cannot be patched this way; the message says why and what would do."""


def file_in(copy: CodeCopy, path: str) -> Path:
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
        own = (each for each in copy.files() if each.is_relative_to(copy.codebase))
        there = [str(each.relative_to(copy.codebase)) for each in own]
        close = difflib.get_close_matches(path, there, n=3, cutoff=0.5)
        meant = f"; did you mean {', '.join(close)}?" if close else ""
        raise PatchError(f"there is no file {path} in the codebase{meant}")
    return file


def source(file: Path, path: str) -> str:
    if file.stat().st_size > LARGEST_SOURCE:
        raise PatchError(f"{path} is too large to be source code")
    try:
        return file.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise PatchError(f"{path} is no UTF-8 text (byte {error.start}); only text can be patched") from error


def replaced(text: str, old: str, new: str, path: str) -> str:
    """The text with the correction, which takes the line breaks of the file. Raises PatchError."""
    if "\r\n" in text and "\r" not in old:
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
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
    raise PatchError(
        f"the text does not stand in {path} exactly as given (spaces and line breaks count); read_file shows "
        "what does"
    )


def refuse_broken_python(before: str, after: str, path: str) -> None:
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
