"""What vouches for a finished folder: fingerprints of files, the checksum of a result file, finish.flag.

In: a folder, or what is written about it. Out: path, sha256 and size of each file, as a manifest lists them.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.redaction import Secrets
from harness.results.text import clean_tree

SKIPPED_FOLDERS = ("checkpoints", "__pycache__")


def manifest(result_dir: Path) -> list[dict[str, Any]]:
    """Every raw file of a run: blueprint, provenance, attempts without checkpoints."""
    attempts = (path for path in files_of(result_dir) if path.is_relative_to(result_dir / "attempts"))
    return fingerprints(result_dir, [result_dir / "blueprint.md", result_dir / "provenance.json", *attempts])


def vouched_for(result_dir: Path) -> list[dict[str, Any]]:
    """What finish.flag of a run vouches for: raw files, journal, a model's transcript, a person's answers,
    the experiment that is proposed, smoke runs."""
    written = [result_dir / "journal.jsonl", result_dir / "transcript.jsonl"]
    answers = sorted((result_dir / "approvals").glob("*.json"))
    proposed = sorted((result_dir / "next").glob("*"))
    tried = (path for path in files_of(result_dir) if path.is_relative_to(result_dir / "smoke"))
    return [*manifest(result_dir), *fingerprints(result_dir, [*written, *answers, *proposed, *tried])]


def files_of(folder: Path, apart: Collection[str] = ()) -> Iterator[Path]:
    """Every file, link and special file below a folder; the folders `apart`, and caches and checkpoints of
    attempts, which may come and go, are left out."""
    for place, folders, names in os.walk(folder):
        here = Path(place)
        links = [name for name in folders if (here / name).is_symlink()]
        skipped = SKIPPED_FOLDERS if {"attempts", "smoke"} & {*here.relative_to(folder).parts} else ()
        kept = (name for name in folders if name not in skipped)
        folders[:] = sorted(name for name in kept if relative_name(here / name, folder) not in apart)
        yield from (here / name for name in sorted((*names, *links)))


def fingerprints(folder: Path, files: Iterable[Path]) -> list[dict[str, Any]]:
    """Path relative to the folder, sha256 and size of each regular file among `files`."""
    return [
        {"path": relative_name(path, folder), "sha256": sha256(path), "bytes": path.stat().st_size}
        for path in files
        if path.is_file() and not path.is_symlink()
    ]


def relative_name(path: Path, folder: Path) -> str:
    """How a file is called in a manifest; a name that is not UTF-8 has its odd bytes written out."""
    return os.fsencode(path.relative_to(folder)).decode("utf-8", "backslashreplace")


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def with_checksum(result: Mapping[str, Any]) -> str:
    """The text of result.json or sweep.json: all of it, and at its end the sha256 of the rest, so that no
    character of it is changed without being noticed. Raises ValueError for what JSON does not know."""
    checksum = hashlib.sha256(json_text(result).encode()).hexdigest()
    return json_text({**result, "checksum": checksum}) + "\n"


def json_text(data: Mapping[str, Any]) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)


def plain(node: Any) -> Any:
    """Data of dicts, lists and tuples as JSON has it: null for NaN and infinities, text for paths."""
    if isinstance(node, Mapping):
        return {key: plain(value) for key, value in node.items()}
    if isinstance(node, tuple | list):
        return [plain(item) for item in node]
    if isinstance(node, Path):
        return str(node)
    return None if isinstance(node, float) and not math.isfinite(node) else node


def flag_of(state: Any, known: Secrets, **own: Any) -> dict[str, Any]:
    """What finish.flag says of a run or a sweep that has ended, its manifest left out, secrets masked.

    `state`: what its journal folds to; `own`: what only a run, or only a sweep, has to say.
    """
    flag = {
        "outcome": state.verdict.outcome.value,
        "reason": state.verdict.reason,
        "exit_code": state.verdict.outcome.exit_code,
        "name": state.name,
        "created_at": state.created_at,
        "finished_at": state.finished_at,
        "headline": list(state.reported.headline) if state.reported is not None else [],
        **own,
    }
    return dict(clean_tree(flag, known))
