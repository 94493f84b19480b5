"""Files against their fingerprints: what is gone, what has changed, what nobody wrote down.

In: a folder and what was recorded of it. Out: discrepancies. No link is followed: a link in the place of a
file, or on the way to it, is a discrepancy.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from harness.results.types import Discrepancy
from harness.results.verifying.fingerprints import SKIPPED_FOLDERS, relative_name, sha256
from harness.results.verifying.schema import ListedFile

_READ = ("metrics.jsonl", "exit.json", "config.yaml", "validation.md", "trainer", "trainer/validation.jsonl")


def differing(folder: Path, listed: Iterable[ListedFile], since: str) -> Iterator[Discrepancy]:
    """The listed files that are gone or not as they were; `since`: when they were fingerprinted."""
    there = dict(regular_files(folder))
    for item in listed:
        path = there.get(item.path, folder / item.path)
        why = _why_different(path, folder, item)
        if why:
            yield Discrepancy(item.path, why.format(since=since))


def unlisted(folder: Path, known: Collection[str], left_out: Collection[str] = ()) -> Iterator[Discrepancy]:
    """Files that are there and that nothing accounts for. `left_out`: folders at the top that are checked by
    themselves."""
    for name, _ in regular_files(folder):
        if name not in known and name.partition("/")[0] not in left_out:
            yield Discrepancy(name, "nothing accounts for this file: it was put there after the end")


def regular_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Every file below the folder with its name there, checkpoints and caches left out; links are none."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        for name in sorted(names):
            path = Path(place) / name
            try:
                if stat.S_ISREG(path.lstat().st_mode):
                    yield relative_name(path, folder), path
            except OSError:
                continue  # gone since the folder was listed: `differing` tells, if it should be there


def in_the_way(result_dir: Path) -> Iterator[Discrepancy]:
    """Links and special files where the raw files of a run belong; whoever reads on would follow them."""
    root = result_dir.resolve()
    attempts = [path for path in (result_dir / "attempts").glob("*") if path.name.isdigit()]
    read = [folder / name for folder in attempts for name in _READ]
    for path in (result_dir / "attempts", *attempts, *read):
        try:
            mode = path.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        is_plain = stat.S_ISREG(mode) or (stat.S_ISDIR(mode) and not path.suffix)
        if not is_plain or path.resolve() != root / path.relative_to(result_dir):
            yield Discrepancy(relative_name(path, result_dir), "a link or a special file stands in its place")


def _why_different(path: Path, folder: Path, item: ListedFile) -> str:
    try:
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode) or path.resolve() != folder.resolve() / path.relative_to(folder):
            return "a link stands in its place"
        if not stat.S_ISREG(found.st_mode):
            return "it is no regular file any more"
        if found.st_size != item.bytes or sha256(path) != item.sha256:
            return "the file has changed since {since}"
    except (FileNotFoundError, NotADirectoryError):
        return "the file is gone"
    except (OSError, ValueError) as error:
        return f"it cannot be read: {getattr(error, 'strerror', None) or error}"
    return ""
