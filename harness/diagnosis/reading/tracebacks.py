"""The tracebacks of one source, put together line by line.

Of exceptions the true ones are given: those that only carry another stand in `wrapped_in`; chains are linked,
root first. The state is the method that reads the next line; each returns False where the line belongs to no
traceback.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

from harness.diagnosis.reading import traceback_lines as lines
from harness.diagnosis.reading.chains import Chains
from harness.diagnosis.reading.context_windows import RawLine
from harness.diagnosis.reading.exceptions import OpenException, frame_of, heralds, is_progress
from harness.diagnosis.reading.faults import Draft
from harness.diagnosis.reading.severity import is_quoted, opens_output
from monitors.log_prefixes import Said

MOST_STRAY = 40  # lines of others inside a traceback
MOST_WAIT = 4  # lines between the links of a chain
MOST_CARRIED_WAIT = 16  # lines between a carrier and the traceback in it
State = Callable[[RawLine, Said, str], bool]
Taker = Callable[[Draft], None]


class Tracebacks:
    """The tracebacks of one source. `named` gets each exception when its line is read, `emit` once its chain
    is complete; `above` holds the lines before the present one; `crashed` gets the frames of a stack that
    the interpreter dumps."""

    def __init__(self, source: str, above: deque[RawLine], named: Taker, emit: Taker) -> None:
        self.source = source
        self.crashed: Draft | None = None
        self._state: State = self._idle
        self._named = named
        self._above = above
        self._chains = Chains(emit)
        self._now = OpenException()
        self._handled_next = False
        self._dumped = False
        self._boxed = False
        self._lead = ""

    @property
    def is_idle(self) -> bool:
        return self._state == self._idle and not (self._handled_next or self._chains.in_group)

    def take(self, raw: RawLine, said: Said) -> bool:
        """Read a line; False where it belongs to no traceback."""
        text = self._unboxed(said.text)
        if text is None:
            return True
        text = text.removeprefix(self._lead)  # a prefix that only the launcher of this traceback knows
        header = lines.BEGINS.match(text) if lines.TRACEBACK in text else None
        if self._state != self._idle and said.is_record and said.head != self._now.head:
            if self._state == self._in_frames and not header:
                return self._stray(MOST_STRAY)
            self.finish()
        if header:
            return self._begin(raw, said, header)
        if self._state not in (self._in_frames, self._in_stack) and (frame := lines.FRAME.match(text)):
            return self._first_frame(raw, said, frame)
        return self._state(raw, said, text)

    def finish(self, cut_after: int | None = None) -> None:
        """Take what there is as complete: the next line is somebody else's, or there is none. `cut_after`:
        the line after which lines were left out; a traceback that goes on there is not unfinished."""
        if cut_after is not None and self._now.is_cut(cut_after):
            self._now.frames = []
        self._close()
        self._chains.flush()
        self._handled_next = self._boxed = False
        self._lead = ""
        self._state = self._idle

    def _unboxed(self, text: str) -> str | None:
        """A line without the box of an exception group or of Rich; None where it was nothing but a box."""
        if lines.TRACEBACK in text and (header := lines.GROUP_HEADER.match(text)):
            self._leave_groups(len(header["indent"]))
            self._boxed = True
            return lines.HEADER
        if self._boxed:
            if rule := lines.GROUP_RULE.match(text):
                self._cross(rule)
                return None
            if box := lines.GROUP_BOX.match(text):
                self._leave_groups(len(box["indent"]))
                return box["rest"] or ""
            if text.strip():
                self._leave_groups(0)
                self._boxed = False
        return lines.out_of_rich_box(text)

    def _cross(self, rule: re.Match[str]) -> None:
        """A line between the parts of an exception group, or below them."""
        column, ends = len(rule["indent"]), rule["index"] is None
        if rule["opens"]:
            self._chains.open_group(column + 2, self._now.draft)
        else:
            self._close()
            self._chains.leave(column - ends)
        self._now, self._state = OpenException(), self._ended if ends else self._idle

    def _leave_groups(self, column: int) -> None:
        """What follows stands in this column, outside of the groups whose parts stand further in."""
        if self._chains.is_within(column):
            self._close()
            self._chains.leave(column)
            self._now, self._state = OpenException(), self._ended

    def _idle(self, raw: RawLine, said: Said, text: str) -> bool:
        """Nothing."""
        handled = lines.HANDLED_HEAD.match(text) is not None
        if handled or lines.ANNOUNCES.match(text):
            self._handled_next = self._handled_next or handled
            return True
        if lines.STACK.match(text) or lines.CURRENT_STACK.match(text):
            return self._in_stack(raw, said, text)
        in_group = self._chains.in_group
        if (raw.hit or in_group) and (type := lines.exception_type(text, in_group, in_group)):
            self._now = OpenException()
            return self._name(raw, text, type, said)
        self._handled_next = self._handled_next and not text
        return in_group

    def _in_frames(self, raw: RawLine, said: Said, text: str) -> bool:
        """A frame, its code, or the exception."""
        now = self._now
        if (stated := self._in_user_code(raw, text)) is not None:
            return stated
        if frame := lines.FRAME.match(text):
            now.add_frame(raw, frame)
            return True
        if frame := lines.RICH_FRAME.match(text) or lines.NOTEBOOK_FRAME.match(text):
            now.add_frame(raw, frame, marks_code=True)
            return True
        body = now.dedented(text)
        if not body.strip() or lines.NO_CODE.match(text) or lines.INTRODUCTION.match(body):
            return True
        if now.marks_code and (code := lines.MARKED_CODE.match(body) or lines.NUMBERED_CODE.match(body)):
            now.add_code(code.groupdict().get("code", ""))
            return True
        is_code = body[0].isspace()
        if not is_code and (type := lines.exception_type(body, after_frames=True, at_once=now.adjacent)):
            return self._name(raw, body, type)
        if is_code or (now.wants_code and not is_progress(body)):
            now.add_code(body)
            return True
        return self._stray(MOST_STRAY)

    def _in_message(self, raw: RawLine, said: Said, text: str) -> bool:
        """More of an exception's message."""
        now = self._now
        body = now.dedented(text)
        if (stated := self._in_user_code(raw, body)) is not None:
            return stated
        if lines.MARKS.match(body) or (not body.strip() and now.goes_on_after_a_blank):
            return True
        if not body.strip() or lines.QUOTES.match(body):
            now.waited = 0
            self._state = self._in_carried if now.is_carrier else self._ended
            return now.is_carrier or self._ended(raw, said, body)
        if lines.INTRODUCTION.match(body):
            now.unwrap()
            self._state = self._in_carried
            return True
        if (linked := self._linked_by(raw, said, body)) is not None:
            return linked
        if now.is_full or now.excludes(said, body):
            return self._of_another(raw, said, text)
        now.add(raw, body)
        return True

    def _in_user_code(self, raw: RawLine, body: str) -> bool | None:
        """The exception at the end of what Keras calls user code; None for any other line."""
        stated = lines.INDENTED_EXCEPTION.match(body) if self._now.is_of_user_code else None
        type = lines.exception_type(stated["exception"]) if stated else None
        if stated is None or type is None:
            return None
        if self._now.draft is not None:
            self._now.unwrap()
        return self._name(raw, stated["exception"], type)

    def _in_carried(self, raw: RawLine, said: Said, text: str) -> bool:
        """The traceback that an exception carries."""
        body = self._now.dedented(text)
        if (linked := self._linked_by(raw, said, body)) is not None:
            return linked
        self._now.waited += 1
        is_over = self._now.waited > MOST_CARRIED_WAIT or self._now.excludes(said, body)
        return not is_over or self._of_another(raw, said, text)

    def _ended(self, raw: RawLine, said: Said, text: str) -> bool:
        """A blank, or words that link a chain."""
        if (stated := self._in_user_code(raw, text)) is not None:
            return stated
        self._now.waited += 1
        if lines.QUOTES.match(text):
            self._now.wrapped = []  # the end of what a remote traceback carried
            return True
        if not text.strip():
            if self._now.waited > MOST_WAIT:
                self.finish()
            return True
        if lines.CHAIN.match(text):
            return self._link()
        if self._now.draft and lines.INTRODUCTION.match(text):
            self._state = self._in_carried
            return True
        return self._of_another(raw, said, text)

    def _linked(self, raw: RawLine, said: Said, text: str) -> bool:
        """The next traceback of a chain."""
        if not text.strip() or lines.INTRODUCTION.match(text):
            return True
        if type := lines.exception_type(text):
            return self._name(raw, text, type, said)
        return self._stray(MOST_WAIT)

    def _in_stack(self, raw: RawLine, said: Said, text: str) -> bool:
        """A frame of a stack that is no exception's; of those that a crash dumps, one thread's counts."""
        if lines.STACK.match(text) or lines.CURRENT_STACK.match(text):
            self._state, self._dumped = self._in_stack, text.startswith("Current thread")
            return True
        if frame := lines.FRAME.match(text):
            if self.crashed is not None and self._dumped:
                self.crashed.frames.insert(0, frame_of(raw, frame))
            return True
        if not text or text[0].isspace() or text.startswith(("Message:", "Arguments:")):
            return True
        self._state, self.crashed = self._idle, None
        return self._idle(raw, said, text)

    def _begin(self, raw: RawLine, said: Said, header: re.Match[str]) -> bool:
        """A traceback's first line: a new one, the next of a chain, or the one that an exception carries."""
        draft, lead = self._now.draft, header["lead"]
        carries = draft and (lines.carries(draft.type, "") or lines.INTRODUCTION.match(said.text))
        if carries or self._state == self._in_carried:
            self._now.unwrap()
        elif self._state != self._linked:
            self._close()
            if not self._chains.in_group:
                self._chains.flush()
            self._now = OpenException()
        self._open(said)
        self._lead = lead if lead.strip() else ""
        self._handled_next = self._handled_next or is_quoted(lead)
        self._now.indent = len(lead) if lead.isspace() else 0
        self._now.header = raw
        return True

    def _first_frame(self, raw: RawLine, said: Said, frame: re.Match[str]) -> bool:
        """A frame without the header of a traceback: a new one, the next of a chain, or a carried one."""
        if self._state == self._ended:
            self.finish()
        if self._state == self._idle:
            self._now = OpenException()
        if self._state != self._linked:
            self._now.unwrap()
        self._open(said)
        self._now.add_frame(raw, frame)
        return True

    def _open(self, said: Said) -> None:
        now = self._now
        now.head, now.mild = said.head, said.level in ("info", "warning")
        now.before = now.before or tuple(self._above)
        now.adjacent, now.warned_of = True, False
        if self._above:
            got_over, now.warned_of = heralds(self._above[-1], self.source)
            now.got_over = now.got_over or got_over
            self._handled_next = self._handled_next or opens_output(self._above[-1].text)
        self._state = self._in_frames

    def _stray(self, most: int) -> bool:
        """One more line of others; too many of them end the traceback."""
        self._now.adjacent = False
        self._now.waited += 1
        if self._now.waited > most:
            self.finish()
        return False

    def _of_another(self, raw: RawLine, said: Said, text: str) -> bool:
        self.finish()
        return self._idle(raw, said, text)

    def _linked_by(self, raw: RawLine, said: Said, body: str) -> bool | None:
        """Words that link a chain, or an exception below another one; None for any other line."""
        if lines.CHAIN.match(body):
            return self._link()
        type = lines.exception_type(body)
        if type is None:
            return None
        if self._now.draft is not None and not self._now.is_carrier:
            self.finish()
            self._now = OpenException()
        self._now.unwrap()
        return self._name(raw, body, type, said)

    def _name(self, raw: RawLine, body: str, type: str, said: Said | None = None) -> bool:
        """An exception's line; `said` where no frames stand above it."""
        if said is not None:
            self._open(said)
        self._named(self._now.name(raw, body, type, self.source, self._chains.groups, self._handled_next))
        self._state = self._in_message
        return True

    def _link(self) -> bool:
        now = self._now
        self._close()
        self._chains.link()
        self._now = OpenException(before=now.before, wrapped=now.wrapped, got_over=now.got_over)
        self._state = self._linked
        return True

    def _close(self) -> None:
        if self._state != self._idle and (found := self._now.found(self.source, self._handled_next)):
            self._chains.add(found)
        self._now.draft = self._now.carrier = None
        self._now.frames = []
