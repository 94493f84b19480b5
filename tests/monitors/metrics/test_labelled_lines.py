"""The labelled logs of the benchmark: what was once read stays read, and ordinary lines stay ordinary."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from benchmarks.metric_recall import SETS, score


@pytest.mark.parametrize("name", sorted(file.stem for file in SETS.glob("*.jsonl")))
def test_rows_of_labelled_logs_are_found_and_nothing_else(name: str) -> None:
    total: Counter[str] = Counter()
    for line in (SETS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        total += score(json.loads(line))[0]
    assert total["found"] >= 0.93 * total["rows"]
    assert total["matched"] >= 0.97 * total["read"]
    assert total["false"] <= 2
