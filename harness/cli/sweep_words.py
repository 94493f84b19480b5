"""How a sweep's standing is said: on one line, the same words in the live display, in `show` and in `ls`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from harness.results.text import clean
from harness.sweep.status import PointStanding, RunStanding, Standing, SweepStanding
from harness.wording import number_text

GLYPHS: Mapping[Standing, str] = {"queued": "·", "running": "▸", "done": "✓", "failed": "✗", "cancelled": "–"}
NOT_RUN = "not run"


@lru_cache(maxsize=4096)
def one_line(text: str) -> str:
    """Text from outside on one line, without secrets and control characters."""
    return " ".join(clean(text).split())


def number(value: float) -> str:
    """A metric's value: three decimals where it may be a rate, else four digits."""
    return number_text(value, "rate" if 0.001 <= abs(value) <= 1 or value == 0 else "")


def counted(now: SweepStanding) -> list[tuple[Standing, str]]:
    """`12 of 180 runs done`, `4 running`, `2 failed`, `162 queued`; what is none is left out."""
    words: tuple[tuple[Standing, str], ...] = (
        ("running", "running"), ("failed", "failed"), ("queued", "queued"), ("cancelled", NOT_RUN),
    )  # fmt: skip
    others = [(where, f"{now.counts[where]} {word}") for where, word in words if now.counts[where]]
    return [("done", f"{now.counts['done']} of {len(now.runs)} runs done"), *others]


def tally(now: SweepStanding) -> str:
    """`counted` as one text."""
    return ", ".join(words for _, words in counted(now))


def mean_so_far(point: PointStanding) -> str:
    """`0.872 (2 of 3 seeds)`; a mean of one run says so, whatever is planned."""
    if point.mean is None:
        return "–"
    planned = len(point.runs)
    if point.n == 1:
        seeds = "one seed"
    else:
        seeds = f"{point.n} of {planned} seeds" if point.n < planned else f"{planned} seeds"
    return f"{number(point.mean)} ({seeds})"


def metric_of(now: SweepStanding) -> str:
    """What the values are of; a sweep that names no metric shows what its runs put first."""
    return one_line(now.metric) or "pass rate or reward"


def best_so_far(now: SweepStanding) -> str:
    """The best point with its mean; "" before any run has ended with a value."""
    if now.best is None:
        return ""
    return f"{mean_so_far(now.best)}  {one_line(now.best.label)}  {metric_of(now)}"


def cell(run: RunStanding) -> str:
    """A run in a few characters: a sign of its own for each state, and how far it is or what it came to."""
    glyph = GLYPHS[run.standing]
    if run.standing == "running":
        return f"{glyph} {step(run)}"
    if run.standing == "done":
        return f"{glyph} {number(run.value) if run.value is not None else 'no value'}"
    if run.standing == "failed":
        return f"{glyph} {outcome(run)}"
    return glyph


def step(run: RunStanding) -> str:
    """`120/240`; `starting` before the first."""
    if run.progress.step is None:
        return "starting"
    return f"{run.progress.step}/{run.progress.total}" if run.progress.total else f"step {run.progress.step}"


def outcome(run: RunStanding) -> str:
    """How the run ended, in words."""
    return one_line(run.run.outcome).replace("_", " ")
