"""What a swarm server answers, as the rows and lines that people see.

`read` asks the server; everything else is a pure function of what it answered, shared by the plain text, the
JSON and the screen of `ajet-swarm overwatch`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import ceil
from statistics import fmean, pstdev
from typing import Any

import httpx
from rich.cells import cell_len, set_cell_size
from rich.text import Text

CANNOT_CONNECT = "CANNOT_CONNECT"
"""The state of a server that does not answer as one."""
_TEXT_ROWS, _TEXT_WIDTH, _WIDEST, _TEXT_LOG, _LONGEST, _LOG = 30, 100, 48, 10, 200, 200
_TIMEOUT = httpx.Timeout(5.0, connect=2.0)
_BLOCKS = " ▁▂▃▄▅▆▇█"
_ENOUGH = "rollout_until_finish_enough_"
_OFFLINE = "No training runs: a client starts one with sync_train_config, then start_engine."


@dataclass(frozen=True)
class Reading:
    """What a server answered."""

    status: Mapping[str, Any] = field(default_factory=dict)
    pool: Mapping[str, Any] = field(default_factory=dict)
    log: Sequence[str] = ()
    error: str = ""
    """Why there is no answer; the rest is then what it answered before."""

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        failed = {"engine_status": CANNOT_CONNECT, "engine_status_detail": self.error}
        return {"status": failed if self.error else self.status, "pool": self.pool, "log_tail": self.log}


async def read(client: httpx.AsyncClient, before: Reading) -> Reading:
    """Ask a server how it is, one request after the other; if it does not answer, `before` stays."""
    try:
        status = await _get(client, "/get_engine_status", "engine_status")
        pool = await _get(client, "/get_current_batch_rollout_pool_information", "episode_counts")
        log = await _get(client, f"/get_log_tail?lines={_LOG}", "lines")
    except (httpx.HTTPError, ValueError) as error:
        return replace(before, error=str(error) or type(error).__name__)
    return Reading(status, pool, [_clean(line) for line in log["lines"]])


async def _get(client: httpx.AsyncClient, path: str, needed: str) -> dict[str, Any]:
    told = answered(await client.get(path, timeout=_TIMEOUT))
    if needed not in told:
        raise ValueError(f"what answers there is no swarm server of this version: no {needed} in {path}")
    return told


def answered(answer: httpx.Response) -> dict[str, Any]:
    """What an answer says.

    Raises:
        ValueError: it is an error, or not from a swarm server.
    """
    try:
        told = answer.json()
    except ValueError:
        told = None
    if not isinstance(told, dict):
        raise ValueError(f"what answers there is no swarm server (HTTP {answer.status_code})")
    if not answer.is_success or told.get("success") is False:
        raise ValueError(str(told.get("error") or told.get("failure_reason") or f"HTTP {answer.status_code}"))
    return told


# --- tables -------------------------------------------------------------------------------------------

Row = tuple[str, Sequence[tuple[Any, str]]]
"""A name, and cells: a value to sort by, and what is shown of it. Numbers stand on the right."""


@dataclass(frozen=True)
class Table:
    """Rows that can be sorted and filtered."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]
    order: tuple[int, bool]
    """The column to sort by at first, and whether its largest value is on top."""

    def pick(self, most: int, order: tuple[int, bool], words: str = "") -> tuple[Sequence[Row], int]:
        """The first rows in an order of those that contain the words, and how many more there are."""
        words, rows = words.casefold(), self.rows
        if words:
            rows = [row for row in rows if words in " ".join(text for _, text in row[1]).casefold()]
        rows = sorted(rows, key=lambda row: row[1][order[0]][0], reverse=order[1])
        return rows[:most], max(0, len(rows) - most)


def tables(pool: Mapping[str, Any]) -> tuple[Table, Table, Table]:
    """The running episodes, the tasks of the batch, the clients."""
    running = pool.get("running_episode_details") or {}
    return _episodes(running), _tasks(pool), _clients(running, pool.get("completed_tasks_client_uuids", {}))


def _episodes(running: Mapping[str, Any]) -> Table:
    columns = ("EPISODE", "CLIENT", "TYPE", "CALLS", "IDLE/PATIENCE s", "TASK")
    rows = []
    for name, one in running.items():
        idle, patience = (
            float(one[key].rstrip("s")) for key in ("time_since_last_activity", "discard_episode_timeout")
        )
        cells = [(name, name[:8]), _cell(one["client_uuid"]), _cell(one["episode_type"])]
        cells += [_cell(int(one["llm_call_count"])), (idle, f"{idle:.0f} / {patience:.0f}")]
        rows.append((name, [*cells, _cell(one["optional_task_id"])]))
    return Table("Running", columns, rows, (4, True))


def _tasks(pool: Mapping[str, Any]) -> Table:
    columns = ("TASK", "EPISODES", "REWARD mean ± sd", "CLIENTS")
    rows = []
    for task, names in pool.get("completed_tasks_details", {}).items():
        rewards = pool["completed_tasks_rewards"][task]
        mean, sd = fmean(rewards), pstdev(rewards)
        clients = len(set(pool["completed_tasks_client_uuids"][task]))
        reward = (mean, f"{mean:.3f} ± {sd:.3f}")
        rows.append((task, [_cell(task), _cell(len(names)), reward, _cell(clients)]))
    return Table("Tasks", columns, rows, (1, True))


