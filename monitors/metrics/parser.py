"""Lines of a log → metric rows: the only parser of the console format and of all that looks like it.

Tried in this order: a user's own patterns, the `tables` that several lines form, the expressions of
`families`, a JSON object or a printed dict, and the `grammar` of any line. `MetricReader` also remembers what
earlier lines say of later ones: an epoch's heading, a table's header.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from monitors.log_prefixes import said
from monitors.logs import ESCAPES, Line
from monitors.metrics import counters, families, grammar
from monitors.metrics.names import is_validation, kind_of
from monitors.metrics.patterns import MetricPatterns
from monitors.metrics.row import NUMBER, STEP_NAMES, Row, metric_name, numbers_in, row_of
from monitors.metrics.tables import Columns, NamedNumbers, is_border

LONGEST_METRIC_LINE = 65_536
LONGEST_GRAMMAR = 2000  # of longer lines, pairs and objects: reading them costs no more than their length
LONGEST_PREFIX = 300
LEAST_REDRAWS = 20  # of a bar whose course counts; of a shorter one, what it showed last
MOST_LINES_BACK = 10_000  # that a row may need: an epoch's heading, the header of its table
_PLAIN = rf"({NUMBER})(?![\w%:/]|[.,]\d|\.\w)"
_VALUE = rf"(?:(?:(?:np|numpy|torch)\.\w+|tensor)\(({NUMBER})(?![\d.])[^()]*\)|{_PLAIN})"
_SEPARATOR = re.compile(r"\s-\s|[|;\t]|,\s")
_PLAIN_PAIR = re.compile(rf"\s*([^\W\d][^\s:=]{{0,200}})\s?[:=]\s?{_VALUE}\s*", re.IGNORECASE)
_OBJECT = re.compile(r"\{.*\}\s*$")
_OBJECT_PAIR = re.compile(
    rf"""(['"])([^'"]{{1,200}})\1\s*:\s*(?:{_VALUE}|(['"])({NUMBER})\5)""", re.IGNORECASE
)
_OBJECT_KEY = re.compile(r"""['"]\s*:""")
_LOGGER_LEFT = re.compile(r"(?:[\w.]+\]:\s+|\[[A-Za-z_][\w.]*\]\s(?=\d{4}-\d\d))")
_IN_BRACKETS = re.compile(r"\[([A-Za-z_]\w*)\](?=\s?[:=])|<br ?/?>")  # `[loss]: 0.5`
_ARROWS = re.compile(r">>\s*$")
_LAST_BRACKET = re.compile(r"(?:\[\s*\d+(?:/\d+)?\]\s*)+$")
_MESSAGES = ("message", "msg", "text", "event", "log")
_HEADING_WORDS = ("train", "training", "start", "starting", "begin", "beginning", "running", "of")


@dataclass(frozen=True)
class Found:
    """A row and where it stands: its line, and the first one that is needed to read it."""

    row: Row
    line: int
    first_line: int


def parse_line(text: str) -> Row | None:
    """Return the row that a line of a log is by itself, or None. Never raises, whatever the line."""
    if len(text) > LONGEST_METRIC_LINE:
        return None
    if "\x1b" in text:
        text = ESCAPES.sub("", text)
    return _row_in(message_of(text), text)


def message_of(text: str) -> str:
    """What a line says without what loggers put before it, as long as that is no counter ("- step:5 -")."""
    text = _IN_BRACKETS.sub(lambda match: match[1] or "", text)
    rest = text if text[:1] == "{" else said(text[:LONGEST_PREFIX]).text + text[LONGEST_PREFIX:]
    if left := _LOGGER_LEFT.match(rest):
        rest = said(rest[left.end() :]).text
    before = text[: len(text) - len(rest)] if text.endswith(rest) else ""
    if counters.COUNTER.search(before):
        return text.strip()
    counter = _LAST_BRACKET.search(before)
    return f"{counter[0] if counter else ''}{rest}".strip()


def _row_in(text: str, raw: str = "") -> Row | None:
    if len(text) > LONGEST_GRAMMAR:
        return _parse_object(text) if text.endswith("}") else _parse_long(text)
    if not any(map(str.isdigit, text)) and "nan" not in text.lower() and "inf" not in text.lower():
        return None
    if head := families.match(text) or families.match(raw.strip()):
        return grammar.read_after(head)
    return _parse_object(text) if text.endswith("}") else grammar.read_line(text)


def _parse_long(text: str) -> Row | None:
    """The row of a line with hundreds of metrics: `step:12 - actor/kl_loss:0.1 - …` and nothing else."""
    pieces = _SEPARATOR.split(text)
    pairs = [pair for piece in pieces if (pair := _PLAIN_PAIR.fullmatch(piece))]
    row = row_of({metric_name(pair[1]): float(_first(pair.groups()[1:])) for pair in pairs})
    return row if row and row.step is not None and len(pairs) >= len(pieces) - 1 else None


def _parse_object(text: str) -> Row | None:
    match = _OBJECT.search(text)
    if match is None:
        return None
    head = text[: match.start()]
    if len(head) > LONGEST_PREFIX:
        return None
    before = grammar.read("" if _ARROWS.search(head) else head)
    is_label = head.rstrip().endswith(":")
    if before.values or len(before.prose) > 1 or (before.prose and not before.counts and not is_label):
        return None
    try:
        record = json.loads(match[0])
        if message := next((record[key] for key in _MESSAGES if isinstance(record.get(key), str)), ""):
            said_there = parse_line(message) if not message.endswith("}") else None
            if said_there:
                return said_there
        numbers, size = numbers_in(record), _size(record)
    except (ValueError, RecursionError):
        found = _OBJECT_PAIR.finditer(match[0])
        numbers = {metric_name(pair[2]): float(_first(pair.groups()[2:])) for pair in found}
        size = len(_OBJECT_KEY.findall(match[0]))
    row = row_of(numbers)
    if row is None or not row.values:
        return None
    has_step, is_known = not numbers.keys().isdisjoint(STEP_NAMES), any(map(kind_of, row.values))
    has_text = size > len(numbers)
    if not (is_known and (has_step or row.epoch is not None) if has_text else is_known or has_step):
        return None
    step = before.step if row.step is None and before.epoch is None and not before.total else row.step
    return replace(row, step=step, epoch=before.epoch if row.epoch is None else row.epoch)


def _size(record: object) -> int:
    if not isinstance(record, dict):
        return 0
    return sum(_size(value) if isinstance(value, dict) else 1 for value in record.values())


def _first(groups: Sequence[str | None]) -> str:
    return next(group for group in groups if group is not None and group not in "'\"")


class MetricReader:
    """Reads the lines of one log in their order."""

    def __init__(self, patterns: MetricPatterns | None = None) -> None:
        self._patterns = patterns or MetricPatterns()
        self._epoch: tuple[float, int | None, int] | None = None
        self._split: tuple[str, int] | None = None
        self._columns: Columns | None = None
        self._named = NamedNumbers()

    @property
    def wants_every_line(self) -> bool:
        """True while a table is open, whose lines hold numbers only."""
        return self._named.is_open or self._columns is not None

    def read(self, line: Line) -> list[Found]:
        """Return the rows that a line completes: at most one of a table that ends, and its own."""
        text = ESCAPES.sub("", line.text) if "\x1b" in line.text else line.text
        if len(text) > LONGEST_METRIC_LINE:
            return []
        if len(line.redraws) >= LEAST_REDRAWS:
            return self._of_bar(line)
        if self._patterns.rows and (row := self._patterns.parse(text)):
            return [Found(row, line.number, line.number)]
        message = message_of(text)
        if len(text) > LONGEST_GRAMMAR:
            row = _row_in(message)
            return [*self.end(), *([self._placed(row, line.number, line.number)] if row else [])]
        if self._columns and not self._columns.is_open(line.number):
            self._columns = None
        if self._named.take(text, line.number):
            return []
        found = self.end()
        if not message or is_border(message):
            return found
        if own := self._own_row(message, text, line.number):
            found.append(own)
        return found

    def _of_bar(self, line: Line) -> list[Found]:
        """The course that a progress bar showed while it was redrawn: its counter and what is trained on.
        Values of a validation stand in it until the next one, so only the last state's count."""
        found: list[Found] = []
        for state in (*line.redraws, line.text):
            row = parse_line(state)
            if row and state is not line.text:
                trained = {name: value for name, value in row.values.items() if not is_validation(name)}
                row = replace(row, values=trained)
            if row and row.values:
                if found and (found[-1].row.step, found[-1].row.epoch) == (row.step, row.epoch):
                    found.pop()
                found.append(self._placed(row, line.number, line.number))
        return found

    def end(self) -> list[Found]:
        """Return the rows of tables that have ended, or that nothing has ended yet."""
        return [self._placed(*block) for block in self._named.end()]

    def _own_row(self, text: str, raw: str, number: int) -> Found | None:
        if self._columns and (row := self._columns.row(text, number)):
            return self._placed(row, number, max(self._columns.line, number - MOST_LINES_BACK))
        if row := _row_in(text, raw):
            return self._placed(row, number, number)
        if columns := Columns.header(text, number):
            self._columns = columns
        else:
            self._take_heading(text, number)
        return None

    def _take_heading(self, text: str, number: int) -> None:
        """`Epoch 3/20` and `Test Error:` say what the lines after them are about."""
        heading = grammar.read(text)
        if heading.values or heading.unnamed or len(text) > 80:
            return
        words = [word for word in heading.prose if word not in _HEADING_WORDS and not kind_of(word)]
        if heading.epoch is not None and not words and not text.endswith("."):
            self._epoch = (heading.epoch, heading.epochs, number)
        split = grammar.split_of(text) if text.endswith(":") else ""
        self._split = (split, number) if split and not heading.counts else None

    def _placed(self, row: Row, line: int, first: int) -> Found:
        """The row with what headings say of it."""
        if row.epoch is None and self._epoch and line - self._epoch[2] < MOST_LINES_BACK:
            epoch, epochs, heading = self._epoch
            row, first = replace(row, epoch=epoch, epochs=epochs), min(first, heading)
        if self._split and not row.split:
            row, first = replace(row, split=self._split[0]), min(first, self._split[1])
        self._split = None
        return Found(row, line, first)


def read_lines(lines: Iterable[Line], patterns: MetricPatterns | None = None) -> Iterator[Found]:
    """Return the rows of a whole log."""
    reader = MetricReader(patterns)
    for line in lines:
        yield from reader.read(line)
    yield from reader.end()
