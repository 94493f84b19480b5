"""What the training takes of a batch."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from trainer_core.swarm.gate import without_lone
from trainer_core.types import Call, Episode, Task

CALL = Call((1, 2), (3,), (-0.1,))


@pytest.mark.parametrize(
    ("tasks", "trained"), [("aab", "aa"), ("aabbb", "aabbb"), ("abc", "abc"), ("a", "a"), ("", "")]
)
def test_an_episode_alone_in_its_task_is_not_trained_beside_groups(
    tasks: Sequence[str], trained: Sequence[str]
) -> None:
    episodes = [Episode(Task(task, ""), 0, (CALL,), "x", reward=1.0) for task in tasks]
    found = without_lone(episodes)
    assert [each.task.task_id for each in found] == [*tasks], "each is counted"
    assert [each.task.task_id for each in found if each.calls] == [*trained]
    assert sum(each.metrics.get("rollout/lone", 0.0) for each in found) == len(tasks) - len(trained)