def _clients(running: Mapping[str, Any], of_tasks: Mapping[str, Sequence[str]]) -> Table:
    runs = Counter(one["client_uuid"] for one in running.values())
    ended = Counter(name for each in of_tasks.values() for name in each)
    rows = [(name, [_cell(name), _cell(runs[name]), _cell(ended[name])]) for name in {**runs, **ended}]
    return Table("Clients", ("CLIENT", "RUNNING", "ENDED IN BATCH"), rows, (0, False))


def _cell(value: Any) -> tuple[Any, str]:
    return value, _clean(str(value))


# --- lines --------------------------------------------------------------------------------------------


def heading(server: str, reading: Reading, now: datetime, age_s: float) -> tuple[str, str]:
    """Where and how the server is, and more about that. `age_s`: since it answered last."""
    known = str(reading.status.get("engine_status", "")).removeprefix("ENGINE.")
    state, detail = "connecting", str(reading.status.get("engine_status_detail", ""))
    if reading.error:
        old = f"; shown is {known}, as of {_duration(age_s)} ago" if known else ""
        state, detail = CANNOT_CONNECT, f"{reading.error}{old}"
    elif known:
        in_state = _duration(reading.pool["seconds_in_status"] + age_s)
        state = f"{known} for {in_state} │ step {reading.status['global_step']}"
    return f"{server} │ {state} │ {now:%H:%M:%S}", _clean(detail)


def progress(pool: Mapping[str, Any], width: int) -> list[str]:
    """A line with a bar for each way to count what a batch has."""
    if pool.get("engine_status") in (None, "ENGINE.OFFLINE"):
        return [_OFFLINE] if pool else []
    method, lines = pool["sample_collection_method"], []
    for name in ("episodes", "tasks", "non_dummy_tasks"):
        done, target = pool[f"completed_{name}"], pool[f"completed_{name.removesuffix('s')}_target"]
        mark, words = "→" if method == _ENOUGH + name else " ", name.replace("non_", "non-").replace("_", " ")
        text = f"{mark} {words:<15} {done:>5} / {target:<5}{done / target:>5.0%} "
        lines.append(text + bar(done / target, max(4, width - len(text))))
    mean = pool["completed_episodes"] / max(1, len(pool["completed_tasks_details"]))
    rule = method.removeprefix("rollout_until_").replace("finish_", "").replace("_", " ")
    return [*lines, f"  {mean:.1f} of {pool['task_expected_num_repeat']} episodes per task; until {rule}"]


def bar(part: float, width: int) -> str:
    """A bar that is full at 1; beyond, the darker end begins where 1 is."""
    if part > 1:
        full = max(1, round(width / part))
        return "█" * full + "▓" * (width - full)
    done = round(part * width)
    return "█" * done + "░" * (width - done)


def drops(pool: Mapping[str, Any]) -> str:
    """What became of episodes."""
    counts = pool.get("episode_counts", {}).items()
    told = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts if count)
    return f"Episodes so far: {told or 'none'}"


def curve(points: Sequence[Sequence[float]], width: int, height: int) -> list[str]:
    """A line about the mean rewards of the steps, and a plot of them in the lines below."""
    if not points:
        return ["Reward: no step is done yet"]
    (first, start), (last, end) = points[0], points[-1]
    best = max(reward for _, reward in points)
    caption = f"Reward of steps {first} to {last}: {start:.3f} → {end:.3f}, highest {best:.3f}"
    return [caption, *_plot([reward for _, reward in points], max(1, width), height - 1)]


def _plot(values: Sequence[float], width: int, height: int) -> list[str]:
    """Columns from the lowest value to the highest; neighbours share a column where there are too many."""
    share = ceil(len(values) / width)
    means = [
        sum(part) / len(part) for at in range(0, len(values), share) if (part := values[at : at + share])
    ]
    low, span = min(means), (max(means) - min(means)) or 1.0
    eighths = [1 + round((mean - low) / span * (8 * height - 1)) for mean in means]
    rows = reversed(range(height))
    return ["".join(_BLOCKS[min(8, max(0, each - 8 * row))] for each in eighths) for row in rows]


def text(server: str, reading: Reading, now: datetime) -> str:
    """All of it, for a terminal or a pipe."""
    pool, parts = reading.pool, [list(heading(server, reading, now, 0.0))]
    if pool:
        parts += [progress(pool, _TEXT_WIDTH), curve(pool["reward_curve"], _TEXT_WIDTH, 2), [drops(pool)]]
        parts += [list(_table_lines(table)) for table in tables(pool)]
        parts += [["Log", *(line[:_LONGEST] for line in reading.log[-_TEXT_LOG:])]]
    return "\n\n".join("\n".join(line.rstrip() for line in part if line) for part in parts)


def _table_lines(table: Table) -> Iterator[str]:
    rows, more = table.pick(_TEXT_ROWS, table.order)
    yield f"{table.title} ({len(table.rows)})"
    lines = [[(name, name) for name in table.columns], *(cells for _, cells in rows)] if rows else []
    widths = [min(_WIDEST, max(cell_len(text) for _, text in column)) for column in zip(*lines, strict=True)]
    for cells in lines:
        yield "  ".join(
            set_cell_size(text, width) if isinstance(value, str) else text.rjust(width)
            for (value, text), width in zip(cells, widths, strict=True)
        )
    if more:
        yield f"… and {more} more"


def _clean(line: str) -> str:
    """Without what could change the terminal."""
    if line.isprintable():
        return line
    return "".join(letter if letter.isprintable() else " " for letter in Text.from_ansi(line).plain)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
    )
