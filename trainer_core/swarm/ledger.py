"""What a swarm server must not forget: finished episodes, and which training it has started.

An SQLite file. One thread writes: it takes all that waits, commits it in one transaction that reaches the
disk (`synchronous=FULL`), and takes what has come meanwhile. So a write waits for at most two commits, and
nobody waits for a timer.
"""

from __future__ import annotations

import asyncio
import fcntl
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from trainer_core.types import TrainingError

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
FORMAT = 1
_MOST_AT_ONCE = 2_000


@dataclass(frozen=True)
class Finished:
    """An episode whose end a client was told of; the fields are the columns."""

    uuid: str
    run: str
    """The folder of the training."""
    kind: str
    client: str
    task_id: str
    reward: float
    version: int
    """Optimizer steps that the weights had seen when it was claimed."""
    calls: int
    """Recorded ones; an episode without any trains nothing."""
    digest: str
    """Of what the client reported, to tell the same report again from another one."""
    batch: int | None = None
    """The training step that learns from it."""
    payload: bytes = b""
    """One `records.payload.pack`; empty once a checkpoint holds what was learned."""


_COLUMNS = [each.name for each in fields(Finished)]
_LIGHT = ", ".join(_COLUMNS[:-1])


class Ledger:
    """The file, and the thread that writes it."""

    def __init__(self, path: Path) -> None:
        """Open it, or make it.

        Raises:
            TrainingError: it cannot be opened, another server has it, or a newer version wrote it.
        """
        self.path = path
        self._asked: queue.SimpleQueue[tuple[Work[Any], asyncio.Future[Any]] | None] = queue.SimpleQueue()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = path.with_suffix(".lock").open("a")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            found = self._database.execute("PRAGMA user_version").fetchone()[0]
            if found > FORMAT:
                told = f"{path} has format {found}, this version reads {FORMAT}"
                raise TrainingError(f"{told}; start the version that wrote it")
            self._database.executescript(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                f"CREATE TABLE IF NOT EXISTS finished ({', '.join(_COLUMNS)}, PRIMARY KEY (uuid));"
                "CREATE INDEX IF NOT EXISTS of_batch ON finished (run, batch);"
                "CREATE TABLE IF NOT EXISTS facts (name PRIMARY KEY, value);"
                f"PRAGMA user_version = {FORMAT}"
            )
        except BlockingIOError as error:
            told = f"another swarm server keeps its records in {path.parent}"
            raise TrainingError(f"{told}. End it, or choose another folder with --dir") from error
        except (OSError, sqlite3.Error) as error:
            raise TrainingError(f"the swarm server cannot keep its records in {path}: {error}") from error
        self._thread = threading.Thread(target=self._write, name="ledger", daemon=True)
        self._thread.start()

    async def do(self, work: Work[T]) -> T:
        """What `work` returns, once all that it changed is on the disk.

        Raises:
            sqlite3.Error: it is not, and nothing of it.
        """
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._asked.put((work, done))
        return await done

    def close(self) -> None:
        """Write what is waiting, and let go."""
        self._asked.put(None)
        self._thread.join()
        self._database.close()
        self._lock.close()

    def _write(self) -> None:
        while (first := self._asked.get()) is not None:
            group, is_last = [first], False
            while len(group) < _MOST_AT_ONCE and not self._asked.empty():
                if (more := self._asked.get()) is None:
                    is_last = True
                    break
                group.append(more)
            results, failed = self._commit([work for work, _ in group])
            waiting = [done for _, done in group]
            waiting[0].get_loop().call_soon_threadsafe(_settle, waiting, results, failed)
            if is_last:
                return

    def _commit(self, works: list[Work[Any]]) -> tuple[list[Any], Exception | None]:
        try:
            if self._database.in_transaction:  # the disk did not even let it be taken back
                self._database.execute("ROLLBACK")
            self._database.execute("BEGIN IMMEDIATE")
            results = [work(self._database) for work in works]
            self._database.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - whoever waits is told; the thread goes on
            with suppress(sqlite3.Error):
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
            return [], error
        return results, None


