"""Follows one attempt's log and metrics and tells what matters as events.

In: `pane.log`, the metric source, the clock, the disk. Out: events (`poll`), the rows so far (`rows`), and
`metrics.jsonl`, written from scratch when a watch starts and appended to afterwards. Of the log only lines
that hold a word of a metric or an error are looked at, so that a chatty one costs next to nothing.
"""

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from monitors.files import AttemptFiles
from monitors.health import Alarm, LiveHealth
from monitors.logs import PIECE_BYTES, Line, LogReader
from monitors.metrics import Row, row_from_object
from monitors.metrics.axis import place_text
from monitors.metrics.filter import finds_every_family, lines_to_read
from monitors.metrics.parser import Found, MetricReader, parse_line
from monitors.metrics_file import MetricsFile
from monitors.processes import steady_time
from monitors.repeats import Repeats
from monitors.resources import disk_free
from monitors.row_source import RowSource
from monitors.rows import Rows
from monitors.rules import (
    DISK_LOW_BYTES,
    ERROR_WORDS,
    HANG_S,
    MUST_BE_FINITE,
    PLATEAU_EVALUATIONS,
    Event,
    EventKind,
    FatalSign,
    MetricSource,
    WatchRules,
    is_error,
    plateau,
    proves_first_step,
)
from monitors.vitals import Vitals

DISK_CHECK_S = 60.0
ERROR_PAUSE_S = 60.0
MOST_SHAPES = 1000
LONGEST_TOLD = 2000


