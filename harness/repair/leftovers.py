"""What earlier attempts of ours left behind, and may be freed: processes, and superseded checkpoints.

In: an experiment. Out: what is there, and how much was freed. A process is ours if it belongs to an
attempt that is over, of this experiment or of a finished one in the index; nothing else is touched.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from harness import index, journal
from harness.doctor.model import fault_of_weights
from harness.experiment import Experiment
from monitors.files import AttemptFiles
from monitors.launch import kill_leftovers, leftovers

_WEIGHTS = re.compile(r"\.(safetensors|bin|pt|pth|ckpt|distcp)")


def owned(experiment: Experiment, what: str) -> int:
    """How many `processes` of ours still run although their attempts are over; how many bytes removing
    superseded `checkpoints` would free."""
    if what == "processes":
        return sum(len(leftovers(files, attempt_id)) for files, attempt_id in _over(experiment))
    return sum(_size(folder) for folder in _superseded(experiment))


def free(experiment: Experiment, what: str) -> int:
    """End them, or remove them; returns how many there were, or how many bytes that freed."""
    if what == "processes":
        return sum(len(kill_leftovers(files, attempt_id)) for files, attempt_id in _over(experiment))
    folders = {folder: _size(folder) for folder in _superseded(experiment)}
    for folder in folders:
        shutil.rmtree(folder)
    return sum(folders.values())


def _over(experiment: Experiment) -> Iterator[tuple[AttemptFiles, str]]:
    """Folders and ids of attempts that are over and whose supervisor is gone."""
    found = [(experiment.dir, [each for each in experiment.state.attempts if each.ended is not None])]
    for run in index.runs():
        if run.dir.resolve() != experiment.dir.resolve():
            try:
                state = index.load_state(run.dir)
            except (journal.JournalDamagedError, OSError, ValueError):
                continue
            found.append((run.dir, list(state.attempts) if state.finished_at is not None else []))
    for folder, attempts in found:
        for attempt in attempts:
            files = AttemptFiles(folder / "attempts" / f"{attempt.number:02d}")
            if files.state() in ("ended", "lost"):
                yield files, attempt.attempt_id


def _superseded(experiment: Experiment) -> Iterator[Path]:
    """Checkpoints of attempts whose last one was carried on by the next, and gone beyond: by the newest whole
    checkpoint there is, at the end of such a chain. Nothing outside of their folders, and no link."""
    attempts = experiment.state.attempts
    folders = [experiment.attempt_files(each.number).trainer / "checkpoints" for each in attempts]
    at = next((at for at in reversed(range(len(folders))) if _newest(folders[at]) is not None), 0)
    newest = _newest(folders[at]) if folders else None
    while newest is not None and at > 0 and (carried := attempts[at].checkpoint):
        at -= 1
        own = experiment.dir.resolve() / folders[at].relative_to(experiment.dir)
        if _step(newest.name) > _step(carried) >= 0 and folders[at].is_dir() and folders[at].resolve() == own:
            yield from [each for each in sorted(own.iterdir()) if each.is_dir() and not each.is_symlink()]


def _newest(folder: Path) -> Path | None:
    """The checkpoint that a launch would go on from, if it has weights and none of them is empty or cut
    off."""
    try:
        name = (folder / "latest").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    found = folder / name
    if not name or found.parent != folder or not found.is_dir():
        return None
    weights = [each for each in found.rglob("*") if each.is_file() and _WEIGHTS.fullmatch(each.suffix)]
    return found if weights and not any(map(_is_damaged, weights)) else None


def _is_damaged(file: Path) -> bool:
    return bool(fault_of_weights(file)) if file.suffix == ".safetensors" else file.stat().st_size == 0


def _step(name: str) -> int:
    """The number at the end of a checkpoint's name, -1 where there is none."""
    numbers = re.findall(r"\d{1,15}", name)
    return int(numbers[-1]) if numbers else -1


def _size(folder: Path) -> int:
    """Bytes that removing it gives back: files that another attempt shares by a hard link give none."""
    files = [each.lstat() for each in folder.rglob("*") if each.is_file() and not each.is_symlink()]
    return sum(stat.st_size for stat in files if stat.st_nlink == 1)
