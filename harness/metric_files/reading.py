"""The rows of what a person points at: a log, a file of metrics, a folder of them, an attempt or a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UserError
from harness.metric_files.discovery import files_below
from harness.metric_files.source import COPIES, FileSource, best, format_of, source_in, sources
from monitors.files import AttemptFiles
from monitors.logs import LogReader
from monitors.metrics import MetricPatterns, Row
from monitors.metrics.names import Direction, direction, leading
from monitors.metrics.parser import Found, MetricReader
from monitors.metrics.propose import Proposal, propose
from monitors.metrics_file import MetricsFile
from monitors.records import EVALUATION_LOG


class NoSourceError(UserError):
    """There is nothing to read metrics from."""


@dataclass(frozen=True)
class ReadRows:
    """`source`: the file they are from. `rows`: each with its line. `proposals`: expressions for a log that
    has none."""

    source: Path
    rows: tuple[tuple[int, Row], ...]
    proposals: tuple[Proposal, ...] = ()

    def leading(self) -> tuple[str | None, Direction | None]:
        """The metric that leads, and in which direction it gets better."""
        name = leading((name for _, row in self.rows for name in row.named()))
        return name, direction(name) if name else None


def read_source(path: Path, patterns: MetricPatterns | None = None) -> ReadRows:
    """Read the rows of a log, a file of metrics, or a folder. `patterns`: for its log; a file is then a log.

    Raises NoSourceError for a folder without metrics.
    """
    if path.is_dir():
        return _of_folder(path, patterns)
    known = None if patterns else format_of(path)
    if known and (rows := tuple(known.read(path))):
        return ReadRows(path, rows)
    return _of_log(path, patterns)


def _of_folder(folder: Path, patterns: MetricPatterns | None) -> ReadRows:
    for attempt in (folder, *sorted(folder.glob("attempts/[0-9]*"), reverse=True)):
        if copied := source_in(attempt / COPIES):
            return _of_files(copied)
        if (attempt / "pane.log").is_file():
            return _of_log(attempt / "pane.log", patterns)
    found = best(sources(files_below([folder])))
    if found is None:
        raise NoSourceError(f"{folder}: no file in it holds metrics; name a log")
    return _of_files(found)


def _of_files(source: FileSource) -> ReadRows:
    return ReadRows(source.place, tuple((line, row) for _, line, row in source.rows()))


def _of_log(path: Path, patterns: MetricPatterns | None) -> ReadRows:
    rows = tuple((found.line, found.row) for found in _printed(path, patterns))
    return ReadRows(path, rows, () if rows else propositions(path))


def _printed(path: Path, patterns: MetricPatterns | None) -> Iterator[Found]:
    log, reader = LogReader(path), MetricReader(patterns)
    while True:
        for line in log.read(final=True):
            yield from reader.read(line)
        if log.at_end:
            break
    yield from reader.end()


def take_evaluation(files: AttemptFiles, patterns: MetricPatterns) -> int:
    """Write the rows that the evaluation of an attempt printed as its evaluation.jsonl; return how many there
    are. Can be repeated."""
    rows = [found for found in _printed(files.evaluation_log, patterns) if found.row.values]
    written = MetricsFile(files.evaluation)
    for found in rows:
        written.add(found.row, EVALUATION_LOG, found.line, found.first_line)
    written.publish()
    written.close()
    return len(rows)


def propositions(log: Path) -> tuple[Proposal, ...]:
    """Expressions for a log without known rows, from its first megabytes."""
    return tuple(propose(LogReader(log).read(final=True)))
