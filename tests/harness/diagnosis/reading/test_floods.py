"""Floods: lines of the same kind are counted, others are not missed for them."""

from pathlib import Path

import pytest

from harness.diagnosis.reading.faults import MOST_FAULTS
from tests.harness.diagnosis.reading.reading_text import log_of

FLOOD = 1500
COUNT = 3 * FLOOD
TRACEBACK = 'Traceback (most recent call last):\n  File "/opt/a.py", line 3, in {}\n    main()\n'
RARE = TRACEBACK.format("<module>") + "KeyError: 'rare'\n"


def flood(count: int, shape: str = "2026-11-21 06:12:13,825 ERROR [w] request {} failed\n") -> list[str]:
    return [shape.format(index) for index in range(count)]


def test_lines_of_one_shape_are_counted_and_the_first_and_last_kept(tmp_path: Path) -> None:
    faults = log_of(tmp_path, "".join(flood(COUNT))).faults
    assert len(faults) < 10
    assert {(fault.count, fault.last) for fault in faults} == {(COUNT, COUNT)}
    assert (faults[0].line, faults[-1].line) == (1, COUNT)


@pytest.mark.parametrize("place", [0, 10, FLOOD, COUNT - 1, COUNT])
def test_another_error_in_a_flood_is_found_with_its_frames(tmp_path: Path, place: int) -> None:
    lines = flood(COUNT)
    lines.insert(place, RARE)
    (rare,) = [fault for fault in log_of(tmp_path, "".join(lines)).faults if fault.type]
    assert (rare.type, rare.line, rare.count) == ("KeyError", place + 4, 1)
    assert [frame.function for frame in rare.frames] == ["<module>"]


def test_another_error_in_a_flood_of_tracebacks_is_found(tmp_path: Path) -> None:
    block = TRACEBACK.format("run") + "ConnectionError: no {}\n"
    lines = flood(12_000, block)
    lines.insert(11_000, RARE)
    faults = log_of(tmp_path, "".join(lines)).faults
    assert [fault.frames[-1].function for fault in faults if fault.type == "KeyError"] == ["<module>"]
    assert max(fault.count for fault in faults) >= 12_000


def test_the_last_of_many_may_be_the_one_that_ended_it(tmp_path: Path) -> None:
    got_over = TRACEBACK.format("run") + "ConnectionError: no 1\nretrying\n"
    fatal = TRACEBACK.format("<module>") + "ConnectionError: no 2\n"
    noise = [f"INFO all is well {'ok' * 40}\n"] * 100
    lines = [*noise, *[got_over, *noise] * 50, fatal, *noise]
    last = log_of(tmp_path, "".join(lines)).faults[-1]
    assert (last.said[0], last.uncaught, last.handled) == ("ConnectionError: no 2", True, False)


def test_a_flood_of_lines_that_all_differ_stays_bounded(tmp_path: Path) -> None:
    letters = "ghijklmnopqrstuvwxyz"
    lines = [
        f"ERROR {''.join(letters[index // 20**place % 20] for place in range(5))} went wrong\n"
        for index in range(30_000)
    ]
    log = log_of(tmp_path, "".join([*lines, RARE]))
    assert len(log.faults) <= MOST_FAULTS
    assert log.faults[-1].type == "KeyError"


@pytest.mark.parametrize("block_bytes", [64, 1000, 10_000])
def test_where_blocks_are_cut_does_not_matter(tmp_path: Path, block_bytes: int) -> None:
    noise = [f"INFO step {index} is fine\n" for index in range(200)]
    text = "".join([*noise, RARE, *noise, "Killed\n", *noise])
    assert log_of(tmp_path, text, block_bytes=block_bytes).faults == log_of(tmp_path, text).faults
