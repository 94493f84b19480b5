"""The words that the rooms of diagnosis share: what a log says (`Log` of `Fault`s), what may have caused it
(`Cause`), what comes out (`Diagnosis`)."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.attempt import NOTHING_FAILED, UNKNOWN, Cause, Diagnosis, Evidence, OtherFinding, Role
from monitors.log_prefixes import Level as Level
from monitors.logs import Line
from monitors.metrics import Row

__all__ = ["NOTHING_FAILED", "UNKNOWN", "Cause", "Diagnosis", "Evidence", "OtherFinding", "Role"]
_LIBRARIES = ("site-packages", "dist-packages", "/usr/lib/python", "lib/python3", "<frozen")
FAULTS: tuple[Level, ...] = ("error", "fatal")
"""Levels that are a fault by themselves."""
LINES_OF_AN_END = 3
_CARRIERS = ("ChildFailedError", "ProcessRaisedException")  # of torch's launchers, where nothing is in them
_COMPILED = (".pyx", ".pxi", ".pxd")  # what Cython compiled; the frames of a library name no folder of it
_LINE_NUMBER = re.compile(r"\bline (\d+)|:(\d+),? in ")


@dataclass(frozen=True)
class Frame:
    """One frame of a traceback. `line`: number of its `File "…"` line in the log; `code` is the source shown
    below it, "" where there is none."""

    line: int
    text: str
    path: str
    function: str
    code: str = ""

    @property
    def place(self) -> str:
        """Such as `train.py, line 12`."""
        number = _LINE_NUMBER.search(self.text)
        return f"{self.path}, line {number[1] or number[2]}" if number else self.path

    @property
    def stated(self) -> str:
        """As Python states it, whoever printed it."""
        if self.text.startswith('File "'):
            return self.text
        number = _LINE_NUMBER.search(self.text)
        return f'File "{self.path}", line {number[1] or number[2] if number else 0}, in {self.function}'


@dataclass(frozen=True)
class Fault:
    """One thing that went wrong, as one place of a log tells it.

    `lines`: the line that names it first (an exception's own line, never its frames), then those that belong
    to its message, as the log has them; `said` are the same without prefixes such as Ray's or a rank's.
    `type`: the exception with its module, "" for a plain line. `frames`: outermost first. `source`: who
    printed it ("rank 3", "WorkerDict pid=1210"), "" where that is not known. `chain`: faults with the same
    number (never 0) are one chain of exceptions, `depth` 0 is its root; 0 stands for no chain. `wrapped_in`:
    exceptions that only carried it, such as RayTaskError. `handled`: the text says that it was caught or
    ignored ("Exception ignored in", retried). `uncaught`: it ended a process (its frames begin at <module>
    or a worker's main). `before`: the lines above it, and `after` those below. `count`, `last`: how often
    its like was printed, and the number of the last such line.
    """

    lines: tuple[Line, ...]
    said: tuple[str, ...]
    type: str = ""
    frames: tuple[Frame, ...] = ()
    level: Level = "error"
    source: str = ""
    chain: int = 0
    depth: int = 0
    wrapped_in: tuple[str, ...] = ()
    handled: bool = False
    uncaught: bool = False
    before: tuple[Line, ...] = ()
    after: tuple[Line, ...] = ()
    count: int = 1
    last: int = 0

    @property
    def line(self) -> int:
        """The number of the line that names it."""
        return self.lines[0].number

    @property
    def reaches(self) -> int:
        """The number of the last line that is its own, or of the last of its like."""
        own = self.lines if self.type else self.lines[:1]
        return max(self.last, *(line.number for line in own), *(frame.line for frame in self.frames))

    @property
    def is_of_several_processes(self) -> bool:
        """True if who printed it is told, or another process carried it."""
        return bool(self.source or self.wrapped_in) or self.type.endswith(_CARRIERS)

    @cached_property
    def message(self) -> str:
        """What was said, without prefixes; an exception's type stands in it."""
        return "\n".join(self.said)

    @cached_property
    def trace(self) -> str:
        """The frames with their code, one per line, outermost first."""
        return "\n".join(part for frame in self.frames for part in (frame.stated, frame.code) if part)

    @cached_property
    def own_frame(self) -> Frame | None:
        """The innermost frame in the author's own code; None where there is none."""
        own = (frame for frame in reversed(self.frames) if not frame.path.startswith("<"))
        own = (frame for frame in own if not frame.path.endswith(_COMPILED))
        return next((frame for frame in own if not any(part in frame.path for part in _LIBRARIES)), None)


@dataclass(frozen=True)
class SeenRow:
    """A metric row of the log, and where it stands."""

    line: Line
    row: Row


@dataclass(frozen=True)
class Log:
    """What reading left of a log, however long it is: bounded memory.

    `faults`: in the order of their lines. `rows`: metric rows, all of them in a short log, evenly thinned out
    in a long one; `rows_file` names the file they stand in where it is not the log. `last`: the last lines
    that say something.
    """

    path: Path
    faults: tuple[Fault, ...] = ()
    rows: tuple[SeenRow, ...] = ()
    rows_file: str = ""
    last: tuple[Line, ...] = ()
    line_count: int = 0
    size: int = 0

    @property
    def ends_in_trouble(self) -> bool:
        """True if an error that nobody got over reaches into the last lines; most failed trainings' do."""
        first = self.last[-LINES_OF_AN_END:][0].number if self.last else 0
        return any(
            fault.reaches >= first for fault in self.faults if not fault.handled and fault.level in FAULTS
        )
