"""Metrics from the files that trainings write anyway: one small reader per format, and the choice among them.

In: files and folders of a training. Out: rows (`monitors.metrics.Row`), each with its line. Outside only
what this page names is used: `format_of` for one file, `reading` for what a person points at,
`FollowedFiles` for what a watch follows, `remember` before a launch, `source_in` for the copies in an
attempt's folder.
"""

from harness.metric_files.following import FollowedFiles, remember
from harness.metric_files.source import COPIES, format_of, source_in

__all__ = [
    "COPIES",
    "FollowedFiles",
    "format_of",
    "remember",
    "source_in",
]
