"""Texts for numbers, durations, values and labels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import wording


@pytest.mark.parametrize(
    ("seconds", "long", "short", "exact"),
    [
        (0, "0.0 s", "0s", "0 seconds"),
        (7, "7.0 s", "7s", "7 seconds"),
        (65, "1 min 5 s", "1m 05s", "1 minute 5 seconds"),
        (3725, "1 h 2 min", "1h 02m", "1 hour 2 minutes 5 seconds"),
        (93780, "1 d 2 h", "26h 03m", "1 day 2 hours 3 minutes"),
        (None, "—", "–", None),
    ],
)
def test_durations(seconds: float | None, long: str, short: str, exact: str | None) -> None:
    assert (wording.duration(seconds), wording.short_duration(seconds)) == (long, short)
    assert seconds is None or wording.exact_duration(seconds) == exact


@given(st.lists(st.from_regex(r"(arg:--)?[a-z]{1,3}(\.[a-z]{1,3}){0,3}", fullmatch=True), unique=True))
def test_every_short_label_is_an_ending_of_its_key_and_tells_it_apart(keys: list[str]) -> None:
    found = wording.short_labels(keys)

    assert list(found) == keys
    assert all(key.endswith(label) for key, label in found.items())
    assert len({key.rpartition(":")[2].lstrip("-") for key in keys}) < len(keys) or len(
        set(found.values())
    ) == len(keys)


def test_a_point_is_named_by_what_is_changed() -> None:
    labels = wording.short_labels(["a.lr", "b.use_kl"])

    assert wording.point_label({"a.lr": 0.1, "b.use_kl": True}, labels) == "lr=0.1 use_kl=true"
    assert wording.point_label({}, labels) == "baseline"


@given(st.floats(), st.sampled_from(["number", "rate", "difference", "count", "seconds"]))
def test_every_number_has_a_short_text(value: float, unit: str) -> None:
    assert len(wording.number_text(value, unit)) < 30 and len(wording.short_duration(value)) < 30


@given(st.floats(-1e15, 1e15), st.sampled_from(["number", "rate", "difference", "count"]))
def test_a_shown_number_can_be_pasted_into_a_config(value: float, unit: str) -> None:
    text = wording.number_text(value, unit)
    near = pytest.approx(value, rel=1e-3, abs=0.5 if unit == "count" else 1e-3)
    assert text.isascii() and float(text) == near


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("train.csv", "; did you mean train_2023.csv or train_2024.csv?"),
        ("train_203.csv", "; did you mean train_2023.csv?"),
        ("zebra", ""),
    ],
)
def test_of_two_names_that_are_equally_near_both_are_said(word: str, said: str) -> None:
    assert wording.did_you_mean(word, ["train_2023.csv", "train_2024.csv", "loader.py"]) == said