def _settle(waiting: list[asyncio.Future[Any]], results: list[Any], failed: Exception | None) -> None:
    for number, done in enumerate(waiting):
        if done.done():
            continue  # whoever asked has gone; what was asked is done all the same
        if failed is None:
            done.set_result(results[number])
        else:
            done.set_exception(failed)


def add(episode: Finished) -> Work[None]:
    """Keep an episode."""
    marks = ", ".join("?" * len(_COLUMNS))
    row = astuple(episode)

    def work(database: sqlite3.Connection) -> None:
        database.execute(f"INSERT INTO finished VALUES ({marks})", row)

    return work


def known(uuid: str) -> Work[Finished | None]:
    """The episode of this name, without its payload."""
    return lambda database: next(_found(database, "uuid = ?", uuid), None)


def waiting(run: str) -> Work[list[Finished]]:
    """Episodes to train on that are in no batch yet, without payloads."""
    where = "run = ? AND batch IS NULL AND kind = 'train' AND calls > 0"
    return lambda database: list(_found(database, where, run))


def seal(run: str, batch: int, uuids: Iterable[str]) -> Work[None]:
    """From now on these are the episodes of this step, and of no other; and the eval episodes so far."""
    rows = [(batch, run, uuid) for uuid in uuids]

    def work(database: sqlite3.Connection) -> None:
        database.executemany(
            "UPDATE finished SET batch = ? WHERE run = ? AND uuid = ? AND batch IS NULL", rows
        )
        evals = "UPDATE finished SET batch = ? WHERE run = ? AND kind = 'eval' AND batch IS NULL"
        database.execute(evals, (batch, run))

    return work


def is_sealed(run: str, batch: int) -> Work[bool]:
    """True if the episodes of a step are there, for a training that learns from them again."""

    def work(database: sqlite3.Connection) -> bool:
        where = "run = ? AND batch = ? AND kind = 'train' AND payload != x''"
        query = f"SELECT count(*) FROM finished WHERE {where}"
        return bool(database.execute(query, (run, batch)).fetchone()[0])

    return work


@dataclass(frozen=True)
class Handed:
    """What a training is given for a step, each as `records.payload.pack` wrote it."""

    training: list[bytes]
    evaluated: dict[int, list[bytes]]
    """Eval episodes that have ended since the step before, by the weights that they were claimed at."""


def read_batch(path: Path, run: str, batch: int) -> Handed:
    """The episodes of a step, for the training's own process."""
    database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        where = "run = ? AND batch = ? AND payload != x'' ORDER BY rowid"
        query = f"SELECT kind, version, payload FROM finished WHERE {where}"
        handed = Handed([], {})
        for kind, version, payload in database.execute(query, (run, batch)):
            (handed.training if kind == "train" else handed.evaluated.setdefault(version, [])).append(payload)
        return handed
    finally:
        database.close()


def prune(run: str, after: int, saved: int) -> Work[None]:
    """Let go of the payloads that the checkpoint of step `saved` has learned from, since the checkpoint
    `after`; rewards stay."""

    def work(database: sqlite3.Connection) -> None:
        update = "UPDATE finished SET payload = x'' WHERE run = ? AND batch > ? AND batch <= ?"
        database.execute(update, (run, after, saved))

    return work


def leave_out(run: str, batch: int) -> Work[bool]:
    """Note that a training has died at a step. The second time its batch is left out; whether it was."""

    def work(database: sqlite3.Connection) -> bool:
        if not batch or not is_sealed(run, batch)(database):
            return False
        is_again = noted("died_at")(database) == f"{run} {batch}"
        if is_again:
            database.execute("UPDATE finished SET batch = -batch WHERE run = ? AND batch = ?", (run, batch))
        note("died_at", None if is_again else f"{run} {batch}")(database)
        return is_again

    return work


def note(name: str, value: str | None) -> Work[None]:
    """Remember a fact about the engine."""

    def work(database: sqlite3.Connection) -> None:
        database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    return work


def noted(name: str) -> Work[str | None]:
    """What `note` was told last."""

    def work(database: sqlite3.Connection) -> str | None:
        row = database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    return work


def _found(database: sqlite3.Connection, where: str, *values: Any) -> Iterator[Finished]:
    for row in database.execute(f"SELECT {_LIGHT} FROM finished WHERE {where} ORDER BY rowid", values):
        yield Finished(*row)
