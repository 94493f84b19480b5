"""What is kept of many rows."""

from __future__ import annotations

import random

from monitors.metrics import Row
from monitors.rows import MOST_NAMES, Rows
from monitors.rules import plateau


def test_latest_values_and_histories() -> None:
    rows = Rows()
    assert not rows.add(Row(1, {"loss": 0.5, "critic/rewards/mean": 0.25}))
    assert not rows.add(Row(2, {"loss": 0.4, "val/accuracy": float("nan")}))
    assert rows.add(Row(2, {"val/accuracy": 0.75}))
    assert (rows.count, rows.step, rows.values["loss"]) == (3, 2, 0.4)
    assert (rows.rewards, rows.pass_rates) == ([(1, 0.25)], [(2, 0.75)])


def test_rows_without_a_step_stand_at_their_epoch_or_their_number() -> None:
    rows = Rows()
    rows.add(Row(None, {"loss": 0.5}, 0.25))
    assert (rows.step, rows.place, rows.where) == (None, 0.25, "epoch 0.25")
    counted = Rows()
    for loss in (3.0, 1.0, 2.0):
        counted.add(Row(None, {"loss": loss}))
    assert (counted.step, counted.where, counted.extremes["loss"]) == (None, "row number 3", (1.0, 3.0))


def test_shortened_history_gives_the_same_plateaus() -> None:
    rows, scores, chance = Rows(), list[float](), random.Random(0)
    for step in range(3000):
        scores.append(chance.random() + step / 3000 * chance.random())
        rows.add(Row(step, {"val/accuracy": scores[-1]}))
        kept = [score for _, score in rows.pass_rates]
        assert plateau(kept) == plateau(scores)
    kept_rows, every = rows.pass_rates, list(enumerate(scores))
    assert len(kept_rows) < 500
    assert [kept_rows[0], *kept_rows[-100:]] == [every[0], *every[-100:]]


def test_names_that_never_come_again_do_not_pile_up() -> None:
    rows = Rows()
    for step in range(3 * MOST_NAMES):
        rows.add(Row(step, {f"seen_at_{step}": 1.0}))
    assert len(rows.values) <= MOST_NAMES and f"seen_at_{step}" in rows.values


def test_rows_say_where_the_training_ends() -> None:
    rows = Rows()
    rows.add(Row(None, {"loss": 1.0}, 3.0, epochs=20))
    assert (rows.where, rows.total) == ("epoch 3", 20)
    rows = Rows()
    rows.add(Row(100, {"loss": 1.0}, 1.0, 600, epochs=3))
    assert (rows.where, rows.total) == ("step 100", 1800)
    rows = Rows()
    rows.add(Row(10, {"loss": 1.0}, None, 100))
    rows.add(Row(97, {"loss": 1.0}, None, 97, "test"))
    assert (rows.where, rows.total) == ("step 10", 100)
