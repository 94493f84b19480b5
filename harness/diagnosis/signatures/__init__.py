"""Known failures, one YAML file per family: those of this folder and a user's own (`README.md`).

A user's signatures come first, so that they hold where both match; one with the id of a shipped one takes
its place.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from harness.diagnosis.signatures import compiled, schema
from harness.diagnosis.signatures.index import ClauseIndex
from harness.diagnosis.signatures.schema import Signature, parse, prove
from harness.diagnosis.signatures.schema import SignatureError as SignatureError
from harness.diagnosis.signatures.schema import families as families
from harness.installation import own_files, own_text
from monitors.metrics import patterns


@dataclass(frozen=True)
class SignatureCatalogue:
    """Signatures in order; `words` are what a reader looks for in lower case, so that no line that one of
    them is about is missed."""

    signatures: tuple[Signature, ...]

    @cached_property
    def words(self) -> tuple[str, ...]:
        found = (word.lower() for signature in self.signatures for word in signature.words)
        return tuple(dict.fromkeys(found))

    @cached_property
    def clauses(self) -> ClauseIndex:
        """Made once: it takes longer than a log does."""
        return ClauseIndex(self.signatures)


def user_folder() -> Path:
    """Where a person keeps signatures of their own: `signatures/` in the harness's config folder."""
    config = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(config) / "harness" / "signatures"


def load(folders: Iterable[Path] | None = None) -> SignatureCatalogue:
    """The shipped signatures and those in `folders` (default: the user's folder, if there is one). Raises
    SignatureError."""
    catalogue, broken = load_usable(folders)
    if broken:
        raise SignatureError(broken[0])
    return catalogue


def load_usable(folders: Iterable[Path] | None = None) -> tuple[SignatureCatalogue, tuple[str, ...]]:
    """The same without the files that cannot be used, and what is wrong with each of those."""
    own = [user_folder()] if folders is None else folders
    return _catalogue(tuple((file, file.stat().st_mtime_ns) for folder in own for file in files_in(folder)))


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
def _catalogue(files: tuple[tuple[Path, int], ...]) -> tuple[SignatureCatalogue, tuple[str, ...]]:
    found: dict[str, Signature] = {}
    broken: list[str] = []
    for file, _ in files:
        try:
            found = _with(found, read_file(file), file)
        except SignatureError as error:
            broken.append(str(error))
    own_first = {**found, **_shipped(), **found}
    return SignatureCatalogue(tuple(own_first.values())), tuple(broken)


@cache
def _shipped() -> dict[str, Signature]:
    files = own_files(Path(__file__).parent, ".yaml")
    readers = (Path(schema.__file__), Path(patterns.__file__))
    made_of = compiled.digest_of(own_text(file) for file in (*files, *readers))
    if (known := compiled.recall(made_of)) is not None:
        return {signature.id: signature for signature in known}
    found: dict[str, Signature] = {}
    for file in files:
        if file.name != "families.yaml":
            found = _with(found, parse(own_text(file), file.name), file.name)
    compiled.keep(made_of, found.values())
    return found


def _with(known: dict[str, Signature], new: list[Signature], where: str | Path) -> dict[str, Signature]:
    """All of them by id. Raises SignatureError where one is there twice."""
    found = dict(known)
    for signature in new:
        if signature.id in found:
            raise SignatureError(f"{where}: there are two signatures with the id {signature.id}")
        found[signature.id] = signature
    return found
