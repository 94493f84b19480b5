"""Numbers in sentences: value, unit, printed precision; names, versions and dates are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.results.claims.quantities import quantities
from harness.results.claims.quantity import Quantity


def only(sentence: str) -> Quantity:
    (found,) = quantities(sentence)
    return found


@pytest.mark.parametrize(
    ("sentence", "value", "form"),
    [
        ("it was 0.872", 0.872, "plain"),
        ("it was 87.2 %", 0.872, "percent"),
        ("by 57.5 percentage points", 0.575, "points"),
        ("a KL of 5e-4", 5e-4, "plain"),
        ("a KL of 5 × 10^-4", 5e-4, "plain"),
        ("12,800 tokens", 12_800, "plain"),
        ("12 800 tokens", 12_800, "plain"),
        ("2.6k tokens", 2_600, "plain"),
        ("after 2 h 5 min", 7_500, "seconds"),
        ("about 90 minutes", 5_400, "seconds"),
        ("a change of −0.03", -0.03, "plain"),
        ("it was 1.5x as fast", 1.5, "ratio"),
        ("3 times higher", 3, "ratio"),
        ("it doubled", 2, "ratio"),
        ("half of the tasks", 0.5, "percent"),
        ("three attempts", 3, "plain"),
        ("for 0.42 USD or $0.42", 0.42, "plain"),
    ],
)
def test_numbers_are_read_as_meant(sentence: str, value: float, form: str) -> None:
    first = quantities(sentence)[0]
    assert (first.value, first.form) == (pytest.approx(value), form)


def test_a_share_names_its_total() -> None:
    assert (only("3 of 5 runs").value, only("3 of 5 runs").total) == (3, 5)
    assert (only("two of the three seeds").value, only("two of the three seeds").total) == (2, 3)


@pytest.mark.parametrize(
    "sentence",
    [
        "GPT-4 and an 8B model",
        "version 2.1.3 of 2026-11-21",
        "at 14:02:11",
        "see section 3",
        "the 95 % interval",
        "pass@4",
        "on an A100",
        "with alert(1)",
    ],
)
def test_names_versions_and_dates_are_no_numbers(sentence: str) -> None:
    assert quantities(sentence) == []


@pytest.mark.parametrize(
    ("sentence", "value", "agrees"),
    [
        ("0.87", 0.8749, True),
        ("0.88", 0.8749, False),
        ("nearly 0.88", 0.8749, True),
        ("about 0.9", 0.8749, True),
        ("about 0.89", 0.8749, False),
        ("about 90 minutes", 87 * 60, True),
        ("90 minutes", 87 * 60, False),
        ("about 90 minutes", 80 * 60, False),
        ("more than 0.85", 0.8749, True),
        ("more than 0.88", 0.8749, False),
    ],
)
def test_the_printed_digits_bind(sentence: str, value: float, agrees: bool) -> None:
    assert only(sentence).agrees(value) is agrees


@given(st.floats(0.001, 9999, allow_nan=False), st.integers(0, 4))
def test_a_number_agrees_with_what_it_was_printed_from(value: float, digits: int) -> None:
    found = only(f"it was {value:.{digits}f} then")
    assert found.agrees(value)
    assert not found.agrees(value + 1.2 * 10**-digits)
