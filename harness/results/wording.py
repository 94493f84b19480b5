"""Numbers, durations, times and lists as a reader wants them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone


def format_number(value: float, unit: str) -> str:
    """A number as a reader wants it: rates with three decimals, durations in words, counts whole."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "∞" if value > 0 else "−∞"
    if unit == "seconds":
        return format_duration(value)
    if unit == "count":
        return f"{value:,.0f}".replace(",", " ")
    if unit == "rate":
        return f"{value:.3f}"
    if unit == "difference":
        return f"{value:+.3f}".replace("-", "−")
    if value == int(value) and abs(value) < 1e4:
        return str(int(value)).replace("-", "−")
    shown = f"{value:,.0f}".replace(",", " ") if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"
    return shown.replace("-", "−")


def format_duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    if seconds < 0:
        return "−" + format_duration(-seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def format_time(seconds: float | None) -> str:
    """`2026-11-21 14:02:11 UTC`, or a dash."""
    if seconds is None:
        return "—"
    try:
        return datetime.fromtimestamp(seconds, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return "—"


def listed(words: Sequence[str], most: int, separator: str = ", ") -> str:
    """`a, b and 3 more`: the first words, and how many there are beyond `most`."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return separator.join(words[:most]) + more
