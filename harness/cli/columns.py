"""Cells as columns of plain text, fitted to a terminal, whole off one.

One wide cell does not widen its column for all: it is cropped on a terminal, and elsewhere pushes only its
own row to the right.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

GAP = "  "
USUAL = 0.9  # the share of the cells that a column is made for
A_LITTLE = 6  # more than that, for the others
LEAST, LEAST_LAST = 8, 16


def fitted(
    rows: Sequence[Sequence[str]], titles: Sequence[str], width: int | None, optional: Sequence[str] = ()
) -> list[str]:
    """The lines of a table. `width`: of the terminal; None: nothing is cropped. The last column may be
    cropped at its beginning, where a path says least. `optional`: titles of columns that are left out first
    where the width is not enough. A row of one cell is a line by itself."""
    shown = list(range(len(titles)))
    cells = [row for row in rows if len(row) > 1]
    widths = [max(len(titles[place]), _usual([row[place] for row in cells])) for place in shown]
    for title in optional:
        last = min(widths[-1], LEAST_LAST)
        if width is not None and _total(widths, shown) - widths[-1] + last > width:
            shown.remove(titles.index(title))
    if width is not None:
        _shrink(widths, shown, width)
    table = [titles, *rows]
    return [_line(row, widths, shown, width) for row in table]


def _usual(cells: Sequence[str]) -> int:
    """A width for most cells, and for all where that costs little."""
    lengths = sorted(map(cell_len, cells)) or [0]
    usual = lengths[round(USUAL * (len(lengths) - 1))]
    return lengths[-1] if lengths[-1] <= usual + A_LITTLE else usual


def _total(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[place] + len(GAP) for place in shown) - len(GAP)


def _shrink(widths: list[int], shown: Sequence[int], width: int) -> None:
    """Make the last column, then the widest others, narrower until the table fits or nothing more can go."""
    last = shown[-1]
    over = _total(widths, shown) - width
    cut = min(max(0, over), max(0, widths[last] - LEAST_LAST))
    widths[last] -= cut
    for _ in range(over - cut):
        widest = max(shown[:-1], key=lambda place: widths[place])
        if widths[widest] <= LEAST:
            return
        widths[widest] -= 1


def _line(row: Sequence[str], widths: Sequence[int], shown: Sequence[int], width: int | None) -> str:
    if len(row) == 1:
        return row[0] if width is None else _cropped(row[0], width)
    cells = [row[place] for place in shown]
    if width is not None:
        cells = [_cropped(cell, widths[place]) for cell, place in zip(cells[:-1], shown, strict=False)] + [
            _cropped(cells[-1], widths[shown[-1]], at_start=True)
        ]
    padded = [cell + " " * (widths[place] - cell_len(cell)) for cell, place in zip(cells, shown, strict=True)]
    line = GAP.join(padded).rstrip()
    return line if width is None else _cropped(line, width)


def _cropped(text: str, width: int, at_start: bool = False) -> str:
    if cell_len(text) <= width:
        return text
    if not at_start:
        return set_cell_size(text, width - 1) + "…"
    return "…" + set_cell_size(text[::-1], width - 1)[::-1]
