"""A traceback as far as it is read. In: its lines. Out: the `Draft` of its exception."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from harness.diagnosis.reading.faults import Draft
from harness.diagnosis.reading.zones import RawLine
from harness.diagnosis.types import Frame

HEADER = "Traceback (most recent call last):"
LINES_OF_A_FRAME = 4
_MAIN = re.compile(
    r"^(?:<module>|_run_module_as_main|_bootstrap|_bootstrap_inner|spawn_main|_worker_loop|main_loop"
    r"|run_engine_core|worker_main|worker_busy_loop|default_worker)$"
)


@dataclass
class Partial:
    """`head`: of the log record that it stands in, whose level may be `mild`; `warned_of`: by the line above
    it; `indent`: of its own first column; `adjacent`: the line before was one of its own; `wrapped`:
    exceptions that carry the one to come, the first of them kept as `carrier`; `waited`: lines of others
    since."""

    header: RawLine | None = None
    head: str = ""
    mild: bool = False
    warned_of: bool = False
    indent: int = 0
    frames: list[Frame] = field(default_factory=list)
    wants_code: bool = False
    adjacent: bool = False
    wrapped: list[str] = field(default_factory=list)
    carrier: Draft | None = None
    exception: Draft | None = None
    before: tuple[RawLine, ...] = ()
    waited: int = 0

    def dedented(self, text: str) -> str:
        """A line without the traceback's own indentation."""
        return text.lstrip() if text[: self.indent].strip() else text[self.indent :]

    def add_frame(self, raw: RawLine, found: re.Match[str]) -> None:
        """Add a frame; the first one tells how far the traceback is indented."""
        if not self.frames and "lead" in found.groupdict():
            self.indent = max(0, len(found["lead"]) - 2)
        self.frames.append(frame_of(raw, found))
        self.wants_code = self.adjacent = True

    def add_code(self, text: str) -> None:
        """The source of the last frame; of several lines the first."""
        if self.wants_code and self.frames and (code := text.strip()):
            self.frames[-1] = replace(self.frames[-1], code=code)
            self.wants_code = False

    def name(
        self, raw: RawLine, body: str, type: str, source: str, groups: Sequence[str], handled: bool
    ) -> Draft:
        """The line that names the exception."""
        uncaught = bool(self.wrapped) or any(_MAIN.match(frame.function) for frame in self.frames[:2])
        self.exception = Draft(
            raw,
            [raw.line],
            [body],
            source=source,
            type=type,
            frames=self.frames,
            wrapped_in=[*groups, *self.wrapped],
            handled=handled or self.mild or (self.warned_of and not uncaught),
            uncaught=uncaught,
            before=self.before,
        )
        self.frames, self.waited = [], 0
        return self.exception

    def unwrap(self) -> None:
        """What was read so far only carries the exception that follows."""
        if self.exception is not None:
            self.wrapped.append(self.exception.type)
            self.carrier = self.carrier or self.exception
        self.exception, self.frames, self.wants_code = None, [], False

    def is_cut(self, last: int) -> bool:
        """Whether it may go on below the line `last`."""
        return bool(self.frames) and self.frames[-1].line > last - LINES_OF_A_FRAME

    def found(self, source: str, handled: bool) -> Draft | None:
        """What was read: the exception, else what should have carried it, else that a traceback began."""
        if self.exception or self.carrier or not self.frames or self.header is None:
            return self.exception or self.carrier
        return Draft(
            self.header,
            [self.header.line],
            [HEADER],
            source=source,
            frames=self.frames,
            before=self.before,
            handled=handled or self.mild or self.warned_of,
        )


def frame_of(raw: RawLine, found: re.Match[str]) -> Frame:
    """The frame that a line names."""
    return Frame(raw.number, found[0].strip(), found["path"], found["function"] or "")
