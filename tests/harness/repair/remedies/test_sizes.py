"""Sizes as programs print them."""

import pytest

from harness.repair.remedies.sizes import gib, whole


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1.02 GiB", 1.02),
        ("512 MiB", 0.5),
        ("79.15GiB", 79.15),
        ("2 TiB", 2048.0),
        ("1073741824", 1.0),
        ("1073741824 bytes", 1.0),
        ("1 GB", 1e9 / 2**30),
    ],
)
def test_a_size_in_gib(text: str, size: float) -> None:
    assert gib(text) == pytest.approx(size)


@pytest.mark.parametrize(
    "text",
    ["", "?", "GiB", "1.2.3 GiB", "about 3 GiB", "-1 GiB", "inf GiB", "NaN", "9" * 16, f"{'9' * 400}.5 GiB"],
)
def test_anything_else_is_no_size(text: str) -> None:
    assert gib(text) is None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4096", 4096),
        ("32,768", 32768),
        ("", None),
        ("1.5", None),
        ("-1", None),
        ("9" * 5000, None),
        ("²", None),
    ],
)
def test_a_whole_number(text: str, number: int | None) -> None:
    assert whole(text) == number
