"""The live display of a sweep: one picture for 5 or for 600 points, never higher than the terminal.

In: a `Sweep` that a scheduler runs. Out: a `Progress` (see `progress`): on a terminal a header and one row
per point, redrawn in place; elsewhere a line when a run starts or ends, and now and then how it all stands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from harness.cli.progress import Lines, LiveTable, Progress, is_terminal
from harness.cli.tree import nearest
from harness.results.text import one_line
from harness.sweep.run_files import progress
from harness.sweep.status import (
    GLYPHS,
    WORDS,
    PointStatus,
    RunStatus,
    Stage,
    SweepStatus,
    status,
)
from harness.wording import metric_value_text
from harness.wording import short_duration as duration

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from harness.sweep.state import Sweep

STYLES: Mapping[Stage, str] = {
    "queued": "dim", "running": "cyan", "waiting": "bold yellow", "done": "green", "failed": "bold red",
    "cancelled": "yellow",
}  # fmt: skip
LINE_EVERY_S = 60.0
CELL = 12
LEAST_LABEL = 16
MEAN = len("0.872 (2 of 3 seeds)")
GAP = "  "


def display_for(sweep: Sweep) -> Progress:
    """The display of a sweep that suits standard output."""

    def now() -> SweepStatus:
        return status(sweep.state, sweep.clock(), partial(progress, sweep.folder))

    here = nearest(sweep.dir)
    if not is_terminal():
        return Lines(News(now, time.monotonic, here))
    return LiveTable(lambda console: render(now(), console.width, console.height, here))


# --- a picture ----------------------------------------------------------------------------------------------


def render(now: SweepStatus, width: int, height: int, sweep: str = "") -> RenderableType:
    """The picture: at most `height` - 1 lines of at most `width` columns, whatever the names are. `sweep`:
    its folder, as a command names it."""
    from rich.console import Group
    from rich.text import Text

    head = _header(now, sweep)
    room = height - 1 - len(head) - 3  # an empty line and the titles above, the legend below
    if room < 1:
        return Group(*(_cut(line, width) for line in head[: max(1, height - 1)]))
    shown, rest = _chosen(now, room)
    legend = GAP.join(f"{glyph} {WORDS[stage]}" for stage, glyph in GLYPHS.items())
    more = [f"… {rest} more points"] if rest else []
    below = [_cut(Text(line, style="dim"), width) for line in (*more, legend)]
    return Group(*(_cut(line, width) for line in (*head, Text())), _table(now, shown, width), *below)


def _cut(line: Text, width: int) -> Text:
    line.no_wrap = True
    line.truncate(width, overflow="ellipsis")
    return line


def _header(now: SweepStatus, sweep: str) -> list[Text]:
    from rich.text import Text

    runs = Text(", ").join(Text(words, style=STYLES[stage]) for stage, words in now.counted)
    if now.canary is not None:
        runs.append(f"{GAP}canary ").append(now.canary.cell, style=STYLES[now.canary.stage])
    best = [Text.assemble("best so far  ", (now.best_so_far, "bold"))] if now.best is not None else []
    name = Text.assemble((one_line(now.plan.name), "bold"), GAP, now.state.phase)
    asked = [Text(line, style=STYLES["waiting"]) for line in now.to_answer_in_short(sweep)]
    return [*asked, name, runs, Text(GAP.join(now.times)), *best]


def _chosen(now: SweepStatus, room: int) -> tuple[list[PointStatus], int]:
    """The points that get a row, and how many do not: in the plan's order where all fit, else those first
    that one wants to see."""
    if len(now.points) <= room:
        return list(now.points), 0
    places = {point.name: place for place, point in enumerate(now.ranked)}

    def urgency(point: PointStatus) -> tuple[int, int]:
        first = 0 if point.has("running") or point.has("waiting") else 1 if point.has("failed") else 2
        return first, places.get(point.name, len(now.points))

    return sorted(now.points, key=urgency)[: room - 1], len(now.points) - room + 1


def _table(now: SweepStatus, points: list[PointStatus], width: int) -> Table:
    """A row per point: a column per run where there is room beside the labels, else a sign per run."""
    from rich.table import Table
    from rich.text import Text

    seeds = [run.run.run.seed for run in now.points[0].runs]  # all points have the same
    is_wide = LEAST_LABEL + len(seeds) * (CELL + len(GAP)) + MEAN <= width
    titles = ["run" if seed is None else f"seed {seed}" for seed in seeds] if is_wide else ["runs", "step"]
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, len(GAP), 0, 0))
    for title in ("point", *titles, "mean so far"):
        table.add_column(title, no_wrap=True, overflow="ellipsis")
    for point in points:
        cells = [Text(run.cell, style=STYLES[run.stage]) for run in point.runs]
        if not is_wide:
            running = [run for run in point.runs if run.stage == "running"]
            furthest = max(running, key=lambda run: run.progress.step or -1, default=None)
            signs = Text.assemble(*((GLYPHS[run.stage], STYLES[run.stage]) for run in point.runs))
            cells = [signs, Text(furthest.step if furthest else "")]
        mean = Text(point.mean_so_far, style="bold" if point is now.best else "")
        table.add_row(Text(one_line(point.label)), *cells, mean)
    return table


# --- lines --------------------------------------------------------------------------------------------------


class News:
    """The lines that have become due; remembers what was printed."""

    def __init__(self, now: Callable[[], SweepStatus], clock: Callable[[], float], sweep: str = "") -> None:
        """`sweep`: its folder, as a command names it."""
        self._now, self._clock, self._sweep = now, clock, sweep
        self._asked: set[str] = set()
        self._printed: dict[str, tuple[str, int]] = {}
        self._closing = self._last = ""
        self._due_at = float("-inf")

    def __call__(self) -> Iterable[str]:
        now = self._now()
        lines = list(self._events(now))
        if self._clock() > self._due_at:
            self._due_at = self._clock() + LINE_EVERY_S
            best = f"; best so far: {now.best_so_far}" if now.best is not None else ""
            left = f"; about {duration(now.left_s)} left" if now.left_s is not None else ""
            moved = f"{now.state.phase}: {now.tally}{best}"
            steps = [run.progress.step for run in now.runs if run.stage == "running"]
            if f"{moved} {steps}" != self._last:
                lines.append(f"{moved}{left}")
            self._last = f"{moved} {steps}"
        return [f"[{duration(now.elapsed_s):>7}] {one_line(line)}" for line in lines]

    def _events(self, now: SweepStatus) -> Iterator[str]:
        for run in now.runs:
            what = (run.run.status, run.run.job)
            if what != self._printed.get(run.name, ("queued", 0)):
                self._printed[run.name] = what
                yield f"{run.name}: {_became(run, now.state.metric or 'value')}"
        for asked, ways in now.to_answer(self._sweep):
            question = asked.partition(": ")[2]
            if question not in self._asked:
                self._asked.add(question)
                yield from f"waits for your answer: {asked}".splitlines()
                yield from ways
        if now.state.closing != self._closing:
            self._closing = now.state.closing
            yield f"no run is started any more: {now.state.closing}"


def _became(run: RunStatus, metric: str) -> str:
    known = run.run
    if known.status == "running":
        return "started" if known.job == 1 else f"goes on with job {known.job}"
    if known.status == "not_run":
        return f"will not run: {known.reason}"
    took = f" after {duration(run.took_s)}" if run.took_s is not None else ""
    value = f", {metric} {metric_value_text(known.value)}" if known.value is not None else ""
    why = f": {known.reason}" if known.outcome != "succeeded" else ""
    return f"{run.outcome}{took}{value}{why}"
