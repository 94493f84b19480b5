"""Metrics from the files that trainings write anyway: one small reader per format, and the choice among them.

In: files and folders of a training. Out: rows (`monitors.metrics.Row`), each with its line. Outside only what
this page names is used: `read` and `format_of` for one file or folder, `Source` for what an attempt's rows
are taken from.
"""

from harness.metric_files.formats import Format, format_of, read

__all__ = ["Format", "format_of", "read"]
