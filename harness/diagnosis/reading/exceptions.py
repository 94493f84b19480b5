"""One exception as far as it is read: its frames, its name, its message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.diagnosis.reading import traceback_lines as lines
from harness.diagnosis.reading.context_windows import RawLine
from harness.diagnosis.reading.faults import Draft
from harness.diagnosis.reading.severity import is_handled, severity
from harness.diagnosis.types import Frame
from monitors.log_prefixes import Said, said
from monitors.logs import is_progress_bar
from monitors.metrics.parser import parse_line

LINES_OF_A_FRAME = 4
MOST_LINES = 12
MOST_OF_A_WRAPPER = 200  # what it says before it comes to the root cause
_MAIN = re.compile(
    r"^(?:<module>|_run_module_as_main|_bootstrap|_bootstrap_inner|spawn_main|_worker_loop|main_loop"
    r"|run_engine_core|worker_main|worker_busy_loop|default_worker)$"
)
_OF_A_CELL = re.compile(r"^<(?:module|cell line: \d+)>(?:\(\))?$")
_TOOL = re.compile(r"^(?:wandb|swanlab|srun|slurmstepd|bash|make|\+|\$|root@\S+):? ")
_NOTICES = re.compile(
    r"^(?:\[[a-z][\w.-]{1,30}\] \S|\w*Warning: |.*\bNCCL INFO |huggingface/tokenizers: "
    r"|Token indices sequence length )"
)
_NO_MESSAGES = (_TOOL, lines.HANDLED_HEAD, lines.ANNOUNCES, lines.STACK, lines.WARNS, lines.CURRENT_STACK)
_FAILED = re.compile(r"(?i)fail|error|exception|could ?n[o']t|unable|cannot")
_AFTER_A_BLANK = re.compile(
    r"\b[45]\d\d (?:Client|Server) Error|: Exception encountered when calling \S+\(\)\.$"
    r"|: (?:Graph execution error|in user code):$"
)


@dataclass
class OpenException:
    """An exception whose end was not read yet. `head`: of the log record that it stands in, whose level may
    be `mild`; `got_over`, `warned_of`: what the line above it says; `indent`: of its own first column;
    `adjacent`: the line before was one of its own; `wrapped`: exceptions that carry the one to come, the
    first of them kept as `carrier`; `waited`: lines of others since."""

    header: RawLine | None = None
    head: str = ""
    mild: bool = False
    got_over: bool = False
    warned_of: bool = False
    indent: int = 0
    frames: list[Frame] = field(default_factory=list)
    wants_code: bool = False
    marks_code: bool = False
    adjacent: bool = False
    wrapped: list[str] = field(default_factory=list)
    carrier: Draft | None = None
    draft: Draft | None = None
    before: tuple[RawLine, ...] = ()
    waited: int = 0

    def dedented(self, text: str) -> str:
        """A line without the traceback's own indentation."""
        return text.lstrip() if text[: self.indent].strip() else text[self.indent :]

    def add_frame(self, raw: RawLine, found: re.Match[str], marks_code: bool = False) -> None:
        """Add a frame; the first one tells how far the traceback is indented. `marks_code`: of the lines of
        its source that follow, a mark tells the one."""
        if not self.frames and "lead" in found.groupdict():
            self.indent = max(0, len(found["lead"]) - 2)
        self.frames.append(frame_of(raw, found))
        self.wants_code = self.adjacent = True
        self.marks_code = marks_code

    def add_code(self, text: str) -> None:
        """The source of the last frame; of several lines the first."""
        if self.wants_code and self.frames and (code := text.strip()):
            last = self.frames[-1]
            self.frames[-1] = Frame(last.line, last.text, last.path, last.function, code)
            self.wants_code = False

    def name(
        self, raw: RawLine, body: str, type: str, source: str, groups: Sequence[str], handled: bool
    ) -> Draft:
        """The line that names the exception."""
        self.draft = draft = self._draft(raw, body, source, handled or self.mild or self.got_over)
        draft.type, draft.wrapped_in = type, [*groups, *self.wrapped]
        ends = bool(self.wrapped) or any(_MAIN.match(frame.function) for frame in self.frames[:2])
        draft.uncaught = ends and not handled
        draft.handled = draft.handled or (self.warned_of and not draft.uncaught)
        draft.heralded = not (handled or self.mild or self.got_over)
        self.frames, self.waited = [], 0
        return draft

    def unwrap(self) -> None:
        """What was read so far only carries the exception that follows."""
        if self.draft is not None:
            self.wrapped.append(self.draft.type)
            self.carrier = self.carrier or self.draft
        self.draft, self.frames, self.wants_code = None, [], False

    def is_cut(self, last: int) -> bool:
        """True if it may go on below the line `last`."""
        return bool(self.frames) and self.frames[-1].line > last - LINES_OF_A_FRAME

    def found(self, source: str, handled: bool) -> Draft | None:
        """What was read: the exception, else what should have carried it, else that a traceback began."""
        if self.draft or self.carrier or not self.frames or self.header is None:
            return self.draft or self.carrier
        return self._draft(
            self.header, lines.HEADER, source, handled or self.mild or self.got_over or self.warned_of
        )

    def _draft(self, raw: RawLine, said: str, source: str, handled: bool) -> Draft:
        return Draft(raw, [raw.line], [said], source, frames=self.frames, handled=handled, before=self.before)

    # --- its message ------------------------------------------------------------------------------------

    @property
    def is_carrier(self) -> bool:
        """True if it says that it stands for another one."""
        return self.draft is not None and lines.carries(self.draft.type, self.draft.said[0])

    @property
    def is_of_user_code(self) -> bool:
        """True if Keras wraps in it what the author's own code raised."""
        wrapper = self.draft or self.carrier
        return wrapper is not None and wrapper.said[0].endswith(": in user code:")

    @property
    def is_full(self) -> bool:
        """True if its message has as many lines as are kept."""
        most = MOST_OF_A_WRAPPER if self.draft and lines.carries(self.draft.type, "") else MOST_LINES
        return self.draft is not None and len(self.draft.said) >= most

    @property
    def goes_on_after_a_blank(self) -> bool:
        """True if its message is known to say the more important part below an empty line."""
        return self.draft is not None and (
            len(self.draft.said) == 1 and _AFTER_A_BLANK.search(self.draft.said[0]) is not None
        )

    def add(self, raw: RawLine, body: str) -> None:
        """Add a line to the message; what torchrun lists above the root cause goes."""
        assert self.draft is not None
        if body.startswith("Root Cause (first observed failure)"):
            del self.draft.lines[2:], self.draft.said[2:]
        self.draft.lines.append(raw.line)
        self.draft.said.append(body)

    def excludes(self, line: Said, body: str) -> bool:
        """True if a line below is no part of the message."""
        if body[:1].isspace():
            return False
        is_other = any(pattern.match(body) for pattern in _NO_MESSAGES) or is_notice(body)
        return is_other or is_handled(body) or self._fails_too(line) or is_progress(body)

    def _fails_too(self, line: Said) -> bool:
        """True if a line tells a failure of its own: one of the system, or an error right below a message
        that seems complete."""
        if line.is_record:  # all lines of the message stand in log records of one level
            return False
        level = severity(line)
        if level != "error" or self.draft is None:
            return level == "fatal"
        expects_more = self.draft.said[-1].rstrip().endswith(":") or self.goes_on_after_a_blank
        return len(self.draft.said) == 1 and not expects_more


def frame_of(raw: RawLine, found: re.Match[str]) -> Frame:
    """The frame that a line names."""
    function = _OF_A_CELL.sub("<module>", found["function"] or "")
    if found["path"].startswith("Cell In") and not function:
        function = "<module>"
    return Frame(raw.number, found[0].strip(), found["path"], function)


def is_notice(text: str) -> bool:
    """True if a line only informs or warns, and so belongs to no message."""
    return _NOTICES.match(text) is not None


def is_progress(text: str) -> bool:
    """True if a line tells of a training that goes on: a progress bar or a row of metrics."""
    return is_progress_bar(text) or parse_line(text) is not None


def heralds(above: RawLine, source: str) -> tuple[bool, bool]:
    """True if the line right above a traceback is a log record that says: what it prints was got over;
    one that only informs speaks of something else. And true if that line only warns of a failure."""
    record = said(above.text)
    if record.source != source:
        return False, False
    warns = record.level == "warning" and _FAILED.search(record.text) is not None
    return record.is_record and record.level != "info" and is_handled(record.text), warns
