"""What earlier attempts of ours left behind, and may be freed: processes, and superseded checkpoints.

In: an experiment. Out: what is there, and how much was freed. A process is ours if it carries the id of an
attempt that is over, of this experiment or of a finished one in the index; nothing else is touched.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

from harness import index, journal
from harness.experiment import Experiment
from monitors.files import AttemptFiles
from monitors.launch import kill_leftovers
from monitors.processes import members_of_attempt


def leftovers(experiment: Experiment) -> int:
    """How many processes of ours still run although their attempts are over."""
    return sum(len(members_of_attempt(attempt_id)) for attempt_id in _over(experiment))


def end_leftovers(experiment: Experiment) -> int:
    """End them; returns how many there were."""
    return sum(len(kill_leftovers(attempt_id)) for attempt_id in _over(experiment))


def _over(experiment: Experiment) -> Iterator[str]:
    """Ids of attempts that are over and whose supervisor is gone."""
    for attempt in experiment.state.attempts:
        if attempt.ended is not None and _is_over(experiment.attempt_files(attempt.number)):
            yield attempt.attempt_id
    for run in index.runs():
        if run.dir.resolve() == experiment.dir.resolve():
            continue
        try:
            state = index.load_state(run.dir)
        except (journal.JournalDamagedError, OSError, ValueError):
            continue
        if state.finished_at is None:
            continue
        for attempt in state.attempts:
            if _is_over(AttemptFiles(run.dir / "attempts" / f"{attempt.number:02d}")):
                yield attempt.attempt_id


def _is_over(files: AttemptFiles) -> bool:
    return files.state() in ("ended", "lost")


def superseded_bytes(experiment: Experiment) -> int:
    """How much room removing superseded checkpoints would make."""
    return sum(_size(folder) for folder in _superseded(experiment))


def remove_superseded(experiment: Experiment) -> int:
    """Remove them; returns how many bytes that freed."""
    freed = 0
    for folder in list(_superseded(experiment)):
        freed += _size(folder)
        shutil.rmtree(folder)
    return freed


def _superseded(experiment: Experiment) -> Iterator[Path]:
    """Checkpoints of attempts before the newest one that has any of its own to go on from."""
    numbers = [attempt.number for attempt in experiment.state.attempts]
    folders = [experiment.attempt_files(number).trainer / "checkpoints" for number in numbers]
    usable = [position for position, folder in enumerate(folders) if _newest(folder) is not None]
    for folder in folders[: usable[-1]] if usable else ():
        if folder.is_dir() and not folder.is_symlink():
            yield from (each for each in sorted(folder.iterdir()) if each.is_dir() and not each.is_symlink())


def _newest(folder: Path) -> Path | None:
    """The checkpoint that a launch would go on from."""
    try:
        name = (folder / "latest").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    return folder / name if name and (folder / name).is_dir() else None


def _size(folder: Path) -> int:
    """Bytes that removing it gives back: files that another attempt shares by a hard link give none."""
    files = [each.lstat() for each in folder.rglob("*") if each.is_file() and not each.is_symlink()]
    return sum(stat.st_size for stat in files if stat.st_nlink == 1)
