"""The screen of `ajet-swarm overwatch`: a swarm server, read again and again, and two things to do to it.

It reads in the background, one request at a time; what it shows comes from `overview`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, ClassVar

import httpx
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.events import DescendantFocus
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Log, Static
from textual.widgets.data_table import RowDoesNotExist

from trainer_core.swarm import overview
from trainer_core.swarm.overview import Reading, Row, Table

MOST_ROWS = 300
"""Of a table."""
_LONGEST_PAUSE_S = 30.0
_COMMAND_S = 120.0
_TABLES = ("episodes", "tasks", "clients")
_PANES = (*_TABLES, "log")


class Question(ModalScreen[bool]):
    """Asks for a yes or a no."""

    BINDINGS: ClassVar[list[BindingType]] = [("y", "dismiss(True)"), ("n,escape", "dismiss(False)")]
    CSS = """
    Question { align: center middle; }
    Static { width: 64; max-width: 95%; height: auto; border: heavy $warning; padding: 1 2; }
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        yield Static(f"{self._text}\n\ny yes   n no", markup=False)


class Overwatch(App[None]):
    """Shows one server."""

    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 - as it is declared there
    VERTICAL_BREAKPOINTS = [(0, "-short"), (34, "-tall")]  # noqa: RUF012
    CSS = """
    #heading { background: $primary; color: $text; text-style: bold; height: 1; }
    #heading.failed { background: $error; }
    #detail { height: auto; max-height: 3; color: $warning; }
    #batch { height: auto; }
    #curve { height: auto; max-height: 2; color: $success; }
    #tabs { height: 1; }
    #panes > * { display: none; height: 1fr; overflow-x: auto; }
    #panes > .chosen { display: block; }
    #filter { display: none; border: none; height: 1; }
    Screen.-wide.-tall {
        #tabs { display: none; }
        #batch { layout: horizontal; height: 5; }
        #batch > * { width: 1fr; height: 100%; max-height: 100%; padding-right: 2; }
        #panes { layout: grid; grid-size: 2 3; grid-rows: 2fr 1fr 1fr; grid-columns: 3fr 2fr; }
        #panes > * { display: block; height: 100%; border: round $foreground 50%; }
        #panes > .chosen { border: round $accent; }
        #episodes { row-span: 2; }
        #log { column-span: 2; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "pane(0)", "Pane", key_display="1-4"),
        *(Binding(str(at + 1), f"pane({at})", show=False) for at in (1, 2, 3)),
        ("o", "order(1, False)", "Order"),
        ("r", "order(0, True)", "Reverse"),
        ("slash", "filter", "Filter"),
        Binding("escape", "all", show=False),
        ("a", "abort", "Abort"),
        ("s", "stop", "Stop engine"),
        Binding("space", "read", "Read", key_display="space"),
        ("q", "quit", "Quit"),
    ]

    def __init__(
        self,
        server: str,
        client: httpx.AsyncClient,
        interval_s: float,
        now: Callable[[], datetime] = datetime.now,
    ) -> None:
        super().__init__()
        self._server, self._client, self._interval_s, self._now = server, client, interval_s, now
        self._reading, self._answered_at, self._again = Reading(), now(), asyncio.Event()
        self._orders = {name: table.order for name, table in zip(_TABLES, overview.tables({}), strict=True)}
        self._filled: dict[str, tuple[int, bool, Sequence[Row]]] = {}
        self._pane, self._words = 0, ""

    def compose(self) -> ComposeResult:
        yield Static(id="heading", markup=False)
        yield Static(id="detail", markup=False)
        with Container(id="batch"):
            yield Static(id="progress", markup=False)
            yield Static(id="curve", markup=False)
        yield Static(id="drops", markup=False)
        yield Static(id="tabs")
        with Container(id="panes"):
            for name in _TABLES:
                yield DataTable(id=name, cursor_type="row")
            yield Log(id="log")
        yield Input(id="filter", placeholder="text that rows contain; Enter keeps it, Esc shows all")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self.action_pane(0)
        self.set_interval(1.0, self._show_heading)
        self.run_worker(self._watch())

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    async def _watch(self) -> None:
        pause = self._interval_s
        while True:
            self._again.clear()
            self._reading = await overview.read(self._client, self._reading)
            if self._reading.error:
                pause = max(self._interval_s, min(2 * pause, _LONGEST_PAUSE_S))
            else:
                pause, self._answered_at = self._interval_s, self._now()
            self._show()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._again.wait(), pause)

    # --- what is shown --------------------------------------------------------------------------------

    def _show(self) -> None:
        if not self.is_running:  # it is being closed
            return
        self._show_heading()
        pool, size = self._reading.pool, self.query_one("#curve").content_size
        self._write("progress", overview.progress(pool, self.query_one("#progress").content_size.width))
        self._write(
            "curve", overview.curve(pool["reward_curve"], size.width, max(2, size.height)) if pool else ()
        )
        self._write("drops", [overview.drops(pool)] if pool else ())
        found = overview.tables(pool)
        titles = [self._fill(name, table) for name, table in zip(_TABLES, found, strict=True)]
        log, words = self.query_one(Log), self._words.casefold()
        lines = [line for line in self._reading.log if words in line.casefold()]
        if lines != list(log.lines):
            log.clear().write_lines(lines)
        self._show_titles([*titles, "Log"])

    def _show_heading(self) -> None:
        if not self.is_running:
            return
        age_s = (self._now() - self._answered_at).total_seconds()
        heading, detail = overview.heading(self._server, self._reading, self._now(), age_s)
        is_lost = bool(self._reading.error)
        self._write("heading", [heading])
        self._write("detail", [detail + "; trying again …" * is_lost] if detail else ())
        self.query_one("#heading").set_class(is_lost, "failed")

    def _write(self, name: str, lines: Sequence[str]) -> None:
        widget = self.query_one(f"#{name}", Static)
        widget.update("\n".join(lines))
        widget.display = bool(lines)

    def _fill(self, name: str, table: Table) -> str:
        """Show a table, the cursor where it was; returns the title."""
        widget, (column, is_down) = self.query_one(f"#{name}", DataTable), self._orders[name]
        rows, more = table.pick(MOST_ROWS, (column, is_down), self._words)
        if self._filled.get(name) != (found := (column, is_down, rows)):
            self._filled[name] = found
            self._replace(widget, table.columns, *found)
        match = f"{len(rows) + more}/" if self._words else ""
        return f"{table.title} ({match}{len(table.rows)}{f', {more} not shown' if more else ''})"

    def _replace(
        self, widget: DataTable[Text], titles: Sequence[str], column: int, is_down: bool, rows: Sequence[Row]
    ) -> None:
        chosen, top = self._chosen(widget), widget.scroll_offset
        widget.clear(columns=True)
        for at, title in enumerate(titles):
            widget.add_column(title + (" ▼" if is_down else " ▲") * (at == column))
        for row, cells in rows:
            widget.add_row(*map(_cell, cells), key=row)
        with suppress(RowDoesNotExist):
            widget.move_cursor(row=widget.get_row_index(chosen), scroll=False)
        widget.scroll_to(*top, animate=False)

    def _chosen(self, widget: DataTable[Text]) -> str:
        """The row under the cursor of a table; empty: none."""
        at = widget.cursor_coordinate
        return str(widget.coordinate_to_cell_key(at).row_key.value) if widget.is_valid_coordinate(at) else ""

    def _show_titles(self, titles: Sequence[str]) -> None:
        tabs = Text()
        for at, (name, title) in enumerate(zip(_PANES, titles, strict=True)):
            self.query_one(f"#{name}").border_title = f"{at + 1} {title}"
            tabs.append(f" {at + 1} {title} ", "reverse" if at == self._pane else "")
        self.query_one("#tabs", Static).update(tabs)

    # --- keys -----------------------------------------------------------------------------------------

    def action_pane(self, at: int) -> None:
        self._pane = at
        for name in _PANES:
            self.query_one(f"#{name}").set_class(name == _PANES[at], "chosen")
        self.query_one(f"#{_PANES[at]}").focus()
        self._show()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        if event.widget.id in _PANES and event.widget.id != _PANES[self._pane]:
            self.action_pane(_PANES.index(event.widget.id))

    def action_order(self, columns: int, is_turned: bool) -> None:
        """Sort by a column further on, or the other way round."""
        if (name := _PANES[self._pane]) in self._orders:
            column, is_down = self._orders[name]
            column = (column + columns) % len(self.query_one(f"#{name}", DataTable).columns)
            self._orders[name] = column, is_down != is_turned
            self._show()

    def action_read(self) -> None:
        self._again.set()

    def action_filter(self) -> None:
        self.query_one(Input).display = True
        self.query_one(Input).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._words = event.value
        self._show()

    def on_input_submitted(self) -> None:
        self.action_pane(self._pane)

    def action_all(self) -> None:
        """Without a filter."""
        self.query_one(Input).value = ""
        self.query_one(Input).display = False
        self.action_pane(self._pane)

    @work
    async def action_abort(self) -> None:
        name = self._chosen(self.query_one("#episodes", DataTable))
        one = (self._reading.pool.get("running_episode_details") or {}).get(name)
        if one is None:
            self.notify("There is no episode to abort.", severity="warning")
            return
        client = one["client_uuid"]
        if await self._agreed(f"Abort episode {name} of {client}? What it did so far is not used."):
            body = {"client_uuid": client, "episode_uuid": name}
            await self._command("/abort_episode", body, f"Episode {name[:8]} is aborted, or had ended.")

    @work
    async def action_stop(self) -> None:
        running = len(self._reading.pool.get("running_episode_details") or {})
        first = f"Stop the engine? The training ends; {running} running episodes are lost."
        again = f"Really stop {self._server}, for all of its clients?"
        if await self._agreed(first) and await self._agreed(again):
            self.notify("The engine is being stopped.")
            await self._command("/stop_engine", {}, "The engine is stopped.")

    async def _agreed(self, question: str) -> bool:
        return await self.push_screen_wait(Question(question))

    async def _command(self, path: str, body: dict[str, str], done: str) -> None:
        try:
            overview.answered(await self._client.post(path, json=body, timeout=_COMMAND_S))
        except (httpx.HTTPError, ValueError) as error:
            told = str(error) or type(error).__name__
            self.notify(f"{path}: {told}", severity="error", markup=False)
        else:
            self.notify(done, markup=False)
        self._again.set()


def _cell(cell: tuple[Any, str]) -> Text:
    return Text(cell[1], justify="left" if isinstance(cell[0], str) else "right")
