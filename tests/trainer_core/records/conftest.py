"""Episodes as an agent makes them, and a store of a few."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from trainer_core.records.store import EpisodeStore
from trainer_core.types import Call, Episode, Task


def letters(ids: Sequence[int]) -> list[str]:
    """A tokenizer whose tokens are characters."""
    return [chr(each) for each in ids]


def say(prompt: str, answer: str, **values: Any) -> Call:
    """A call whose tokens are the characters of its texts."""
    return Call(tuple(map(ord, prompt)), tuple(map(ord, answer)), tuple(-0.5 for _ in answer), **values)


def episode(task_id: str = "t", *calls: Call, repeat: int = 0, **values: Any) -> Episode:
    """An episode, by default of one call."""
    task = values.pop("task", None) or Task(task_id, "What?", answer="this")
    return Episode(task, repeat, calls or (say("What? ", "This."),), **values)


@pytest.fixture
def store(tmp_path: Path) -> EpisodeStore:
    """Two training steps and a validation; the second episode of each failed."""
    opened = EpisodeStore(tmp_path / "episodes", writes=True)
    for step in (1, 2):
        good = episode("a", reward=0.25 * step, is_success=step == 2, metrics={"turns": 1.0})
        bad = Episode(Task("b", "Why?"), 1, (), error="the server is gone")
        opened.write("train", step, [good, bad], letters, [0.5, None])
    opened.write("validation", 2, [episode("v", reward=1.0, output="This.")], letters)
    return opened


@pytest.fixture
def reopened(tmp_path: Path) -> Callable[[], EpisodeStore]:
    """The store in `episodes`, opened to be read."""
    return lambda: EpisodeStore(tmp_path / "episodes")
