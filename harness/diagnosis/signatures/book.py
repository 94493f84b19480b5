"""All signatures that are known: those shipped with the package, and a user's own.

A user's signatures come first, so that they hold where both match; one with the id of a shipped one takes
its place.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from pathlib import Path

from harness.diagnosis.signatures.schema import SignatureError, parse, prove
from harness.diagnosis.types import Signature


@dataclass(frozen=True)
class Book:
    """Signatures in order; `words` are what a reader looks for in lower case, so that no line that one of
    them is about is missed."""

    signatures: tuple[Signature, ...]

    @cached_property
    def words(self) -> tuple[str, ...]:
        found = (word.lower() for signature in self.signatures for word in signature.words)
        return tuple(dict.fromkeys(found))


def user_folder() -> Path:
    """Where a person keeps signatures of their own: `signatures/` in the harness's config folder."""
    config = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(config) / "harness" / "signatures"


def load(folders: Iterable[Path] | None = None) -> Book:
    """The shipped signatures and those in `folders` (default: the user's folder, if there is one). Raises
    SignatureError."""
    book, broken = load_usable(folders)
    if broken:
        raise SignatureError(broken[0])
    return book


def load_usable(folders: Iterable[Path] | None = None) -> tuple[Book, tuple[str, ...]]:
    """The same without the files that cannot be used, and what is wrong with each of those."""
    own = [user_folder()] if folders is None else folders
    return _book(tuple((file, file.stat().st_mtime_ns) for folder in own for file in files_in(folder)))


def files_in(folder: Path) -> list[Path]:
    """The signature files of a folder; none where there is no such folder."""
    return sorted(file for file in folder.glob("*.yaml") if file.is_file())


def read_file(file: Path) -> list[Signature]:
    """The signatures of one file, all their patterns proven. Raises SignatureError."""
    try:
        found = parse(file.read_text(encoding="utf-8"), file)
        prove(found, file)
    except (OSError, ValueError, OverflowError, RecursionError) as error:
        raise SignatureError(f"{file}: cannot be read: {error}") from error
    return found


@cache
def _book(files: tuple[tuple[Path, int], ...]) -> tuple[Book, tuple[str, ...]]:
    found: dict[str, Signature] = {}
    broken: list[str] = []
    for file, _ in files:
        try:
            _add(found, read_file(file), file)
        except SignatureError as error:
            broken.append(str(error))
    taken = set(found)
    for signature in _shipped():
        if signature.id not in taken:
            found[signature.id] = signature
    return Book(tuple(found.values())), tuple(broken)


@cache
def _shipped() -> tuple[Signature, ...]:
    found: dict[str, Signature] = {}
    for file in sorted(resources.files(__package__).iterdir(), key=lambda item: item.name):
        if file.name.endswith(".yaml") and file.name != "families.yaml":
            _add(found, parse(file.read_text(encoding="utf-8"), file.name), file.name)
    return tuple(found.values())


def _add(found: dict[str, Signature], signatures: list[Signature], where: str | Path) -> None:
    new: dict[str, Signature] = {}
    for signature in signatures:
        if signature.id in found or signature.id in new:
            raise SignatureError(f"{where}: there are two signatures with the id {signature.id}")
        new[signature.id] = signature
    found.update(new)
