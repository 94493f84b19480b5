"""What earlier attempts of ours left behind, and may be freed: processes, and superseded checkpoints.

In: an experiment. Out: what is there, and how much was freed. A process is ours if it carries the id of an
attempt that is over, of this experiment or of a finished one in the index; nothing else is touched.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from harness import index, journal
from harness.doctor.model_files import fault_of_weights
from harness.experiment import Experiment
from monitors.files import AttemptFiles
from monitors.launch import kill_leftovers
from monitors.processes import members_of_attempt

_WEIGHTS = re.compile(r"\.(safetensors|bin|pt|pth|ckpt|distcp)")


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
            yield from (each for each in sorted(own.iterdir()) if each.is_dir() and not each.is_symlink())


def _newest(folder: Path) -> Path | None:
    """The checkpoint that a launch would go on from, if its weights are whole."""
    try:
        name = (folder / "latest").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    found = folder / name
    return found if name and found.parent == folder and found.is_dir() and _is_whole(found) else None


def _is_whole(checkpoint: Path) -> bool:
    """True if there are weights, and none of them is empty or cut off."""
    weights = [each for each in checkpoint.rglob("*") if each.is_file() and _WEIGHTS.fullmatch(each.suffix)]
    return bool(weights) and not any(map(_fault, weights))


def _fault(file: Path) -> bool:
    return bool(fault_of_weights(file)) if file.suffix == ".safetensors" else file.stat().st_size == 0


def _step(name: str) -> int:
    """The number at the end of a checkpoint's name, -1 where there is none."""
    numbers = re.findall(r"\d{1,15}", name)
    return int(numbers[-1]) if numbers else -1


def _size(folder: Path) -> int:
    """Bytes that removing it gives back: files that another attempt shares by a hard link give none."""
    files = [each.lstat() for each in folder.rglob("*") if each.is_file() and not each.is_symlink()]
    return sum(stat.st_size for stat in files if stat.st_nlink == 1)
