"""Many episodes on disk: an SQLite index and a file of compressed payloads; docs/rollouts.md has the format.

A payload is appended before the index names it, and the index changes in transactions: whatever ends the
process, everything that the index names is whole, and what it does not name is cut off by the next writer.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Mapping
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, fields
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, Literal

from trainer_core.records.payload import compress, decode, decompress, encode
from trainer_core.records.secrets import MASK, MASKED, masked_episode, masked_task
from trainer_core.types import Episode, TrainingError

FORMAT = 1
INDEX, PAYLOADS = "index.sqlite", "payloads.zst"
_FRAME_BYTES = 1 << 20  # an episode's frame holds those that begin within so many; all are read to read one
Split = Literal["train", "validation"]
Pieces = Callable[[SequenceOf[int]], SequenceOf[str]]


class RecordsError(TrainingError):
    """Records cannot be read; the message says which, why, and what to do."""


@dataclass(frozen=True)
class Record:
    """One row of the index; the fields are its columns."""

    id: int
    split: Split
    step: int
    """The training step; of a validation the step after which it was made."""
    task_id: str
    repeat: int
    reward: float | None
    is_success: bool
    stop_reason: str
    error: str | None
    calls: int
    prompt_tokens: int
    """Of all calls together, each with the history that it repeats."""
    sampled_tokens: int
    seconds: float
    """From the episode's begin to the end of its last call."""
    weight_version: int | None
    """The oldest that one of its calls was sampled from; None: no calls."""
    advantage: float | None
    """Mean over its trained tokens; None where it was not trained on."""
    metrics: str
    """A JSON object."""
    frame_at: int
    """Where its zstd frame begins in the file of payloads."""
    frame_bytes: int
    at: int
    """Where the episode begins in the decompressed frame."""


_COLUMNS = ", ".join(field.name for field in fields(Record))


