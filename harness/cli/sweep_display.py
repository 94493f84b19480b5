"""The live display of a sweep: one picture for 5 or for 600 points, never higher than the terminal.

In: a `Sweep` that a leader carries. Out: a `Progress` (see `progress`): on a terminal a header and one row
per point, redrawn in place; elsewhere lines (`sweep_news`). It only looks at the sweep's state and at the
ends of the running runs' metrics.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.cli.console import duration
from harness.cli.progress import Lines, LiveTable, Progress, is_terminal
from harness.cli.sweep_news import News
from harness.cli.sweep_words import (
    GLYPHS,
    NOT_RUN,
    best_so_far,
    cell,
    counted,
    mean_so_far,
    one_line,
    step,
)
from harness.sweep.status import PointStanding, Standing, SweepStanding, ranked, standing
from harness.sweep.steps import Steps

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from harness.sweep.sweep import Sweep

STYLES: Mapping[Standing, str] = {
    "queued": "dim", "running": "cyan", "done": "green", "failed": "bold red", "cancelled": "yellow",
}  # fmt: skip
CONFIGS_AT_ONCE = 2  # the leader works in the same thread
CELL = 10
LEAST_LABEL = 16
LEAST_MEAN = len("0.872 (2 of 3 seeds)")
GAP = "  "
MEAN = "mean so far"


def display_for(sweep: Sweep) -> Progress:
    """The display of a sweep that suits standard output."""
    steps = Steps(sweep.folder, CONFIGS_AT_ONCE)
    if not is_terminal():
        return Lines(News(lambda: sweep.state, lambda: snapshot(sweep, steps), time.monotonic))

    def draw(console: Console) -> RenderableType:
        return render(snapshot(sweep, steps), console.width, console.height)

    return LiveTable(draw)


def snapshot(sweep: Sweep, steps: Steps) -> SweepStanding:
    """The sweep as it stands now."""
    now = sweep.clock()
    return standing(sweep.state, now, lambda run: steps.of(run, now))


def render(now: SweepStanding, width: int, height: int) -> RenderableType:
    """The picture: at most `height` - 1 lines of at most `width` columns, whatever the names are."""
    from rich.console import Group
    from rich.text import Text

    head = [*_header(now), Text()]
    shown, rest = _chosen(now, height - 1 - len(head) - 2)  # the titles above, the legend below
    below = [Text(_summary(rest), style="dim")] if rest else []
    lines = [*head, *_rows(now, shown, width), *below, _legend()][: max(1, height - 1)]
    for line in lines:
        line.no_wrap = True
        line.truncate(width, overflow="ellipsis")
    return Group(*lines)


# --- above and below the rows -------------------------------------------------------------------------------


def _header(now: SweepStanding) -> list[Text]:
    from rich.text import Text

    name = Text.assemble((one_line(now.name), "bold"), GAP, now.phase)
    runs = Text(", ").join(Text(words, style=STYLES[where]) for where, words in counted(now))
    if now.canary is not None:
        runs.append(f"{GAP}canary ").append(cell(now.canary), style=STYLES[now.canary.standing])
    times = [f"{duration(now.elapsed_s)} so far"]
    if now.left_s is not None:
        times.append(f"about {duration(now.left_s)} left, {now.parallel} at once")
    if now.budget_s is not None:
        left = f", {duration(now.budget_left_s)} left" if now.budget_left_s is not None else ""
        times.append(f"budget {duration(now.budget_s)}{left}")
    best = [Text.assemble("best so far  ", (best_so_far(now), "bold"))] if now.best is not None else []
    return [name, runs, Text(GAP.join(times)), *best]


def _legend() -> Text:
    from rich.text import Text

    words = {**{where: where for where in GLYPHS}, "cancelled": NOT_RUN}
    return Text(GAP.join(f"{glyph} {words[where]}" for where, glyph in GLYPHS.items()), style="dim")


def _summary(rest: list[PointStanding]) -> str:
    """`… 41 more points: 38 queued, 3 done`."""
    kinds = Counter(_kind(point) for point in rest)
    words = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    return f"… {len(rest)} more points: {words}"


def _kind(point: PointStanding) -> str:
    """A whole point in one word, what matters most first."""
    seen = {run.standing for run in point.runs}
    if "running" in seen or "failed" in seen:
        return "running" if "running" in seen else "failed"
    if "queued" in seen:
        return "queued" if len(seen) == 1 else "partly done"
    return "done" if "done" in seen else NOT_RUN


# --- the rows -----------------------------------------------------------------------------------------------


def _chosen(now: SweepStanding, room: int) -> tuple[list[PointStanding], list[PointStanding]]:
    """The points that get a row, and the rest: in the plan's order where all fit, else those first that one
    wants to see."""
    if len(now.points) <= room:
        return list(now.points), []
    places = {point.name: place for place, point in enumerate(ranked(now.points, now.goal))}
    last = len(now.points)
    points = sorted(now.points, key=lambda point: (_urgency(point), places.get(point.name, last)))
    kept = max(1, room - 1)
    return points[:kept], points[kept:]


def _urgency(point: PointStanding) -> int:
    return 0 if point.has("running") else 1 if point.has("failed") else 2


@dataclass(frozen=True)
class _Columns:
    """The widths of the columns, and how many runs a point has at most. `seeds`: titles of a column per
    run; () where there is only room for a sign per run."""

    label: int
    runs: int
    seeds: tuple[str, ...] = ()


def _rows(now: SweepStanding, points: list[PointStanding], width: int) -> list[Text]:
    """The titles and a row per point."""
    columns = _columns(now, width)
    return [_titles(columns), *(_row(point, columns, now.best) for point in points)]


def _columns(now: SweepStanding, width: int) -> _Columns:
    """A column per run where the labels fit beside them; else a sign per run, which leaves them more room."""
    from rich.cells import cell_len

    wanted = max(len("point"), *(cell_len(one_line(point.label)) for point in now.points))
    mean = max(LEAST_MEAN, *(len(mean_so_far(point)) for point in now.points))
    runs = max(len(point.runs) for point in now.points)
    room = width - mean - len(GAP) * (runs + 1) - CELL * runs
    signs_room = width - mean - len(GAP) * 3 - max(runs, len("runs")) - CELL
    if room >= wanted or (room >= LEAST_LABEL and room >= signs_room):
        return _Columns(min(wanted, room), runs, tuple(_seed_title(now, place) for place in range(runs)))
    return _Columns(max(len("point"), min(wanted, signs_room)), runs)


def _seed_title(now: SweepStanding, place: int) -> str:
    """The seed that all points have at this place, else just a number."""
    seeds = {point.runs[place].run.run.seed for point in now.points if place < len(point.runs)}
    seed = next(iter(seeds)) if len(seeds) == 1 else None
    return f"seed {seed}" if seed is not None else f"run {place + 1}"


def _titles(columns: _Columns) -> Text:
    from rich.text import Text

    runs = [_fit(title, CELL) for title in columns.seeds]
    if not runs:
        runs = [_fit("runs", max(columns.runs, len("runs"))), _fit("step", CELL)]
    return Text(GAP.join([_fit("point", columns.label), *runs, MEAN]), style="dim")


def _row(point: PointStanding, columns: _Columns, best: PointStanding | None) -> Text:
    from rich.text import Text

    row = Text(_fit(one_line(point.label), columns.label) + GAP)
    if columns.seeds:
        for run in point.runs:
            row.append(_fit(cell(run), CELL), style=STYLES[run.standing]).append(GAP)
        row.append((" " * CELL + GAP) * (columns.runs - len(point.runs)))
    else:
        for run in point.runs:
            row.append(GLYPHS[run.standing], style=STYLES[run.standing])
        blank = max(columns.runs, len("runs")) - len(point.runs)
        row.append(" " * blank + GAP + _fit(_furthest(point), CELL) + GAP)
    return row.append(mean_so_far(point), style="bold" if point is best else "")


def _furthest(point: PointStanding) -> str:
    """Where the running run of this point is that has come furthest."""
    running = [run for run in point.runs if run.standing == "running"]
    return step(max(running, key=lambda run: run.progress.step or -1)) if running else ""


def _fit(text: str, width: int) -> str:
    """The text in exactly so many columns; what is cut off is marked."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) > width:
        return set_cell_size(text, max(0, width - 1)) + "…"
    return set_cell_size(text, width)
