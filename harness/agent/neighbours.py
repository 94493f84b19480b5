"""Other runs that train in the same codebase at the same time: whose is a file that was written there?"""

import math
from pathlib import Path

from harness import index, journal
from monitors.files import AttemptFiles


def others_train_in(codebase: Path, result_dir: Path, since: float) -> bool:
    """True if another run has trained in this codebase, or in a folder above or below it, since then (epoch
    s). Runs that this user's index does not have are not known."""
    for other in (run.dir for run in reversed(index.runs()) if run.dir != result_dir):
        last = sorted((other / "attempts").glob("[0-9]*"))[-1:]
        if last and _last_seen(AttemptFiles(last[0])) >= since and _shares(other, codebase):
            return True
    return False


def _last_seen(files: AttemptFiles) -> float:
    """When an attempt was last known to run; no end where it runs now."""
    ended, beat = files.exit(), files.heartbeat()
    if ended is None and files.alive():
        return math.inf
    return (ended.ended_at if ended is not None else beat.time if beat is not None else None) or 0.0


def _shares(result_dir: Path, codebase: Path) -> bool:
    try:
        other = index.load_state(result_dir).blueprint.codebase_dir
    except (OSError, journal.JournalDamagedError):
        return False
    return other.is_relative_to(codebase) or codebase.is_relative_to(other)
