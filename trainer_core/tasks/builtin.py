"""Toy tasks that need no data file, learnable by a model of a hundred thousand parameters.

Questions are made from strings of digits. The splits share no digit multiset: a permutation of a validation
question is never trained on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trainer_core.types import DataError, Task, TaskSplits


def _even_digits(question: str) -> str:
    return "".join(digit for digit in question if digit in "02468")


def _arithmetic(question: str) -> tuple[str, str]:
    """52831 → 52-831 and -779: a sum, a difference or a product, by the sum of the digits."""
    left, right = question[: len(question) // 2], question[len(question) // 2 :]
    if not left:
        return "", ""
    sign = "+-*"[sum(map(int, question)) % 3]
    compute = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}[sign]
    return f"{int(left)}{sign}{int(right)}", str(compute(int(left), int(right)))


def _reached(question: str) -> tuple[str, int]:
    """Arithmetic over the digits, each used once, and what it comes to: a whole number from 1 to 999."""
    rng = random.Random(question)
    parts = [(digit, int(digit)) for digit in question]
    while len(parts) > 1:
        (left, a), (right, b) = (parts.pop(rng.randrange(len(parts))) for _ in range(2))
        found = {"+": a + b, "-": a - b, "*": a * b, "/": a // b if a % b == 0 else 0}
        sign = rng.choice([sign for sign, value in found.items() if 0 < value < 1000] or ["swap"])
        if sign == "swap":  # a < b, and their sum is too large
            left, right, sign, found = right, left, "-", {"-": b - a}
        parts.append((f"({left} {sign} {right})", found[sign]))
    written, value = parts[0]
    return written.removeprefix("(").removesuffix(")"), value


def _countdown_question(question: str) -> str:
    numbers = ", ".join(question[:-1]) + f" and {question[-1]}"
    return (
        f"Make {_reached(question)[1]} out of {numbers}. Use each number once, with + - * / and parentheses. "
        "Reply with the arithmetic alone."
    )


@dataclass(frozen=True)
class Toy:
    """A kind of question, made from a string of digits."""

    solve: Callable[[str], str]
    """The answer; where it is empty, the question is not asked."""
    ask: Callable[[str], str] = lambda question: question
    """How the question is put."""
    facts: Callable[[str], Mapping[str, Any]] = lambda question: {}
    """What a judge needs to know."""


TOYS = {
    "sort_digits": Toy(lambda question: "".join(sorted(question))),  # 52831 → 12358
    "reverse_digits": Toy(lambda question: question[::-1]),  # 52831 → 13825
    "even_digits": Toy(_even_digits),  # 52831 → 28
    "arithmetic": Toy(
        lambda question: _arithmetic(question)[1], lambda question: _arithmetic(question)[0]
    ),  # 52-831 → -779
    "countdown": Toy(
        lambda question: _reached(question)[0] if len(question) > 1 and "0" not in question else "",
        _countdown_question,
        lambda question: {"numbers": [*map(int, question)], "target": _reached(question)[1]},
    ),  # make 22 out of 3, 5 and 7 → (3 * 5) + 7
}
"""By name."""

_QUESTIONS = 8_000
WARMUP_TASKS = 128


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
    by_multiset = _questions_by_multiset(TOYS[name].solve, digits, random.Random(split_seed))
    warmup_tasks = max(1, min(WARMUP_TASKS, num_validation_tasks // 2))
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
        Task(
            task_id=f"{name}-{question}",
            main_query=TOYS[name].ask(question),
            answer=TOYS[name].solve(question),
            metadata=TOYS[name].facts(question),
        )
        for question in questions
    )


def make_dummies(count: int, *, seed: int, split: str) -> tuple[Task, ...]:
    """Tasks for measuring throughput: eight random words to a question, and an answer that has nothing to do
    with them."""
    rng = random.Random(f"{split}/{seed}")
    return tuple(
        Task(
            f"dummy-{split}-{number}",
            " ".join("".join(rng.choices("abcdefghij", k=5)) for _ in range(8)),
            str(rng.randrange(10**9)),
        )
        for number in range(count)
    )
