"""What is seen while something runs: a picture redrawn in place on a terminal, lines elsewhere.

`LiveTable` and `Lines` draw whatever they are given, a run here or a sweep (`sweep_display`). Of a run they
show phase, attempt, where its last row stands, the training's reward or loss, the leading metric with its
best so far, elapsed and remaining time. A display only looks at the executor of the loop; it never waits for
anything the run needs.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from harness.cli.console import console
from harness.cli.standing import of_experiment, sparkline
from harness.results.leading import PASS_RATE, leading_metric
from harness.wording import number_text
from harness.wording import short_duration as duration
from monitors.metrics.names import direction, is_validation
from monitors.processes import ATTEMPT_VARIABLE
from monitors.rules import REWARD_NAME

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from harness.agent.executor import Executor
    from harness.results.leading import Leading
    from monitors.rows import Rows

REDRAW_S = 0.5
LOOK_EVERY_S = 3.0
LINE_EVERY_S = 15.0
VALIDATION_EVERY_S = 5.0
UNKNOWN = "–"


def figures(executor: "Executor") -> dict[str, str]:
    """The run as it stands now, in words; what is not known is a dash."""
    experiment, monitor = executor.experiment, executor.current_monitor
    state, now = experiment.state, experiment.clock()
    attempt, limit_s = state.attempt, state.deadline_at - now
    shown = dict.fromkeys(("attempt", "session", "position", "remaining"), UNKNOWN)
    shown |= {
        "experiment": state.name,
        "phase": state.phase,
        "validations": "0",
        "training": "",
        "leading": "",
        "elapsed": duration(state.took_s(now)),
        "limit": duration(limit_s),
        "model": state.llm.in_words,
    }
    if attempt is not None:
        shown |= {"attempt": str(attempt.number), "session": attempt.session}
    if monitor is None:
        return shown
    rows, total = monitor.watch.rows, monitor.total
    of_total = f" of {total}" if total else ""
    leading = leading_metric(state.blueprint, rows.values)
    shown |= {"validations": str(len(rows.pass_rates))}
    shown |= {"position": f"{rows.where}{of_total}" if rows.count else UNKNOWN}
    shown |= {"training": _training(rows, leading), "leading": _leading(rows, leading)}
    if leading is not None and is_validation(leading.name):
        shown["validations"] = shown["leading"]
    remaining_s = monitor.remaining_s(now)
    if attempt is not None and attempt.is_running and remaining_s is not None:
        shown["remaining"] = f"about {duration(min(remaining_s, limit_s))}"
    return shown


def _training(rows: "Rows", leading: "Leading | None") -> str:
    """The reward of the training, else its loss; "" where it has neither, or where that is what leads."""
    if leading is not None and REWARD_NAME.match(leading.name):
        return ""
    if rows.rewards:
        return f"reward {number_text(rows.rewards[-1][1], 'rate')}"
    losses = (name for name in rows.values if "loss" in name and direction(name) and not is_validation(name))
    name = min(losses, key=len, default=None)
    if name is None or (leading is not None and leading.name == name):
        return ""
    return f"{name} {number_text(rows.values[name])}"


def _leading(rows: "Rows", leading: "Leading | None") -> str:
    """The leading metric: from its first to its last value for the pass rate, else the last and the best."""
    if leading is None:
        return ""
    if leading.name == PASS_RATE and rows.pass_rates:
        ends = [number_text(rows.pass_rates[place][1], "rate") for place in (0, -1)]
        return f"pass rate {' → '.join(ends[: len(rows.pass_rates)])}"
    value, extremes = rows.values[leading.name], rows.extremes.get(leading.name)
    best = extremes[leading.goal == "max"] if extremes and leading.goal else None
    behind = f" (best so far {number_text(best)})" if best is not None and best != value else ""
    return f"{leading.name} {number_text(value)}{behind}"


def is_terminal() -> bool:
    """True if a picture can be redrawn in place; a detached harness writes lines, as its terminal is a
    log."""
    return sys.stdout.isatty() and ATTEMPT_VARIABLE not in os.environ


def progress_for(executor: "Executor") -> "Progress":
    """The display of a run that suits standard output."""
    if is_terminal():
        look = _Look(executor)
        return LiveTable(lambda _: _table(figures(executor) | look()))
    return Lines(_News(executor))


class _Look:
    """What the run's files say of it, as `harness show` tells it; read less often than it is drawn."""

    def __init__(self, executor: "Executor") -> None:
        self._executor = executor
        self._shown: dict[str, str] = {}
        self._next = 0.0

    def __call__(self) -> dict[str, str]:
        if time.monotonic() >= self._next:
            found = of_experiment(self._executor.experiment)
            self._shown = {"course": sparkline(found.values), "uses": found.use_text}
            self._shown |= {"alarms": "; ".join(found.alarms), "last line": found.last_line}
            self._next = time.monotonic() + LOOK_EVERY_S
        return self._shown