class EpisodeStore:
    """The episodes of one experiment. One process writes; others may read meanwhile."""

    pieces: dict[int, str]
    """The text of each token that any episode has."""

    def __init__(self, folder: Path, *, writes: bool = False) -> None:
        """Open a store; a writer makes one where there is none, and cuts off what a crash left half written.

        Raises:
            RecordsError: there is none, it is of a newer format, or it is no such store.
            OSError, sqlite3.Error: a writer cannot make or repair it.
        """
        self.folder = folder
        if writes:
            folder.mkdir(parents=True, exist_ok=True)
        elif not (folder / INDEX).is_file():
            raise RecordsError(f"there are no records of episodes in {folder}: {INDEX} is missing")
        mode = "rwc" if writes else "ro"
        where = f"{(folder / INDEX).absolute().as_uri()}?mode={mode}"
        self._index = sqlite3.connect(where, uri=True, check_same_thread=False)
        try:
            self._check_format(writes)
            if writes:
                self._repair()
            self._read_pieces()
        except sqlite3.DatabaseError as error:
            self._index.close()
            if writes and isinstance(error, sqlite3.OperationalError):
                raise
            raise RecordsError(f"{folder / INDEX} cannot be read: {error}") from error
        except BaseException:
            self._index.close()
            raise

    def drop_after(self, steps: Mapping[Split, int | None]) -> None:
        """Forget the episodes of later steps than the one named for their split; None forgets all."""
        with self._index:
            for split, step in steps.items():
                later = (split, -1 if step is None else step)
                self._index.execute("DELETE FROM episodes WHERE split = ? AND step > ?", later)
        self._repair()
        self._read_pieces()

    def write(
        self,
        split: Split,
        step: int,
        episodes: SequenceOf[Episode],
        pieces: Pieces,
        advantages: SequenceOf[float | None] = (),
    ) -> None:
        """Add the episodes of a step, without the secrets that `secrets` knows, all or none.

        Args:
            pieces: the text of each token.
            advantages: of each episode; () where they have none.

        Raises:
            OSError, sqlite3.Error: they cannot be written.
        """
        calls = [call for one in episodes for call in one.calls]
        used = {each for call in calls for ids in (call.prompt_ids, call.completion_ids) for each in ids}
        new = sorted(used - self.pieces.keys())
        grown = dict(zip(new, pieces(new), strict=True)) if new else {}
        known = self.pieces | grown
        tasks = {id(one.task): masked_task(one.task) for one in episodes}
        masked = [masked_episode(one, tasks[id(one.task)], known) for one in episodes]
        given = advantages or [None] * len(episodes)
        places = self._append([encode(one) for one in masked])
        rows = [_row(split, step, *each) for each in zip(masked, given, places, strict=True)]
        with self._index:
            self._index.executemany("INSERT INTO pieces VALUES (?, ?)", grown.items())
            marks = ", ".join("?" * len(fields(Record)))
            self._index.executemany(f"INSERT INTO episodes ({_COLUMNS}) VALUES ({marks})", rows)
        self.pieces = known

    def records(
        self, where: str = "1", values: SequenceOf[Any] = (), *, order: str = "id", limit: int = -1
    ) -> list[Record]:
        """The first `limit` rows (-1: all) that an SQL condition holds for, in the order they were written or
        by an SQL `order`."""
        query = f"SELECT {_COLUMNS} FROM episodes WHERE {where} ORDER BY {order} LIMIT ?"
        rows = self._index.execute(query, (*values, limit))
        named = (dict(zip(_COLUMNS.split(", "), row, strict=True)) for row in rows)
        return [Record(**each | {"is_success": bool(each["is_success"])}) for each in named]

    def count(self, where: str = "1", values: SequenceOf[Any] = ()) -> int:
        """How many rows an SQL condition holds for."""
        found: int = self._index.execute(f"SELECT count(*) FROM episodes WHERE {where}", values).fetchone()[0]
        return found

    def read(self, record: Record) -> Episode:
        """The episode of a row, as it was written: tokens of secrets have the id `MASKED`.

        Raises:
            RecordsError: its payload is missing or damaged.
        """
        path = self.folder / PAYLOADS
        try:
            with path.open("rb") as file:
                file.seek(record.frame_at)
                return decode(decompress(file.read(record.frame_bytes)), record.at)[0]
        except (OSError, ValueError) as error:
            told = f"the payload of episode {record.id} in {path} cannot be read ({error})"
            raise RecordsError(f"{told}; others may be whole") from error

    def close(self) -> None:
        """Let go; a writer leaves one file of index that can be read from a read-only disk."""
        try:
            self._index.execute("PRAGMA busy_timeout = 0")
            self._index.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error:
            pass  # somebody is reading, or this is no writer: the index is whole with its -wal file
        self._index.close()

    def _check_format(self, writes: bool) -> None:
        found = self._index.execute("PRAGMA user_version").fetchone()[0]
        if found > FORMAT or (found < FORMAT and not writes):
            raise RecordsError(
                f"{self.folder / INDEX} has format {found}, this version reads {FORMAT}. "
                "Read it with the version that wrote it"
            )
        if writes:
            columns = _COLUMNS.replace("id,", "id INTEGER PRIMARY KEY,", 1)
            self._index.executescript(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; BEGIN;"
                f"CREATE TABLE IF NOT EXISTS episodes ({columns});"
                "CREATE TABLE IF NOT EXISTS pieces (id INTEGER PRIMARY KEY, piece TEXT);"
                f"PRAGMA user_version = {FORMAT}; COMMIT"
            )

    def _repair(self) -> None:
        """Forget rows whose payload a power cut took, and payloads that no row names."""
        path = self.folder / PAYLOADS
        path.touch()
        size = path.stat().st_size
        with self._index:
            self._index.execute("DELETE FROM episodes WHERE frame_at + frame_bytes > ?", (size,))
            end = self._index.execute("SELECT max(frame_at + frame_bytes) FROM episodes").fetchone()[0]
            if end is None:  # whoever writes next may have another tokenizer
                self._index.execute("DELETE FROM pieces")
        os.truncate(path, end or 0)

    def _read_pieces(self) -> None:
        self.pieces = {MASKED: MASK} | dict(self._index.execute("SELECT id, piece FROM pieces"))

    def _append(self, payloads: SequenceOf[bytes]) -> list[tuple[int, int, int]]:
        """Write payloads to the end of the file; the place of each: frame, its length, where in it."""
        places: list[tuple[int, int, int]] = []
        begun = zip(accumulate(map(len, payloads), initial=0), payloads, strict=False)
        with (self.folder / PAYLOADS).open("ab") as file:
            for _, chosen in groupby(begun, key=lambda each: each[0] // _FRAME_BYTES):
                begins, contents = zip(*chosen, strict=True)
                at, frame = file.tell(), compress(b"".join(contents))
                file.write(frame)
                places += [(at, len(frame), begin - begins[0]) for begin in begins]
        return places


def _row(
    split: Split, step: int, episode: Episode, advantage: float | None, place: tuple[int, int, int]
) -> tuple[Any, ...]:
    calls = episode.calls
    return (
        None,
        split,
        step,
        _text(episode.task.task_id),
        episode.repeat,
        episode.reward,
        episode.is_success,
        episode.stop_reason,
        None if episode.error is None else _text(episode.error),
        len(calls),
        sum(len(call.prompt_ids) for call in calls),
        sum(len(call.completion_ids) for call in calls),
        max((call.started + call.seconds for call in calls), default=0.0),
        min((call.weight_version for call in calls), default=None),
        advantage,
        json.dumps(dict(episode.metrics)),
        *place,
    )


def _text(text: str) -> str:
    """Without surrogates, which SQLite does not take."""
    return text.encode("utf-8", "backslashreplace").decode()
