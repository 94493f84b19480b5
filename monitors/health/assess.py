"""Alarms of a log that is over.

In: (line number, row) in their order, all of a run or evenly thinned out. Out: its alarms, those that stood
at the end first. A log may hold several runs: where the steps begin anew or leap, another one is judged.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice, pairwise

from monitors.health.course import Course
from monitors.health.types import Alarm
from monitors.metrics import Row

ROWS_PER_WINDOW = 4  # a level is made of a quarter of a short run
LEAP = 50.0  # times the largest step between two rows before
KNOWN_STEPS = 3
BACK_STEPS, BACK_SHARE = 2.0, 0.1  # ranks that print out of turn are still one run

Numbered = tuple[int, Row]


def assess(rows: Iterable[Numbered]) -> list[Alarm]:
    """Judge the runs whose rows these are; [] for healthy ones."""
    every = list(rows)
    return _sorted(alarm for first, end in _runs(every) for alarm in _judge(every[first:end], end - first))


def assess_last(rows: Iterable[Numbered]) -> list[Alarm]:
    """Judge the last run alone, without holding its rows: they are asked for twice."""
    first, end = _runs(rows)[-1]
    return _sorted(_judge(islice(rows, first, end), end - first))


def _sorted(alarms: Iterable[Alarm]) -> list[Alarm]:
    return sorted(alarms, key=lambda alarm: (alarm.passed, not alarm.fatal, not alarm.worthless))


def _judge(run: Iterable[Numbered], count: int) -> list[Alarm]:
    course = Course(window=count // ROWS_PER_WINDOW)
    raised = [alarm for line, row in run for alarm in course.add(row, line)]
    standing = course.at_end()
    kinds = {alarm.kind for alarm in standing}
    passed = {alarm.kind: alarm for alarm in raised if alarm.kind not in kinds}
    return [*standing, *(replace(alarm, passed=True) for alarm in passed.values())]


def _runs(rows: Iterable[Numbered]) -> list[tuple[int, int]]:
    """Where runs begin and end: where the step, or the epoch of rows without one, goes far back or leaps."""
    starts, count = [0], 0
    last: float | None = None
    widest, known = 0.0, 0
    for count, (_, row) in enumerate(rows, start=1):
        at = row.epoch if row.step is None else float(row.step)
        if at is not None and last is not None:
            forward = at - last
            leaps = known >= KNOWN_STEPS and forward > LEAP * widest
            if leaps or -forward > max(BACK_SHARE * last, 0.0 if row.step is None else BACK_STEPS):
                starts.append(count - 1)
                widest, known = 0.0, 0
            elif forward > 0:
                widest, known = max(widest, forward), known + 1
        last = last if at is None else at
    return list(pairwise((*starts, count)))
