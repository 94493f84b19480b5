"""One finished run: finish.flag, journal, files, and every number of its report.

In: a result folder, which may have been moved or copied. Out: what was checked, and what differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.results.types import Discrepancy
from harness.results.verifying.ending import FLAG, JOURNAL, check_ending
from harness.results.verifying.files import unlisted
from harness.results.verifying.reported import RESULT, check_reported, recorded_paths
from harness.results.verifying.types import Checked, NotFinishedError, found


def verify_run(result_dir: Path) -> Checked:
    """Check a finished run. Raises NotFinishedError for a folder without a finish.flag."""
    try:
        ending, held = check_ending(result_dir)
    except FileNotFoundError:
        raise NotFinishedError(
            f"{result_dir} has no {FLAG}: the run has not ended, and there is nothing to hold it to yet. "
            f"`harness resume {result_dir}` goes on with it"
        ) from None
    try:
        reported = check_reported(result_dir, held)
    except FileNotFoundError:
        gone = (RESULT, f"the file is gone; `harness report {result_dir.name}` builds it from the raw files")
        reported = Checked(found([gone]))
    known = {FLAG, JOURNAL, *(item.path for item in held), *recorded_paths(result_dir)}
    strangers = Checked(tuple(unlisted(result_dir, known)))
    checked = ending + reported + strangers
    return replace(checked, discrepancies=_once(checked.discrepancies), files=len(known), runs=1)


def _once(discrepancies: Sequence[Discrepancy]) -> tuple[Discrepancy, ...]:
    """Without what was found twice: a raw file is fingerprinted when the report is built and when the run
    ends."""
    first = {(item.where, item.what.partition(" since ")[0]): item for item in reversed(discrepancies)}
    return tuple(reversed(first.values()))
