"""Who is waited for."""

from dataclasses import dataclass
from typing import Any

from trainer_core.rollout.progress import Progress
from trainer_core.types import Task


@dataclass
class Opened:
    """As much of an open episode as is looked at."""

    calls: int = 0
    tokens: int = 0
    in_flight: int = 0
    last_activity: float = 0.0


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_line_names_those_waited_for_longest_with_phase_and_time() -> None:
    clock = Clock()
    progress = Progress(8, clock)
    episodes: dict[str, Any] = {}
    for name in "abcd":
        episodes[name] = progress.start(Task(name, "q"), 0)
        episodes[name].opened = Opened()
        clock.now += 1
    episodes["b"].opened = Opened(calls=1, tokens=300, in_flight=1, last_activity=102.0)
    episodes["c"].opened = Opened(calls=2, tokens=200, last_activity=108.0)
    clock.now = 110.0
    assert progress.line() == (
        "rollout of 8 episodes: 4 running, 0 finished, 0 failed, 50 tokens/s; waiting for "
        "a#0 (starting for 10 s, 10 s in all), b#0 (calling the model for 8 s, 9 s in all), "
        "c#0 (user code for 2 s, 8 s in all)"
    )


def test_ended_episodes_are_counted_and_a_judge_is_waited_for() -> None:
    clock = Clock()
    progress = Progress(2, clock)
    good, bad = progress.start(Task("a", "q"), 0), progress.start(Task("a", "q"), 1)
    good.opened = Opened(tokens=40)  # type: ignore[assignment]
    progress.end_try(good)
    clock.now += 4
    assert progress.end(good) == 4.0
    progress.end(bad, failed=True)
    judging = progress.start(Task("a", "q"))
    clock.now += 6
    assert progress.line() == (
        "rollout of 2 episodes: 0 running, 1 finished, 1 failed, 4 tokens/s; waiting for "
        "a (judging for 6 s, 6 s in all)"
    )
    progress.end(judging)
    clock.now += 5
    assert progress.line() == "rollout of 2 episodes: 0 running, 1 finished, 1 failed, 0 tokens/s"
