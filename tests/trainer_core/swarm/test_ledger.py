"""What the ledger keeps, and what it says where it cannot."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from trainer_core.swarm import ledger as rows
from trainer_core.swarm.ledger import Finished, Ledger, read_batch
from trainer_core.types import TrainingError

ONE = Finished("one", "run", "train", "client", "task", 0.5, 3, 1, "digest", payload=b"what was said")


async def test_what_is_done_is_on_the_disk_for_others(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "swarm.sqlite")
    names = [f"episode {number}" for number in range(500)]
    await asyncio.gather(*(ledger.do(rows.add(replace(ONE, uuid=name))) for name in names))
    other = sqlite3.connect(tmp_path / "swarm.sqlite")
    assert [row[0] for row in other.execute("SELECT uuid FROM finished ORDER BY rowid")] == names
    other.close()
    ledger.close()
    again = Ledger(tmp_path / "swarm.sqlite")
    with pytest.raises(TrainingError, match="another swarm server keeps its records"):
        Ledger(tmp_path / "swarm.sqlite")
    found = await again.do(rows.known("episode 7"))
    assert found == replace(ONE, uuid="episode 7", payload=b"")
    again.close()


async def test_an_episode_is_in_one_batch_and_its_payload_goes_with_the_checkpoint(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "swarm.sqlite")
    for number, version in enumerate((1, 2, 3, 3)):
        await ledger.do(rows.add(replace(ONE, uuid=str(number), version=version, payload=b"%d" % number)))
    await ledger.do(rows.add(replace(ONE, uuid="eval", kind="eval", payload=b"seen at 3")))
    await ledger.do(rows.add(replace(ONE, uuid="silent", calls=0)))
    assert [each.uuid for each in await ledger.do(rows.waiting("run"))] == ["0", "1", "2", "3"]
    await ledger.do(rows.seal("run", 4, ["2", "3"]))
    await ledger.do(rows.seal("run", 5, ["3", "1"]))
    handed = read_batch(ledger.path, "run", 4)
    assert (handed.training, handed.evaluated) == ([b"2", b"3"], {3: [b"seen at 3"]})
    assert read_batch(ledger.path, "run", 5).training == [b"1"]
    assert await ledger.do(rows.is_sealed("run", 4)) and not await ledger.do(rows.is_sealed("run", 6))
    await ledger.do(rows.prune("run", 0, 4))
    assert not await ledger.do(rows.is_sealed("run", 4)) and await ledger.do(rows.is_sealed("run", 5))
    assert (await ledger.do(rows.known("2"))).reward == 0.5  # type: ignore[union-attr]
    ledger.close()


async def test_a_full_disk_is_told_to_all_that_wait_and_the_next_write_is_tried(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "swarm.sqlite")
    await ledger.do(rows.add(ONE))
    await ledger.do(lambda database: database.execute("PRAGMA max_page_count = 1"))
    big = [ledger.do(rows.add(replace(ONE, uuid=str(n), payload=bytes(100_000)))) for n in range(3)]
    failed = await asyncio.gather(*big, return_exceptions=True)
    assert all(isinstance(each, sqlite3.OperationalError) and "full" in str(each) for each in failed)
    await ledger.do(lambda database: database.execute("PRAGMA max_page_count = 100000"))
    await ledger.do(rows.add(replace(ONE, uuid="later")))
    assert await ledger.do(rows.known("later")) is not None and await ledger.do(rows.known("0")) is None
    ledger.close()


async def test_what_goes_wrong_in_one_piece_of_work_ends_nothing_else(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "swarm.sqlite")
    with pytest.raises(ZeroDivisionError):
        await ledger.do(lambda database: 1 / 0)
    await ledger.do(rows.note("name", "value"))
    assert await ledger.do(rows.noted("name")) == "value" and await ledger.do(rows.noted("other")) is None
    ledger.close()


def test_a_ledger_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    newer = sqlite3.connect(tmp_path / "swarm.sqlite")
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    with pytest.raises(TrainingError, match="has format 99, this version reads 1"):
        Ledger(tmp_path / "swarm.sqlite")
    with pytest.raises(TrainingError, match="cannot keep its records"):
        Ledger(tmp_path / "swarm.sqlite" / "below" / "a file")


async def test_a_disk_that_does_not_even_take_a_change_back_ends_nothing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "swarm.sqlite")
    real, failures = ledger._database, ["COMMIT", "ROLLBACK"]

    def execute(statement: str, *values: object) -> sqlite3.Cursor:
        if failures and statement == failures[0]:
            raise sqlite3.OperationalError(f"disk I/O error in {failures.pop(0)}")
        return real.execute(statement, *values)

    class Failing:
        in_transaction = property(lambda self: real.in_transaction)

    ledger._database = Failing()  # type: ignore[assignment]
    ledger._database.execute, ledger._database.close = execute, real.close  # type: ignore[method-assign]
    with pytest.raises(sqlite3.OperationalError, match="in COMMIT"):
        await ledger.do(rows.add(ONE))
    assert not failures and await ledger.do(rows.known("one")) is None
    await ledger.do(rows.add(ONE))
    assert await ledger.do(rows.known("one")) is not None
    ledger.close()
