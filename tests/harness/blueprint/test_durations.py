"""Lengths of time: published conversions as the oracle, and `describe` as the inverse of `find`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.blueprint import durations
from harness.wording import exact_duration


def seconds(text: str) -> list[float]:
    return [length.seconds for length in durations.find(durations.normalise(text))]


ONE = """
12 hours = 43200|24h = 86400|90 minutes = 5400|1 day 2 hours = 93600|1d2h30m = 95400|1.5h = 5400|45s = 45
1 day, 2 hours and 30 minutes = 95400|1,000 minutes = 60000|half an hour = 1800|twenty-four hours = 86400
01:30:00 = 5400|1-12:00:00 = 129600|${MaxTime} : 12 hours = 43200|a 12-hour limit = 43200|`12 hours` = 43200
-5 hours = -18000|2 weeks = 1209600|12小时 = 43200|１２ 小时 = 43200|30分钟 = 1800|1天2小时 = 93600
十二小时 = 43200|一个半小时 = 5400|2小时半 = 9000
"""


@pytest.mark.parametrize("case", ONE.strip().replace("\n", "|").split("|"))
def test_one_length(case: str) -> None:
    text, _, expected = case.partition(" = ")
    assert seconds(text) == [float(expected)]


NONE = "12|12:00|a 7B model|30M parameters|8 GPUs|step 12|2025-01-01 12:00:00|1 month|v2 d|and|x100 speedup"


@pytest.mark.parametrize("text", NONE.split("|"))
def test_no_length(text: str) -> None:
    assert seconds(text) == []


def test_units_that_do_not_fall_are_two_lengths() -> None:
    assert seconds("2 hours 3 days") == [7200, 259200]
    assert seconds("12 hours. First step: 20 minutes") == [43200, 1200]


OPEN = ["12-24 hours", "12 to 24 hours", "2 x 12 hours", "1 hour and a half", "12 hours or 1 day"]
OPEN += ["12到24小时"]
SINGLE = ["12 hours", "twenty-four hours", "half an hour", "1 day 2 hours", "一个半小时"]


@pytest.mark.parametrize("text", [*OPEN, *SINGLE])
def test_open_lengths_are_told_from_single_ones(text: str) -> None:
    assert durations.is_open(durations.normalise(text)) == (text in OPEN)


@given(st.integers(1, 10**7))
def test_describe_is_read_back(whole: int) -> None:
    assert seconds(exact_duration(whole)) == [whole]


@given(st.text(max_size=80))
def test_any_text_is_searched(text: str) -> None:
    normal = durations.normalise(text)
    for length in durations.find(normal):
        assert normal[length.start : length.end] == length.text


def test_an_option_gives_one_length_of_time_and_nothing_else() -> None:
    lengths = {"12h": 43200.0, "1 hour 30 minutes": 5400.0, "half an hour.": 1800.0}
    assert {text: durations.single(text) for text in lengths} == lengths
    for text in ("12-24h", "2 x 12 h", "12h tomorrow", "3600", "0h", ""):
        assert durations.single(text) is None
