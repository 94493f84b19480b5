"""From single lines to faults: each line goes to the traceback or the message that it belongs to.

Lines of different sources are kept apart, so that ranks may talk at once.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import replace

from harness.diagnosis.reading import severity
from harness.diagnosis.reading.context_windows import AROUND as BEFORE
from harness.diagnosis.reading.context_windows import Gap, RawLine
from harness.diagnosis.reading.exceptions import is_notice
from harness.diagnosis.reading.faults import AROUND, Collection, Draft
from harness.diagnosis.reading.rows import Rows
from harness.diagnosis.reading.tracebacks import Tracebacks
from harness.diagnosis.reading.words import Words
from monitors.log_prefixes import Said, said
from monitors.logs import after_bar, is_progress_bar
from monitors.metrics.parser import parse_line

MOST_BELOW = 5  # lines that are not indented and belong to the message above
MOST_LINES = 12
NOT_FINITE = re.compile(r"nan|inf", re.IGNORECASE)
LONGEST_SAID = 4096  # characters of a line that are looked at; as many as a known message may have


class Assembler:
    """Puts faults together. `read` each line in order, then `close`."""

    def __init__(self, words: Words, collection: Collection, rows: Rows) -> None:
        self._words = words
        self._collection = collection
        self._rows = rows
        self._above: deque[RawLine] = deque(maxlen=BEFORE)
        self._open: dict[str, Tracebacks] = {}
        self._messages: dict[str, _Message] = {}
        self._waiting: list[Draft] = []

    def read(self, item: RawLine | Gap) -> None:
        """Read a line, or that lines were left out."""
        if isinstance(item, Gap):
            self.close(cut=True)
            return
        if item.hit or self._open or self._messages:
            what = said(item.text if item.text[:1] == "{" else item.text[:LONGEST_SAID])
            if what.trace:
                self._take_trace(item, what)
            else:
                self._take(item, what)
        if self._waiting and item.text and not is_progress_bar(item.text):
            self._show_after(item)
        self._above.append(item)

    def close(self, cut: bool = False) -> None:
        """Nothing follows on the lines before; `cut`: what follows was left out."""
        last = self._above[-1].number if cut and self._above else None
        for tracebacks in list(self._open.values()):
            tracebacks.finish(last)
        self._open.clear()
        self._messages.clear()
        self._waiting.clear()
        self._above.clear()

    def _take(self, raw: RawLine, what: Said) -> None:
        source = what.source
        tracebacks = self._open.get(source)
        if tracebacks is None:
            tracebacks = Tracebacks(source, self._above, self._waiting.append, self._collection.add)
        if tracebacks.take(raw, what):
            self._messages.pop(source, None)
        else:
            tracebacks.crashed = self._plain(raw, what) or tracebacks.crashed
        self._open[source] = tracebacks
        if tracebacks.is_idle and not tracebacks.crashed:
            del self._open[source]

    def _take_trace(self, raw: RawLine, record: Said) -> None:
        """A traceback in one line: its record stands above it."""
        self._above.append(raw)
        for number, line in enumerate(record.trace):
            level = "" if number else record.level
            self._take(raw, replace(record, text=line, level=level, is_record=False, trace=()))
        if (tracebacks := self._open.pop(record.source, None)) is not None:
            tracebacks.finish()

    def _plain(self, raw: RawLine, what: Said) -> Draft | None:
        """A line that is no part of a traceback. Returns the fault where the interpreter says it crashed."""
        message = self._messages.get(what.source)
        taken = message is not None and message.takes(raw, what)
        if message is not None and not taken:
            del self._messages[what.source]
        if raw.hit and is_progress_bar(what.text):
            what = replace(what, text=after_bar(what.text))
        if not raw.hit or not what.text:
            return None
        named = self._words.is_named(raw.raw)
        if taken and not named and _is_detail(what.text):
            return None
        level = severity.severity(what)
        for_its_level = not named and level in severity.FAULTS
        if for_its_level or NOT_FINITE.search(raw.text):
            row = parse_line(raw.text)
            if row is not None:
                self._rows.add(raw, row)
            for_its_level = for_its_level and row is None
        if not named and not for_its_level:
            return None
        draft = Draft(raw, [raw.line], [what.text], what.source, level=level, before=tuple(self._above))
        draft.handled = severity.is_handled(what.text) or severity.is_quoted(what.text)
        self._collection.add(draft)
        self._waiting.append(draft)
        if not severity.ALONE.search(what.text):  # else nothing below can belong to its message
            self._messages[what.source] = _Message(draft)
        return draft if "Fatal Python error" in what.text else None

    def _show_after(self, raw: RawLine) -> None:
        for draft in self._waiting:
            if raw.number > draft.lines[-1].number:
                draft.after.append(raw.line)
        self._waiting[:] = [draft for draft in self._waiting if len(draft.after) < AROUND]


class _Message:
    """The message of a plain line, which may go on below it."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._left = MOST_BELOW
        self._after_blank = False

    def takes(self, raw: RawLine, what: Said) -> bool:
        """Add a line that belongs to the message; False where it has ended."""
        text = what.text
        if not text.strip():
            self._after_blank = True
            return True
        if what.is_record or len(self._draft.said) >= MOST_LINES:
            return False
        if is_notice(text) or severity.severity(what) == "info":
            return False
        if self._after_blank and not severity.STACK_LINE.match(text):
            return False
        if not _is_detail(text):
            self._left -= 1
            own = raw.hit and severity.severity(what) in severity.FAULTS
            if self._left < 0 or own or is_progress_bar(text) or parse_line(raw.text) is not None:
                return False
        self._draft.lines.append(raw.line)
        self._draft.said.append(text)
        return True


def _is_detail(text: str) -> bool:
    """True if a line can only belong to what stands above it: it is indented, or a frame of native code."""
    return text[:1].isspace() or severity.STACK_LINE.match(text) is not None
