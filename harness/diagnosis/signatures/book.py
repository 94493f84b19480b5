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
    own = [user_folder()] if folders is None else folders
    files = [file for folder in own if folder.is_dir() for file in sorted(folder.glob("*.yaml"))]
    return _book(tuple((file, file.stat().st_mtime_ns) for file in files))


@cache
def _book(files: tuple[tuple[Path, int], ...]) -> Book:
    found: dict[str, Signature] = {}
    for file, _ in files:
        own = parse(file.read_text(encoding="utf-8"), file)
        prove(own, file)
        _add(found, own, file)
    taken = set(found)
    for signature in _shipped():
        if signature.id not in taken:
            found[signature.id] = signature
    return Book(tuple(found.values()))


@cache
def _shipped() -> tuple[Signature, ...]:
    found: dict[str, Signature] = {}
    for file in sorted(resources.files(__package__).iterdir(), key=lambda item: item.name):
        if file.name.endswith(".yaml") and file.name != "families.yaml":
            _add(found, parse(file.read_text(encoding="utf-8"), file.name), file.name)
    return tuple(found.values())


def _add(found: dict[str, Signature], signatures: list[Signature], where: str | Path) -> None:
    for signature in signatures:
        if signature.id in found:
            raise SignatureError(f"{where}: there are two signatures with the id {signature.id}")
        found[signature.id] = signature
