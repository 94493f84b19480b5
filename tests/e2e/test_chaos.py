"""`tools/chaos.py` on runs and a sweep for some seconds; the soak of an hour is started by hand."""

import json
import random
import zlib
from pathlib import Path

import pytest

from tools.chaos import Chaos
from tools.chaos_machine import Machine
from tools.chaos_runs import KINDS, journal_problems, schedule


@pytest.mark.soak
@pytest.mark.parametrize(("seconds", "runs"), [(8, 1), (240, 6)])
def test_nothing_is_lost_doubled_or_left(tmp_path: Path, seconds: float, runs: int) -> None:
    machine = Machine(tmp_path)
    chaos = Chaos(machine, 5, seconds, runs)
    try:
        chaos.run()
    finally:
        machine.close()
    assert chaos.failures == [], chaos.table()
    assert sum(chaos.done.values()) > runs


def test_a_schedule_follows_from_the_seed() -> None:
    first, again, other = (schedule(random.Random(seed), KINDS, 60) for seed in (7, 7, 8))
    assert first == again != other


@pytest.mark.parametrize(
    ("kinds", "problem"),
    [
        (["created", "finish"], None),
        (["created", "created", "finish"], "begun 2 times"),
        (["created", "finish", "owner"], "last owner"),
        (["created", "damaged", "finish"], "journal.jsonl:2 is damaged"),
    ],
)
def test_its_own_check_of_a_journal(tmp_path: Path, kinds: list[str], problem: str | None) -> None:
    lines = []
    for number, kind in enumerate(kinds, start=1):
        text = json.dumps({"seq": number, "kind": kind})
        crc = zlib.crc32(text.encode()) ^ (kind == "damaged")
        lines.append(f'{text[:-1]},"crc":"{crc:08x}"}}\n')
    (tmp_path / "journal.jsonl").write_text("".join(lines))
    found = list(journal_problems(tmp_path / "journal.jsonl"))
    assert (problem in found[0]) if problem else not found
