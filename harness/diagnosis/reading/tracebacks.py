"""The tracebacks of one source, put together line by line.

In: the lines of one source without prefixes. Out: `Draft`s of exceptions, the true ones: those that only
carry another stand in `wrapped_in`; chains are linked, root first.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from enum import Enum

from harness.diagnosis.reading import carriers, messages, shapes
from harness.diagnosis.reading.chains import Chains
from harness.diagnosis.reading.faults import Draft
from harness.diagnosis.reading.native import CURRENT_STACK, is_quoted
from harness.diagnosis.reading.partial import HEADER, Partial, frame_of
from harness.diagnosis.reading.prefixes import Said
from harness.diagnosis.reading.zones import RawLine

MOST_STRAY = 40  # lines of others inside a traceback
MOST_WAIT = 4  # lines between the links of a chain
MOST_CARRIED_WAIT = 16  # lines between a carrier and the traceback in it


class State(Enum):
    """What the next line of a source is expected to be."""

    IDLE = "nothing"
    FRAMES = "a frame, its code, or the exception"
    MESSAGE = "more of an exception's message"
    CARRIED = "the traceback that an exception carries"
    ENDED = "a blank, or words that link a chain"
    LINKED = "the next traceback of a chain"
    STACK = "a frame of a stack that is no exception's"


class Tracebacks:
    """The tracebacks of one source. `named` gets each exception when its line is read, `emit` once its chain
    is complete; `above` holds the lines before the present one; `crashed` gets the frames of a stack that
    the interpreter dumps."""

    def __init__(
        self,
        source: str,
        above: deque[RawLine],
        named: Callable[[Draft], None],
        emit: Callable[[Draft], None],
    ) -> None:
        self.source = source
        self.state = State.IDLE
        self.crashed: Draft | None = None
        self._named = named
        self._above = above
        self._chains = Chains(emit)
        self._now = Partial()
        self._handled_next = False
        self._dumped = False
        self._boxed = False
        self._lead = ""
        self._steps = {
            State.IDLE: self._idle,
            State.FRAMES: self._in_frames,
            State.MESSAGE: self._in_message,
            State.CARRIED: self._in_carried,
            State.ENDED: self._ended,
            State.LINKED: self._linked,
            State.STACK: self._in_stack,
        }

    @property
    def is_idle(self) -> bool:
        return self.state is State.IDLE and not (self._handled_next or self._chains.in_group)

    def take(self, raw: RawLine, said: Said) -> bool:
        """Read a line; False where it belongs to no traceback."""
        text = self._unboxed(said.text)
        if text is None:
            return True
        text = self._without_lead(text)
        header = carriers.HEADER.match(text)
        if self.state is not State.IDLE and said.is_record and said.head != self._now.head:
            if self.state is State.FRAMES and not header:
                return self._stray()
            self.finish()
        if header:
            self._begin(raw, said, header)
            return True
        return self._steps[self.state](raw, said, text)

    def finish(self, cut_after: int | None = None) -> None:
        """Take what there is as complete: the next line is somebody else's, or there is none. `cut_after`:
        the line after which lines were left out; a traceback that goes on there is not told as unfinished."""
        if cut_after is not None and self._now.is_cut(cut_after):
            self._now.frames = []
        self._close()
        self._chains.flush()
        self._handled_next = self._boxed = False
        self._lead = ""
        self.state = State.IDLE

    def _without_lead(self, text: str) -> str:
        """A line without what stands before every line of this traceback: a prefix that only its launcher
        knows."""
        return text[len(self._lead) :] if text.startswith(self._lead) else text

    # --- boxes around tracebacks ------------------------------------------------------------------------

    def _unboxed(self, text: str) -> str | None:
        """A line without the box of an exception group or of Rich; None where it was nothing but a box."""
        if header := shapes.GROUP_HEADER.match(text):
            self._leave_groups(len(header["indent"]))
            self._boxed = True
            return HEADER
        if self._boxed:
            if rule := shapes.GROUP_RULE.match(text):
                self._cross(rule)
                return None
            if box := shapes.GROUP_BOX.match(text):
                self._leave_groups(len(box["indent"]))
                return box["rest"] or ""
            if text.strip():
                self._leave_groups(0)
                self._boxed = False
        if text[:1] in ("╭", "│", "╰", " ") and (box := shapes.RICH_BOX.match(text)):
            return _out_of_rich(text, box)
        return text

    def _cross(self, rule: re.Match[str]) -> None:
        """A line between the parts of an exception group, or below them."""
        column, ends = len(rule["indent"]), rule["index"] is None
        if rule["opens"]:
            group, self._now.exception = self._now.exception, None
            self._chains.open_group(column + 2, group)
        else:
            self._close()
            self._chains.next_part(column)
            if ends:
                self._chains.leave(column - 1)
        self._now = Partial()
        self.state = State.ENDED if ends else State.IDLE

    def _leave_groups(self, column: int) -> None:
        """What follows stands in this column, outside of the groups whose parts stand further in."""
        if self._chains.is_within(column):
            self._close()
            self._chains.leave(column)
            self._now = Partial()
            self.state = State.ENDED

    # --- one method for each state ----------------------------------------------------------------------

    def _idle(self, raw: RawLine, said: Said, text: str) -> bool:
        if shapes.HANDLED_HEAD.match(text):
            self._handled_next = True
            return True
        if shapes.ANNOUNCES.match(text):
            return True
        if frame := shapes.FRAME.match(text):
            self._now = Partial()
            return self._first_frame(raw, said, frame)
        if shapes.STACK.match(text) or CURRENT_STACK.match(text):
            return self._begin_stack(text)
        in_group = self._chains.in_group
        if (raw.hit or in_group) and (type := shapes.exception_type(text, in_group, in_group)):
            self._now = Partial()
            return self._name(raw, said, text, type)
        if text:
            self._handled_next = False
        return in_group

    def _in_frames(self, raw: RawLine, said: Said, text: str) -> bool:
        now = self._now
        if frame := shapes.FRAME.match(text) or shapes.RICH_FRAME.match(text):
            now.add_frame(raw, frame)
            return True
        body = now.dedented(text)
        if not body.strip() or shapes.MARKS.match(text) or shapes.REPEATED.match(text):
            return True
        if shapes.LEFT_OUT.match(text) or carriers.introduces(body):
            return True
        rich = shapes.RICH_CODE.match(body)
        if body[0].isspace() or rich:
            now.add_code(rich["code"] if rich else body)
            return True
        if type := shapes.exception_type(body, after_frames=True, at_once=now.adjacent):
            self._take_name(raw, body, type)
            return True
        if now.wants_code and not messages.is_progress(body):
            now.add_code(body)
            return True
        return self._stray()

    def _in_message(self, raw: RawLine, said: Said, text: str) -> bool:
        exception = self._now.exception
        assert exception is not None
        if frame := shapes.FRAME.match(text):
            self._now.unwrap()
            return self._first_frame(raw, said, frame)
        body = self._now.dedented(text)
        if not body.strip() or carriers.is_quotes(body):
            if not body.strip() and messages.goes_on_after_a_blank(exception):
                return True
            carried = carriers.carries(exception.type, exception.said[0])
            self.state, self._now.waited = State.CARRIED if carried else State.ENDED, 0
            return carried or self._ended(raw, said, body)
        if shapes.MARKS.match(text) or messages.is_rule(body):
            return True
        if carriers.introduces(body):
            self._now.unwrap()
            self.state = State.CARRIED
            return True
        if shapes.CHAIN.match(body):
            return self._link()
        if type := shapes.exception_type(body):
            return self._next_name(raw, said, body, type)
        if messages.is_full(exception) or messages.is_anothers(exception, said, body):
            self.finish()
            return self._idle(raw, said, text)
        messages.add(exception, raw, body)
        return True

    def _in_carried(self, raw: RawLine, said: Said, text: str) -> bool:
        if frame := shapes.FRAME.match(text):
            self._now.unwrap()
            return self._first_frame(raw, said, frame)
        body = self._now.dedented(text)
        if shapes.CHAIN.match(body):
            return self._link()
        if type := shapes.exception_type(body):
            return self._next_name(raw, said, body, type)
        self._now.waited += 1
        if self._now.waited > MOST_CARRIED_WAIT or messages.is_anothers(self._now.exception, said, body):
            self.finish()
            return self._idle(raw, said, text)
        return True

    def _ended(self, raw: RawLine, said: Said, text: str) -> bool:
        self._now.waited += 1
        if carriers.is_quotes(text):
            self._now.wrapped = []  # the end of what a remote traceback carried
            return True
        if not text.strip():
            if self._now.waited > MOST_WAIT:
                self.finish()
            return True
        if shapes.CHAIN.match(text):
            return self._link()
        if self._now.exception and carriers.introduces(text):
            self.state = State.CARRIED
            return True
        self.finish()
        return self._idle(raw, said, text)

    def _linked(self, raw: RawLine, said: Said, text: str) -> bool:
        if not text.strip() or carriers.introduces(text):
            return True
        if frame := shapes.FRAME.match(text):
            return self._first_frame(raw, said, frame)
        if type := shapes.exception_type(text):
            return self._name(raw, said, text, type)
        self._now.waited += 1
        if self._now.waited > MOST_WAIT:
            self.finish()
        return False

    def _in_stack(self, raw: RawLine, said: Said, text: str) -> bool:
        if frame := shapes.FRAME.match(text):
            if self.crashed is not None and self._dumped:
                self.crashed.frames.insert(0, frame_of(raw, frame))
            return True
        if CURRENT_STACK.match(text):
            return self._begin_stack(text)
        if not text or text[0].isspace() or text.startswith(("Message:", "Arguments:")):
            return True
        self.state, self.crashed = State.IDLE, None
        return self._idle(raw, said, text)

    # --- what the states share --------------------------------------------------------------------------

    def _begin(self, raw: RawLine, said: Said, header: re.Match[str]) -> None:
        """A traceback's first line: a new one, the next of a chain, or the one that an exception carries."""
        exception = self._now.exception
        carries = exception is not None and carriers.carries(exception.type, "")
        if self.state is State.CARRIED or (exception and (carries or carriers.introduces(said.text))):
            self._now.unwrap()
        elif self._chains.in_group and self.state is not State.LINKED:
            self._close()
            self._now = Partial()
        elif self.state is not State.LINKED:
            handled, boxed = self._handled_next, self._boxed
            self.finish()
            self._now = Partial()
            self._handled_next, self._boxed = handled, boxed
        self._open(said)
        lead = header["lead"]
        self._lead = lead if lead.strip() else ""
        self._handled_next = self._handled_next or is_quoted(lead)
        self._now.indent = len(lead) if lead.isspace() else 0
        self._now.header = raw

    def _open(self, said: Said) -> None:
        now = self._now
        now.head, now.mild = said.head, said.level in ("info", "warning")
        now.before = now.before or tuple(self._above)
        now.adjacent = True
        above = self._above[-1] if self._above else None
        if above is not None and (messages.is_got_over(above, self.source) or is_quoted(above.text)):
            self._handled_next = True
        now.warned_of = bool(self._above) and messages.is_warned_of(self._above[-1], self.source)
        self.state = State.FRAMES

    def _begin_stack(self, text: str) -> bool:
        """A stack that is no exception's; of those that a crash dumps, one thread's counts."""
        self.state = State.STACK
        self._dumped = text.startswith("Current thread")
        return True

    def _first_frame(self, raw: RawLine, said: Said, frame: re.Match[str]) -> bool:
        """A frame where no header told of a traceback."""
        self._open(said)
        self._now.add_frame(raw, frame)
        return True

    def _stray(self) -> bool:
        """Somebody else's line inside a traceback."""
        self._now.adjacent = False
        self._now.waited += 1
        if self._now.waited > MOST_STRAY:
            self.finish()
        return False

    def _next_name(self, raw: RawLine, said: Said, body: str, type: str) -> bool:
        """An exception's line below another one's: what that one carries, or one of its own."""
        exception = self._now.exception
        if exception is None or carriers.carries(exception.type, exception.said[0]):
            self._now.unwrap()
        else:
            self.finish()
            self._now = Partial()
        return self._name(raw, said, body, type)

    def _name(self, raw: RawLine, said: Said, body: str, type: str) -> bool:
        """An exception's line without frames above."""
        self._open(said)
        self._take_name(raw, body, type)
        return True

    def _take_name(self, raw: RawLine, body: str, type: str) -> None:
        self._named(self._now.name(raw, body, type, self.source, self._chains.groups, self._handled_next))
        self.state = State.MESSAGE

    def _link(self) -> bool:
        """The words between two exceptions of a chain."""
        before, wrapped = self._now.before, self._now.wrapped
        self._close()
        self._chains.link()
        self._now = Partial(before=before, wrapped=wrapped)
        self.state = State.LINKED
        return True

    def _close(self) -> None:
        """Put what was read to its chain."""
        if self.state is not State.IDLE and (found := self._now.found(self.source, self._handled_next)):
            self._chains.add(found)
        self._now.exception = self._now.carrier = None
        self._now.frames = []


def _out_of_rich(text: str, box: re.Match[str]) -> str | None:
    """What stands in a box that Rich drew: a traceback's header, a frame, or code; None for its locals."""
    side = text.lstrip()[0]
    if side == "╭":
        return HEADER if "Traceback" in text else None
    inner = text[box.end() :].rstrip("│╮╯ ").strip()
    return inner if side == "│" and inner[:1] not in ("╭", "│", "╰") else None
