"""Expressions that are proposed for a log without known rows read its lines."""

from __future__ import annotations

from monitors.logs import Line
from monitors.metrics import MetricPatterns
from monitors.metrics.propose import propose

LOG = """starting
after 10 rounds the quality is 0.53 (worst 0.2)
saved
after 20 rounds the quality is 0.55 (worst 0.3)
worker 3 done
after 30 rounds the quality is 0.61 (worst 0.31)"""


def lines(text: str) -> list[Line]:
    return [Line(number, line) for number, line in enumerate(text.split("\n"), 1)]


def test_proposal_reads_the_lines_it_was_made_from() -> None:
    (proposal,) = propose(lines(LOG))
    assert proposal.lines == 3
    patterns = MetricPatterns.compile([proposal.expression])
    rows = [row for line in LOG.split("\n") if (row := patterns.parse(line))]
    assert [(row.step, row.values) for row in rows] == [
        (10, {"quality": 0.53, "worst": 0.2}),
        (20, {"quality": 0.55, "worst": 0.3}),
        (30, {"quality": 0.61, "worst": 0.31}),
    ]


def test_nothing_is_proposed_for_what_does_not_come_back_or_only_counts() -> None:
    assert propose(lines("loaded 3 files\nport 8000 is open\nversion 2.1")) == []
    assert propose(lines("\n".join(f"saving checkpoint {number}" for number in range(9)))) == []
    assert propose(lines("\n".join("batch size 32, workers 4" for _ in range(9)))) == []


def test_known_words_come_before_frequent_ones() -> None:
    often = "\n".join(f"shard {number} took {number / 7:.2f}" for number in range(50))
    found = propose(
        lines(
            f"{often}\nthe loss was at last 3.1 now\nthe loss was at last 2.9 now\nthe loss was at last 2 now"
        )
    )
    assert "loss" in found[0].sample


def test_special_characters_and_equal_names_are_harmless() -> None:
    text = "\n".join(
        f"(a+b)* [x] {number} of x {number / 3:.2f} x {number / 2:.2f}?" for number in range(1, 6)
    )
    (proposal,) = propose(lines(text))
    row = MetricPatterns.compile([proposal.expression]).parse(text.split("\n")[2])
    assert row is not None and row.step == 3 and set(row.values) == {"x", "x2"}
