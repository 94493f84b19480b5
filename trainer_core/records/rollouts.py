"""`ajet rollouts`: list recorded episodes, show one as text, or write one as a page.

Exit codes: 0 ok, 1 what was asked for is not there or cannot be read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from trainer_core.records.page import episode_page, facts, texts, title
from trainer_core.records.payload import shared_beginnings
from trainer_core.records.secrets import MASKED
from trainer_core.records.store import INDEX, EpisodeStore, Record, RecordsError
from trainer_core.tracking.atomic import write_atomically

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)

_SORTS = {
    **{name: name for name in ("id", "step", "reward", "seconds")},
    **{"task": "task_id", "tokens": "prompt_tokens + sampled_tokens"},
}
_PLACES = ("", "episodes", "trainer/episodes")
_HEADS = ("id", "step", "split", "task", "try", "reward", "ended", "calls", "prompt", "sampled", "seconds")


@app.command(help="List the episodes that a training recorded, or show one of them.")
def rollouts(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The training's folder, or the harness's around it.")
    ],
    step: Annotated[int | None, typer.Option(help="Only of this step.")] = None,
    split: Annotated[str | None, typer.Option(help="Only of this split: train or validation.")] = None,
    task: Annotated[str | None, typer.Option(help="Only of the task with this id.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only those that ended in an error.")] = False,
    min_reward: Annotated[float | None, typer.Option(help="Only with at least this reward.")] = None,
    max_reward: Annotated[float | None, typer.Option(help="Only with at most this reward.")] = None,
    sort: Annotated[
        str, typer.Option(help=f"One of {', '.join(_SORTS)}; with a `-` before it, the largest first.")
    ] = "id",
    limit: Annotated[int, typer.Option(help="List at most so many; 0: all.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    show: Annotated[
        int | None, typer.Option(metavar="EPISODE", help="Show the episode with this id.")
    ] = None,
    html: Annotated[
        int | None, typer.Option(metavar="EPISODE", help="Write the episode with this id as a page.")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", help="The file of that page.")] = None,
) -> None:
    """Parse, call, print."""
    if sort.removeprefix("-") not in _SORTS:
        raise typer.BadParameter(f"choose one of {', '.join(_SORTS)}", param_hint="--sort")
    filters = {
        "split = ?": split,
        "step = ?": step,
        "task_id = ?": task,
        "reward >= ?": min_reward,
        "reward <= ?": max_reward,
        "(error IS NOT NULL) = ?": True if failed else None,
    }
    chosen = {condition: value for condition, value in filters.items() if value is not None}
    try:
        with closing(EpisodeStore(_store_in(folder))) as store:
            if html is not None:
                path = output or Path(f"episode-{html}.html")
                write_atomically(path, episode_page(store, _record(store, html)))
                typer.echo(path)
            elif show is not None:
                record = _record(store, show)
                _print_json(_episode_json(store, record)) if as_json else _print_episode(store, record)
            else:
                order = f"{_SORTS[sort.removeprefix('-')]} {'DESC' if sort.startswith('-') else 'ASC'}, id"
                where = " AND ".join(chosen) or "1"
                records = store.records(where, [*chosen.values()], order=order, limit=limit or -1)
                count = store.count(where, [*chosen.values()])
                _print_json([_as_json(one) for one in records]) if as_json else _print_table(records, count)
    except (RecordsError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None


def _store_in(folder: Path) -> Path:
    """The folder of the index; of a harness's result folder that of its last attempt.

    Raises:
        RecordsError: there is none.
    """
    attempts = sorted(folder.glob("attempts/*/trainer/episodes"), reverse=True)
    for place in (*(folder / name for name in _PLACES), *attempts):
        if (place / INDEX).is_file():
            return place
    raise RecordsError(
        f"there are no records of episodes in {folder}. Name the folder of a training, such as "
        "launcher_record/NAME, or of one attempt of an experiment, such as exp_results/NAME/attempts/01"
    )


def _record(store: EpisodeStore, number: int) -> Record:
    for record in store.records("id = ?", [number]):
        return record
    raise RecordsError(f"there is no episode {number} in {store.folder}. List them without --show and --html")


def _print_table(records: Sequence[Record], count: int) -> None:
    rows = [_HEADS, *map(_cells, records)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = ["<" if head in ("split", "task", "ended") else ">" for head in _HEADS]
    for row in rows:
        cells = (f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())
    if count > len(records):
        typer.echo(f"{count - len(records)} more; --limit 0 lists all {count}")


def _cells(record: Record) -> tuple[str, ...]:
    task = " ".join(record.task_id.split())
    return (
        *(str(record.id), str(record.step), record.split),
        *(task if len(task) <= 40 else task[:39] + "…", str(record.repeat + 1)),
        "-" if record.reward is None else f"{record.reward:.4g}",
        *(record.stop_reason, str(record.calls)),
        *(str(record.prompt_tokens), str(record.sampled_tokens), f"{record.seconds:.2f}"),
    )


def _print_episode(store: EpisodeStore, record: Record) -> None:
    episode = store.read(record)
    lines = [title(record), ", ".join(f"{name} {value}" for name, value in facts(record))]
    for name, text in texts(episode):
        lines += ["", f"--- {name}", text]
    beginnings = shared_beginnings(episode.calls)
    for number, (call, (after, kept)) in enumerate(zip(episode.calls, beginnings, strict=True), 1):
        head = f"--- call {number}{f' of {call.agent}' if call.agent else ''}"
        behind = "" if after is None else f", after {kept} tokens that call {after + 1} has"
        prompt, drawn = call.prompt_ids[kept:], call.completion_ids
        lines += ["", f"{head}: prompt, {len(prompt)} tokens{behind}", _joined(store, prompt)]
        lines += ["", f"{head}: {len(drawn)} sampled tokens, {call.finish_reason}", _joined(store, drawn)]
    typer.echo("\n".join(lines))


def _joined(store: EpisodeStore, ids: Iterable[int]) -> str:
    """The text of tokens; a stretch of masked ones is one."""
    runs = groupby(ids, key=lambda each: each == MASKED)
    each_once = (each for is_masked, run in runs for each in ((MASKED,) if is_masked else run))
    return "".join(store.pieces.get(each, "�") for each in each_once)


def _as_json(record: Record) -> dict[str, Any]:
    where = {"frame_at", "frame_bytes", "at"}
    shown = {name: value for name, value in vars(record).items() if name not in where}
    return shown | {"metrics": json.loads(record.metrics)}


def _episode_json(store: EpisodeStore, record: Record) -> dict[str, Any]:
    episode = store.read(record)
    calls = []
    for call in episode.calls:
        prompt, completion = _joined(store, call.prompt_ids), _joined(store, call.completion_ids)
        calls.append(vars(call) | {"prompt": prompt, "completion": completion})
    whole = vars(episode) | {"task": vars(episode.task), "calls": calls}
    return {"record": _as_json(record), "episode": whole}


def _print_json(value: Any) -> None:
    json.dump(value, sys.stdout, ensure_ascii=False)
    typer.echo()