class LiveTable:
    """For a terminal: one picture, redrawn in place."""

    def __init__(self, draw: "Callable[[Console], RenderableType]") -> None:
        """`draw`: the picture as it is now, for this console."""
        from rich.live import Live

        self._draw = draw
        self._console = console()
        self._live = Live(console=self._console, auto_refresh=False, transient=False)
        self._paused = False

    async def run(self) -> None:
        self._live.start()
        while True:
            if not self._paused:
                self._live.update(self._draw(self._console), refresh=True)
            await asyncio.sleep(REDRAW_S)

    def pause(self) -> None:
        self._paused = True
        self._live.stop()

    def go_on(self) -> None:
        self._paused = False
        self._live.start()

    def close(self) -> None:
        if self._live.is_started:
            self._live.update(self._draw(self._console), refresh=True)
            self._live.stop()


def _table(now: dict[str, str]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True, min_width=10)
    table.add_column(no_wrap=True, overflow="ellipsis")
    metrics = [name for name in ("training", "leading", "course", "alarms", "uses") if now.get(name)]
    names = ("experiment", "phase", "attempt", "position", *metrics, "elapsed", "remaining")
    notes = {"attempt": now["session"], "remaining": f"(limit in {now['limit']})"}
    for name in (*names, *(["model"] if now["model"] else []), "last line"):
        note = f"  {notes[name]}" if name in notes and notes[name] != UNKNOWN else ""
        table.add_row(name, Text(f"{now[name]}{note}"))
    return table


class Lines:
    """For a file or a pipe: a line whenever there is news."""

    def __init__(self, news: Callable[[], Iterable[str]]) -> None:
        """`news`: the lines that have become due since it was asked last."""
        self._news = news

    async def run(self) -> None:
        while True:
            self.close()
            await asyncio.sleep(REDRAW_S)

    def pause(self) -> None: ...

    def go_on(self) -> None: ...

    def close(self) -> None:
        for line in self._news():
            print(line, flush=True)


Progress = LiveTable | Lines
"""A display: `run` redraws until cancelled."""


class _News:
    """Of a run: a line whenever phase, attempt or validation changed, and now and then in between."""

    def __init__(self, executor: "Executor") -> None:
        self._executor = executor
        self._shown: tuple[str, ...] = ()
        self._shown_at = 0.0

    def __call__(self) -> Iterable[str]:
        now = figures(self._executor)
        key = tuple(now[name] for name in ("phase", "attempt", "model", "validations"))
        silent_s = time.monotonic() - self._shown_at
        is_validated = key != self._shown and silent_s > VALIDATION_EVERY_S
        due = is_validated or (silent_s > LINE_EVERY_S and now["position"] != UNKNOWN)
        if key[:-1] == self._shown[:-1] and not due:
            return
        self._shown, self._shown_at = key, time.monotonic()
        remaining = f"  {now['remaining']} left" if now["remaining"] != UNKNOWN else ""
        model = f"  model {now['model']}" if now["model"] else ""
        metrics = "".join(f"  {now[name]}" for name in ("training", "leading") if now[name])
        at = f"  {now['position']}" if now["position"] != UNKNOWN else ""
        run = f"[{now['elapsed']:>7}] {now['phase']:<10}  attempt {now['attempt']}"
        yield f"{run}{at}{metrics}{remaining}{model}"
