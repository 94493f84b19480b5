"""What is seen while something runs: a picture redrawn in place on a terminal, lines elsewhere.

`LiveTable` and `Lines` draw whatever they are given, a run here or a sweep (`sweep_display`). Of a run they
show phase, attempt, step, reward, validation pass rate, elapsed and remaining time. A display only looks at
the executor of the loop; it never waits for anything the run needs.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from harness.cli.console import console, duration
from monitors.processes import ATTEMPT_VARIABLE

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from harness.agent.executor import Executor
    from harness.llm_use import LlmUse

REDRAW_S = 0.5
LINE_EVERY_S = 15.0


@dataclass(frozen=True)
class Snapshot:
    """What a display shows at one moment; times in seconds, rates between 0 and 1, None where nothing is
    known."""

    name: str
    phase: str
    attempt: int | None
    session: str
    step: int | None
    total_steps: int | None
    reward: float | None
    pass_rates: tuple[float, ...]
    elapsed_s: float
    remaining_s: float | None
    time_limit_s: float
    last_line: str
    model: str

    @property
    def steps(self) -> str:
        if self.step is None:
            return "–"
        return f"{self.step} of {self.total_steps}" if self.total_steps else str(self.step)

    @property
    def validation(self) -> str:
        """First and latest pass rate."""
        if not self.pass_rates:
            return "–"
        first, latest = self.pass_rates[0], self.pass_rates[-1]
        return f"{first:.3f}" if len(self.pass_rates) == 1 else f"{first:.3f} → {latest:.3f}"


def snapshot(executor: "Executor") -> Snapshot:
    """The run as it stands now."""
    experiment = executor.experiment
    state, now = experiment.state, experiment.clock()
    attempt, monitor = state.attempt, executor.current_monitor
    seen = monitor.seen() if monitor is not None else None
    remaining = None
    if seen is not None and attempt is not None and attempt.is_running:
        remaining = monitor.remaining_s(now) if monitor is not None else None
    limit = state.deadline_at - now
    return Snapshot(
        name=state.name,
        phase=state.phase,
        attempt=attempt.number if attempt else None,
        session=attempt.session if attempt else "",
        step=seen.step if seen else None,
        total_steps=seen.total_steps if seen else None,
        reward=seen.reward if seen else None,
        pass_rates=seen.pass_rates if seen else (),
        elapsed_s=now - state.created_at,
        remaining_s=min(remaining, limit) if remaining is not None else None,
        time_limit_s=limit,
        last_line=seen.last_line if seen else "",
        model=model_use(state.llm),
    )


def model_use(use: "LlmUse") -> str:
    """What the language model is asked now and has cost; "" where none was asked."""
    if not use.calls:
        return ""
    asked = f"asked about {use.consultation.topic}; " if use.consultation is not None else ""
    return f"{asked}{use.calls} calls, {use.cost_usd:.4f} USD"


class Progress(Protocol):
    """A display: `run` redraws until cancelled."""

    async def run(self) -> None: ...
    def pause(self) -> None: ...
    def go_on(self) -> None: ...
    def close(self) -> None: ...


def is_terminal() -> bool:
    """Whether a picture can be redrawn in place; a detached harness writes lines, as its terminal is a
    log."""
    return sys.stdout.isatty() and ATTEMPT_VARIABLE not in os.environ


def progress_for(executor: "Executor") -> Progress:
    """The display of a run that suits standard output."""
    return LiveTable(lambda _: _table(snapshot(executor))) if is_terminal() else Lines(_News(executor))


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


def _table(now: Snapshot) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True, min_width=10)
    table.add_column(no_wrap=True, overflow="ellipsis")
    attempt = "–" if now.attempt is None else f"{now.attempt}  {now.session}"
    remaining = f"about {duration(now.remaining_s)}" if now.remaining_s is not None else "–"
    rows = {
        "experiment": now.name,
        "phase": now.phase,
        "attempt": attempt,
        "step": now.steps,
        "reward": "–" if now.reward is None else f"{now.reward:.3f}",
        "pass rate": now.validation,
        "elapsed": duration(now.elapsed_s),
        "remaining": f"{remaining}  (limit in {duration(now.time_limit_s)})",
        "model": now.model,
        "last line": now.last_line,
    }
    for name, value in rows.items():
        if name == "model" and not value:
            continue
        table.add_row(name, Text(value))
    return table


class Lines:
    """For a file or a pipe: a line whenever there is news."""

    def __init__(self, news: Callable[[], Iterable[str]]) -> None:
        """`news`: the lines that have become due since it was asked last."""
        self._news = news

    async def run(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(REDRAW_S)

    def pause(self) -> None: ...

    def go_on(self) -> None: ...

    def close(self) -> None:
        self._look()

    def _look(self) -> None:
        for line in self._news():
            print(line, flush=True)


class _News:
    """Of a run: a line whenever phase, attempt or validation changed, and now and then in between."""

    def __init__(self, executor: "Executor") -> None:
        self._executor = executor
        self._shown: tuple[object, ...] = ()
        self._shown_at = 0.0

    def __call__(self) -> Iterable[str]:
        now = snapshot(self._executor)
        key = (now.phase, now.attempt, len(now.pass_rates), now.model)
        due = time.monotonic() - self._shown_at > LINE_EVERY_S and now.step is not None
        if key == self._shown and not due:
            return
        self._shown, self._shown_at = key, time.monotonic()
        reward = "–" if now.reward is None else f"{now.reward:.3f}"
        attempt = "–" if now.attempt is None else str(now.attempt)
        remaining = f"  about {duration(now.remaining_s)} left" if now.remaining_s is not None else ""
        yield (
            f"[{duration(now.elapsed_s):>7}] {now.phase:<10}  attempt {attempt}  step {now.steps}  "
            f"reward {reward}  pass rate {now.validation}{remaining}"
            f"{f'  model {now.model}' if now.model else ''}"
        )
