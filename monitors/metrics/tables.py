"""Rows that a block of lines forms: columns under a header, and tables with a name and a number per line."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from monitors.metrics.counters import BAR, RICH_BAR
from monitors.metrics.names import kind_of
from monitors.metrics.row import NUMBER, Row, metric_name, number_of, row_of, step_of

_BORDER = re.compile(r"[\s|+=:_─━┃│┏┓┡┩└┘┴┬┼├┤╇╈═╪╞╡-]+")
_INDENTED = re.compile(
    r"\s{2,}(?P<name>[^\W\d](?:[\w/.@%-]| (?!\d+ ))*?)(?:\s*(?:\s=\s|:\s)\s*|\s{3,})"
    r"(?P<value>[-+]?[\d.][\d.,:eE+-]*%?|nan|-?inf)\s*[a-z]{0,2}"
)
_PAIR = re.compile(r"[|│┃]\s*(?P<name>[^|│┃]*?)\s*[|│┃]\s*(?P<value>[^|│┃]*?)\s*[|│┃]?\s*")
_BAR_SIGNS = ("|", "│", "┃")
_BARS = re.compile(r"[|│┃]")
MOST_LINES_BETWEEN = 3
MOST_LINES_WITHOUT_ROW = 200
_COLUMN_NAME = re.compile(r"#|[^\W\d][\w./@%#()'+-]*(?: [\w./@%#()'+-]+){0,3}")
_CELL = re.compile(rf"[\[(]?({NUMBER})(?:/(\d+))?[\])]?%?", re.IGNORECASE)
_NO_NUMBER = re.compile(r"[-+*]|none|n/?a|[\d:.]+\s?[a-z]{0,3}", re.IGNORECASE)
_EPOCHS = ("epoch", "epochs", "ep", "e")
_STEPS = ("step", "steps", "iter", "iteration", "it", "#", "round", "global_step", "batch", "update")
_TIMESTEPS = ("total_timesteps", "time/total_timesteps", "timesteps_total", "total_steps")


class NamedNumbers:
    """Collects lines such as `|  ep_rew_mean  |  21.3  |` and `    eval_loss  =  0.5` into one row, which a
    border, any other line or a name that comes back ends."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}
        self._first = self._last = 0
        self._done: list[tuple[Row, int, int]] = []

    @property
    def is_open(self) -> bool:
        return bool(self._values)

    def take(self, text: str, number: int) -> bool:
        """Take in a line; False where it is none of such a table."""
        bare = text.strip()
        match = _PAIR.fullmatch(bare) if bare[:1] in _BAR_SIGNS else _INDENTED.fullmatch(text)
        if match is None or not _COLUMN_NAME.fullmatch(match["name"].rstrip("/")):
            return False
        value = number_of(match["value"].replace(",", "").rstrip("%"))
        if value is None:
            return not match["value"] or (self.is_open and match["value"][0].isdigit())
        name = metric_name(match["name"])
        if name in self._values or number > self._last + MOST_LINES_BETWEEN:
            self._close()
        if not self._values:
            self._first = number
        self._last = number
        self._values[name] = value
        return True

    def end(self) -> list[tuple[Row, int, int]]:
        """The rows of the blocks that have ended, with their last and first lines."""
        self._close()
        done, self._done = self._done, []
        return done

    def _close(self) -> None:
        values, self._values = self._values, {}
        if not any(map(kind_of, values)):
            return
        for name in _TIMESTEPS:
            if name in values and "step" not in values:
                values["step"] = values.pop(name)
        if row := row_of(values):
            self._done.append((row, self._last, self._first))


def is_border(text: str) -> bool:
    return _BORDER.fullmatch(text) is not None and len(text) > 2


@dataclass
class Columns:
    """A header of names; rows of as many numbers follow. `line`: where the header stands."""

    names: list[str]
    line: int
    has_bars: bool
    wide: bool
    last_line: int = field(default=0)

    @classmethod
    def header(cls, text: str, line: int) -> Columns | None:
        """The columns that a line names, or None: names only, of which one counts or two are metrics."""
        text = _without_bar(text).strip()
        has_bars = bool(_BARS.search(text))
        wide = not has_bars and re.search(r"\S\s{2,}\S|\t", text) is not None
        cells = _cells(text, has_bars, wide)
        if not 2 <= len(cells) <= 60 or not all(map(_COLUMN_NAME.fullmatch, cells)):
            return None
        names = [metric_name(re.sub(r"^\w+\((?!.*\))", "", cell).rstrip(")") if "(" not in cell.strip("()")
                             or cell.count("(") != cell.count(")") else cell) for cell in cells]  # fmt: skip
        known = sum(kind_of(name) is not None for name in names)
        counts = any(name in _EPOCHS or name in _STEPS for name in names)
        return cls(names, line, has_bars, wide) if known and (counts or known > 1) else None

    def is_open(self, number: int) -> bool:
        """True while rows may follow; a table that has not gone on for long is over."""
        return number - max(self.line, self.last_line) < MOST_LINES_WITHOUT_ROW

    def row(self, text: str, number: int) -> Row | None:
        """The row that a line of numbers is."""
        text = _without_bar(text).strip()
        cells = _cells(text, self.has_bars, False)
        if len(cells) != len(self.names) and not self.has_bars:
            cells = _cells(text, False, True)
        if len(cells) != len(self.names):
            return None
        step = epoch = total = None
        values: dict[str, float] = {}
        for name, cell in zip(self.names, cells, strict=True):
            match = _CELL.fullmatch(cell.strip("*"))
            if match is None:
                counts = name in _EPOCHS or name in _STEPS
                if not counts and (kind_of(name) is None or _NO_NUMBER.fullmatch(cell)):
                    continue
                return None
            value = float(match[1])
            if name in _EPOCHS and epoch is None:
                epoch = value
            elif name in _STEPS and step is None:
                step, total = step_of(value), int(match[2]) if match[2] else None
            else:
                values[name] = value
        if not any(map(kind_of, values)):
            return None
        self.last_line = number
        return Row(step, values, epoch, total, "val" if "images" in values else "")  # a data set's


def _without_bar(text: str) -> str:
    bar = BAR.search(text) or RICH_BAR.search(text)
    return text[: bar.start()].rstrip().rstrip(":") if bar else text


def _cells(text: str, has_bars: bool, wide: bool) -> list[str]:
    if has_bars:
        return [cell.strip() for cell in _BARS.split(text.strip().strip("|│┃"))]
    return re.split(r"\s{2,}|\t+", text) if wide else text.split()