class Watch:
    """Turns an attempt's raw files into events."""

    def __init__(
        self,
        files: AttemptFiles,
        source: MetricSource = MetricSource.CONSOLE,
        rules: WatchRules | None = None,
        clock: Callable[[], float] = steady_time,
        other_rows: RowSource | None = None,
    ) -> None:
        """`other_rows`: where rows come from while the log has none, or if the plan names that source."""
        self._files = files
        self._source = source
        self._other_rows = other_rows
        self._reads_rows = source is MetricSource.CONSOLE and not (other_rows and other_rows.is_named)
        self.has_other_rows = False
        self._rules = rules or WatchRules()
        self._clock = clock
        self._log = LogReader(files.pane_log)
        self._trainer = LogReader(files.trainer_metrics)
        self._told: set[str] = set()
        self._told_errors: dict[str, None] = {}
        self._error_pause_ends = -math.inf
        self._held_error: Line | None = None
        self._next_disk_check = -math.inf
        self._events: list[Event] = []
        self._metrics_file: MetricsFile | None = None
        self._vitals = Vitals()
        self._health = LiveHealth(source.value, files.resources)
        words = self._rules.patterns.words()
        self._reads_every_line = words is None or (self._reads_rows and not finds_every_family())
        self._words = lines_to_read((*(words or ()), *ERROR_WORDS), self._reads_rows)
        self._reader = MetricReader(self._rules.patterns)
        self.rows, self._repeats = Rows(), Repeats()
        self.last_line = ""
        self.plateau: str | None = None

    def paths(self) -> list[Path]:
        """Return the files whose growth can bring events."""
        trainer = [self._files.trainer_metrics] if self._source == MetricSource.TRAINER else []
        return [self._files.pane_log, *trainer]

    @property
    def next_look(self) -> float | None:
        """When to poll again although none of these grows, in epoch seconds; None for never."""
        return self._other_rows.next_look if self._other_rows else None

    @property
    def bytes_read(self) -> int:
        """How much has been read so far, of all files."""
        return self._log.bytes_read + self._trainer.bytes_read

    @property
    def at_end(self) -> bool:
        """True if the last poll read everything there was."""
        return self._log.at_end and self._trainer.at_end

    def poll(self, final: bool = False) -> list[Event]:
        """Read what is new and return the events in it, oldest first; `final` also takes an unfinished last
        line."""
        events = self.poll_piece(final)
        while not self.at_end:
            events += self.poll_piece(final)
        return events

    def poll_piece(self, final: bool = False) -> list[Event]:
        """Like `poll`, but read at most PIECE_BYTES, so that the caller can do other things before the next
        piece; `at_end` says whether there is one."""
        self._events = []
        if self._metrics_file is None and self._files.dir.is_dir():
            self._metrics_file = MetricsFile(self._files.metrics)
        self._read_log(final)
        if self._source == MetricSource.TRAINER and self._log.at_end:
            self._read_trainer()
        if not self.at_end:
            return self._events
        self._read_other_rows(final)
        if final:
            self._tell_repeats(self._repeats.end())
        if self._metrics_file:
            self._metrics_file.publish()
        self._tell_held_error()
        self._check_time(final)
        self._check_disk()
        return self._events

    def fatal(self, now: float) -> tuple[str, ...]:
        """Say why the attempt cannot come to a good end, as far as polls have seen; empty while it may."""
        return (*self._health.fatal(), *self._vitals.fatal(now).values())

    def fatal_sign(self, now: float) -> FatalSign:
        """Return the kind of what `fatal` says: an error before a silence explains most."""
        signs = self._vitals.fatal(now)
        if "after_error" in signs:
            return "after_error"
        return "not_finite" if self._health.fatal() else next(iter(signs), "")

    def close(self) -> None:
        """Close metrics.jsonl."""
        if self._metrics_file:
            self._metrics_file.close()

    def _tell(self, kind: EventKind, text: str, **more: Any) -> None:
        self._events.append(Event(kind, self._clock(), text, **more))

    def _tell_once(self, kind: EventKind, text: str, key: str = "", **more: Any) -> None:
        """Tell, unless it has been told and not been taken back since."""
        if kind + key not in self._told:
            self._told.add(kind + key)
            self._tell(kind, text, **more)

    def _tell_alarm(self, alarm: Alarm) -> None:
        line = alarm.lines[0] if alarm.lines else None
        self._tell(alarm.kind, alarm.text, step=alarm.step, line_number=line, data=dict(alarm.data))

    # --- lines ----------------------------------------------------------------------------------------

    def _read_log(self, final: bool) -> None:
        restarts = self._log.restarts
        lines = self._log.pick(self._words, self._wants_every_line, final, PIECE_BYTES)
        if self._log.restarts != restarts and self._source == MetricSource.CONSOLE:
            self._start_again()
        for line in lines:
            self._look_at(line)
        if final and self._reads_rows and self._log.at_end:
            self._take_found(self._reader.end())
        self.last_line = self._log.last_text
        if self._log.at_end and not final:
            self._look_at_unfinished(self._log.unfinished_text())

    def _look_at_unfinished(self, text: str) -> None:
        """A training whose only line is a progress bar lives, although the line has not ended. Any other
        line may be torn."""
        if "%|" not in text:
            return
        self.last_line = text
        row = parse_line(text) if self._reads_rows and not self.rows.first_step_seen else None
        if row and proves_first_step(row, self._rules):
            self._first_step(f"first step: {text[-200:]}", row.step, None)

    def _wants_every_line(self) -> bool:
        return self._reads_every_line or self._vitals.error_stands or self._reader.wants_every_line

    def _look_at(self, line: Line) -> None:
        first_step = self._rules.patterns.first_step
        if first_step and not self.rows.first_step_seen and first_step.search(line.text):
            self._first_step(line.text[:LONGEST_TOLD], None, line.number)
        if self._reads_rows and (found := self._reader.read(line)):
            self._take_found(found)
            self._vitals.line(line)
            return
        if is_error(line.text):
            self._error(line)
        elif self._vitals.error_stands:
            self._vitals.line(line)

    def _error(self, line: Line) -> None:
        """Tell a new error at once, then hold back for a while: one failure prints many lines."""
        self._vitals.line(line)
        self._health.error()
        shape = re.sub(r"\d+", "0", line.text[:LONGEST_TOLD])[:200]
        if shape in self._told_errors:
            return
        if len(self._told_errors) >= MOST_SHAPES:
            del self._told_errors[next(iter(self._told_errors))]
        self._told_errors[shape] = None
        self._held_error = line
        self._tell_held_error()

    def _tell_held_error(self) -> None:
        """Tell the latest error not told yet, unless another was told a moment ago."""
        now = self._clock()
        line = self._held_error
        if line and now >= self._error_pause_ends:
            self._held_error = None
            self._error_pause_ends = now + ERROR_PAUSE_S
            self._tell("error_line", line.text[:LONGEST_TOLD], line_number=line.number, step=self.rows.step)

    # --- rows -----------------------------------------------------------------------------------------

    def _read_trainer(self) -> None:
        restarts = self._trainer.restarts
        lines = self._trainer.read(most_bytes=PIECE_BYTES)
        if self._trainer.restarts != restarts:
            self._start_again()
        for line in lines:
            try:
                row = row_from_object(json.loads(line.text))
            except ValueError:
                continue  # torn by a crash; the trainer's resume writes the step again
            if row:
                self._take(row, line.number)

    def _read_other_rows(self, final: bool) -> None:
        """Rows of files count while the log has brought none; the two are never mixed."""
        new = self._other_rows.look(final) if self._other_rows else None
        if new is None:
            return
        if new.restarts or not self.has_other_rows:
            self._start_again(new.rows[0][0] if new.rows else "")
        self.has_other_rows = True
        for file, line, row in new.rows:
            self._take(row, line, file)

    def _take_found(self, found: list[Found]) -> None:
        if found:
            self._leave_other_rows()
        for one in found:
            self._take(one.row, one.line, first_line=one.first_line)

    def _leave_other_rows(self) -> None:
        """The log has rows of its own."""
        if self.has_other_rows:
            self._start_again()
            self.has_other_rows = False
        self._other_rows = None

    def _start_again(self, file: str = "") -> None:
        """The source was rewritten (the trainer resumed), or is another `file`: so are the rows."""
        self.rows = Rows(first_step_seen=self.rows.first_step_seen)
        self._repeats = Repeats()
        self.plateau = None
        self._health.start_again(file)
        self._reader = MetricReader(self._rules.patterns)
        if self._metrics_file:
            self._metrics_file.close()
            self._metrics_file = MetricsFile(self._files.metrics)

    def _take(self, row: Row, number: int, file: str = "", first_line: int | None = None) -> None:
        rows = self.rows
        row = replace(row, values=row.named())
        has_pass_rate = rows.add(row)
        if self._metrics_file:
            first = number if first_line is None else first_line
            self._metrics_file.add(row, file or self._source.value, number, first)
        if not rows.first_step_seen and proves_first_step(row, self._rules):
            self._first_step(f"first step: {rows.where}", rows.step, number)
        self._tell_repeats(self._repeats.take(row, rows.axis.kind, rows.place or 0.0, number), number)
        self._check_finite(row, number)
        for alarm in self._health.row(row, number):
            self._tell_alarm(alarm)
        if has_pass_rate:
            self._check_plateau()

    def _tell_repeats(self, texts: Iterator[str], number: int | None = None) -> None:
        for text in texts:
            self._tell_once("two_values", text, text, step=self.rows.step, line_number=number)

    def _first_step(self, text: str, step: int | None, number: int | None) -> None:
        self.rows.first_step_seen = True
        self._tell("first_step", text, step=step, line_number=number)

    def _check_finite(self, row: Row, number: int) -> None:
        if all(map(math.isfinite, row.values.values())):
            return
        for name, value in row.values.items():
            if not math.isfinite(value) and MUST_BE_FINITE.search(name):
                text = f"{name} is {value} at {self.rows.where}"
                self._tell_once(
                    "nan", text, name, step=self.rows.step, line_number=number, data={"metric": name}
                )

    def _check_plateau(self) -> None:
        wanted = PLATEAU_EVALUATIONS
        scores = [score for _, score in self.rows.pass_rates]
        if not plateau(scores):
            self._told.discard("plateau")
            self.plateau = None
            return
        text = f"no validation of the last {wanted} was better than {max(scores[:-wanted]):.4g}"
        kind, recent = self.rows.axis.kind, self.rows.pass_rates[-wanted:]
        last = ", ".join(f"{score:.4g} at {place_text(kind, place)}" for place, score in recent)
        self.plateau = f"{text}: {last}"
        self._tell_once("plateau", text, step=self.rows.step, data={"scores": scores[-wanted - 1 :]})

    # --- clock and disk -------------------------------------------------------------------------------

    def _check_time(self, final: bool) -> None:
        info, now = self._files.supervisor(), self._clock()
        running_s = None if info is None else info.running_s(now)
        if running_s is None or final:
            return
        others = self._other_rows.paths() if self._other_rows else []
        paths = (*self.paths(), self._files.evaluation_log, *others)
        self._vitals.look(now, running_s, [_mark(path) for path in paths])
        for alarm in self._health.look(now, self.rows.count, self.rows.step):
            self._tell_alarm(alarm)
        limit = self._rules.first_step_timeout_s
        has_begun = self.rows.first_step_seen or self._files.evaluates()
        if running_s > limit and not has_begun:
            self._tell_once(
                "first_step_timeout", f"no first step within {limit:.0f} s", data={"limit_s": limit}
            )
        silent = self._vitals.silent_s(now)
        if silent > HANG_S:
            text = f"no output for {silent:.0f} s"
            self._tell_once("hang", text, step=self.rows.step, data={"silent_s": silent})
        else:
            self._told.discard("hang")

    def _check_disk(self) -> None:
        now = self._clock()
        if not self._files.dir.is_dir():
            if self._files.supervisor() is not None:
                self._tell_once("folder_gone", f"{self._files.dir} is gone; what runs in it goes on")
            return
        if now < self._next_disk_check:
            return
        self._next_disk_check = now + DISK_CHECK_S
        free = disk_free(self._files.dir)
        if free < DISK_LOW_BYTES:
            self._tell_once("disk_low", f"{free / 1e9:.2f} GB left on disk", data={"free_bytes": free})
        else:
            self._told.discard("disk_low")


def _mark(path: Path) -> tuple[int, int]:
    """What differs as soon as a file has been written to."""
    try:
        stat = path.stat()
    except OSError:
        return 0, 0
    return stat.st_size, stat.st_mtime_ns
