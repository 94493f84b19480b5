"""Which kind of result folder a folder is, told by its journal: one run's, or a sweep's with its runs below.

In: a path. Out: whether a sweep has begun there, and the sweep that a run belongs to. Nothing is made here.
"""

from collections.abc import Sequence
from pathlib import Path

from harness import journal

JOURNAL = "sweep.jsonl"
"""The journal of a sweep; that of a run is `journal.jsonl`."""


def is_sweep(folder: Path) -> bool:
    """True if a sweep has begun in this folder."""
    return journal.has_begun(folder / JOURNAL)


def sweep_of(run_dir: Path) -> Path | None:
    """The sweep that a run's result folder belongs to; None for a run of its own."""
    return run_dir.parent if is_sweep(run_dir.parent) else None


def whole_sweep(folders: Sequence[Path]) -> Path | None:
    """The sweep that these folders are, runs of its own beside it or not; None for anything else."""
    whole = {folder.resolve() for folder in folders if is_sweep(folder)}
    others = {sweep_of(folder.resolve()) for folder in folders if not is_sweep(folder)}
    return next(iter(whole)) if len(whole) == 1 and others <= whole else None
