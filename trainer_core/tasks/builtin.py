"""Toy tasks that need no data file, learnable by a model of a hundred thousand parameters.

Questions are strings of digits. The splits share no digit multiset: a permutation of a validation question
is never trained on.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from trainer_core.types import DataError, Task, TaskSplits


def _even_digits(question: str) -> str:
    return "".join(digit for digit in question if digit in "02468")


TOYS: dict[str, Callable[[str], str]] = {
    "sort_digits": lambda question: "".join(sorted(question)),  # 52831 → 12358
    "reverse_digits": lambda question: question[::-1],  # 52831 → 13825
    "even_digits": _even_digits,  # 52831 → 28
}
"""Name → from a question to its answer. A question whose answer would be empty is not asked."""

_QUESTIONS = 8_000
_WARMUP_TASKS = 128


def make_toy(name: str, *, digits: int, num_validation_tasks: int, split_seed: int) -> TaskSplits:
    """Questions of `digits` digits, drawn uniformly, split by digit multiset.

    Up to 8,000 different questions are drawn. Multisets in an order shuffled with `split_seed` first fill
    the validation split, then the warm-up split (at most half as many and at most 128 tasks), one question
    per multiset; all questions of the others are for training.

    Raises:
        DataError: unknown toy, or too few multisets for that many validation tasks.
    """
    if name not in TOYS:
        raise DataError(f"task_reader.builtin.name: no toy called {name!r}; there are {', '.join(TOYS)}")
    by_multiset = _questions_by_multiset(TOYS[name], digits, random.Random(split_seed))
    warmup_tasks = max(1, min(_WARMUP_TASKS, num_validation_tasks // 2))
    if num_validation_tasks + warmup_tasks >= len(by_multiset):
        raise DataError(
            f"task_reader.builtin: {name} with {digits} digits has {len(by_multiset)} groups of "
            "questions, too few for "
            f"{num_validation_tasks} validation tasks, {warmup_tasks} for the warm-up and some to train on; "
            "ask for more digits or lower num_validation_tasks"
        )
    groups = list(by_multiset.values())
    random.Random(split_seed + 1).shuffle(groups)
    validation = groups[:num_validation_tasks]
    warmup = groups[num_validation_tasks : num_validation_tasks + warmup_tasks]
    training = groups[num_validation_tasks + warmup_tasks :]
    return TaskSplits(
        training=_tasks(name, [question for group in training for question in group]),
        validation=_tasks(name, [group[0] for group in validation]),
        warmup=_tasks(name, [group[0] for group in warmup]),
    )


def _questions_by_multiset(
    solve: Callable[[str], str], digits: int, rng: random.Random
) -> dict[str, list[str]]:
    total: int = 10**digits
    drawn = range(total) if total <= _QUESTIONS else rng.sample(range(total), _QUESTIONS)
    groups: dict[str, list[str]] = {}
    for number in drawn:
        question = f"{number:0{digits}d}"
        if solve(question):
            groups.setdefault("".join(sorted(question)), []).append(question)
    return groups


def _tasks(name: str, questions: list[str]) -> tuple[Task, ...]:
    return tuple(
        Task(task_id=f"{name}-{question}", main_query=question, answer=TOYS[name](question))
        for question in questions
    )
