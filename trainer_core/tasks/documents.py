"""Documents as pieces of text that fit into a request.

In: files of text, JSON lines with a `text`, or PDF. Out: `Piece`s of at most so many characters, which end
where a sentence, a paragraph or a line does.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainer_core.config.section import path_of
from trainer_core.tasks.jsonl import json_lines
from trainer_core.types import DataError

if TYPE_CHECKING:
    from trainer_core.config.tasks import DocumentReader

_KEY = "task_reader.data_generation.document_reader.document_path"
_READ = "text in UTF-8 such as .txt and .md, .jsonl with a `text` in each line, and .pdf"
_LARGEST_MIB = 32
_ENDS = {
    "sentence": r"[.!?]['\")\]]*(?=\s)|[。！？]|\n\s*\n",
    "paragraph": r"\n\s*\n",
    "line": r"\n",
    "character": None,
}


@dataclass(frozen=True)
class Piece:
    """A part of a document."""

    document: str
    """The file as the config names it; with `:line` behind it where each line is a document."""
    number: int
    """From 1, within the document."""
    text: str


def read_pieces(settings: DocumentReader) -> list[Piece]:
    """Read the documents, in their order, and cut them.

    Raises:
        DataError: a file is missing, too large, not of a kind that is read, or has no text.
    """
    pieces = []
    for name in settings.document_path:
        found = [
            Piece(document, number, piece)
            for document, text in _documents(name)
            for number, piece in enumerate(cut(text, settings.chunk_size, settings.split_by), start=1)
        ]
        if not found:
            raise DataError(f"{_KEY}: there is no text in {name} (in a scan there are only pictures)")
        pieces += found
    return pieces


def cut(text: str, size: int, split_by: str) -> list[str]:
    """Pieces of at most `size` characters, each as long as it can be, without white space around them.

    Where no sentence (or whatever `split_by` names) ends in the next `size` characters, the piece ends with
    a word, and where no word does, within one.
    """
    pattern = _ENDS[split_by]
    ends = [found.end() for found in re.finditer(pattern, text)] if pattern else []
    pieces, start = [], 0
    while start < len(text):
        limit = start + size
        last = bisect_right(ends, limit)
        if limit >= len(text):
            end = len(text)
        elif last and ends[last - 1] > start:
            end = ends[last - 1]
        else:
            blank = max(text.rfind(sign, start + 1, limit + 1) for sign in " \n\t") if pattern else -1
            end = limit if blank < 0 else blank
        pieces.append(text[start:end].strip())
        start = end
    return [piece for piece in pieces if piece]


def _documents(name: str) -> Iterator[tuple[str, str]]:
    """The documents of a file, each with its name."""
    path = path_of(name)
    try:
        size = path.stat().st_size / 2**20
        if not path.is_file():
            raise DataError(f"{_KEY}: {path} is not a file. Name the files: {_READ}")
        if size > _LARGEST_MIB:
            raise DataError(
                f"{_KEY}: {path} has {size:,.0f} MiB; files of up to {_LARGEST_MIB} MiB are read. Name the "
                "part that matters, or cut it into several files"
            )
        suffix = path.suffix.lower()
        if suffix != ".jsonl":
            yield name, _pdf(path) if suffix == ".pdf" else _plain(path)
            return
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{_KEY}: cannot read {path.absolute()}: {reason}") from None
    for line, row in json_lines(path):
        if not isinstance(row, dict) or not isinstance(row.get("text"), str):
            form = 'Each line needs its text as `text`, such as {"text": "…"}'
            raise DataError(f"{path}:{line}: no document. {form}")
        yield f"{name}:{line}", row["text"]


def _plain(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8-sig")
        binary = len(text.partition("\0")[0].encode()) if "\0" in text else None
    except UnicodeDecodeError as error:
        text, binary = "", error.start
    if binary is not None:
        raise DataError(f"{_KEY}: {path} is not text (byte {binary}). What is read: {_READ}. Convert it")
    return text


def _pdf(path: Path) -> str:
    """The text of all pages, with an empty line between two."""
    try:
        import pypdf
        from pypdf.errors import DependencyError, PyPdfError
    except ModuleNotFoundError:
        raise DataError(f"{_KEY}: {path} is a PDF; to read it, type: pip install pypdf") from None
    try:
        text = "\n\n".join(page.extract_text() for page in pypdf.PdfReader(path).pages)
    except (PyPdfError, DependencyError, OSError, ValueError, LookupError, TypeError, AttributeError,
            RecursionError) as error:  # fmt: skip  # what pypdf meets in a file that is not in order
        raise DataError(
            f"{_KEY}: cannot read the PDF {path}: {type(error).__name__}: {error}. Save its text as UTF-8"
        ) from None
    return text.encode("utf-8", "replace").decode()  # a font may name halves of characters
