"""Fingerprints of files: what result.json and finish.flag vouch for.

In: a result folder. Out: path, sha256 and size of each file, as a manifest lists them. `files` holds them
against what is there later.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SKIPPED_FOLDERS = ("checkpoints", "__pycache__")


def manifest(result_dir: Path) -> list[dict[str, Any]]:
    """Path, sha256 and size of every raw file: blueprint, provenance, attempts without checkpoints."""
    files = [result_dir / "blueprint.md", result_dir / "provenance.json"]
    for folder, folders, names in os.walk(result_dir / "attempts"):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        files += [Path(folder) / name for name in sorted(names)]
    return fingerprints(result_dir, files)


def vouched_for(result_dir: Path) -> list[dict[str, Any]]:
    """What finish.flag vouches for: raw files, journal, a model's transcript, a person's answers."""
    said = [result_dir / "journal.jsonl", result_dir / "transcript.jsonl"]
    answers = sorted((result_dir / "approvals").glob("*.json"))
    return [*manifest(result_dir), *fingerprints(result_dir, [*said, *answers])]


def fingerprints(result_dir: Path, files: Iterable[Path]) -> list[dict[str, Any]]:
    """Path relative to the result folder, sha256 and size of each regular file among `files`."""
    return [
        {
            "path": relative_name(path, result_dir),
            "sha256": sha256(path),
            "bytes": path.stat().st_size,
        }
        for path in files
        if path.is_file() and not path.is_symlink()
    ]


def relative_name(path: Path, result_dir: Path) -> str:
    """How a file is called in a manifest; a name that is not UTF-8 has its odd bytes written out."""
    return os.fsencode(path.relative_to(result_dir)).decode("utf-8", "backslashreplace")


def sha256(path: Path) -> str:
    """The SHA-256 of a file in hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
