"""Toy tasks that need no data file, learnable by a model of a hundred thousand parameters.

Questions are made from strings of digits. The splits share no digit multiset: a permutation of a validation
question is never trained on.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from trainer_core.types import DataError, Task, TaskSplits

Made = tuple[str, str, dict[str, Any]]
"""A question, its answer, and what else a judge needs to know. No answer: the question is not asked."""


def _arithmetic(digits: str) -> Made:
    """52831 → 52-831 and -779: a sum, a difference or a product, by the sum of the digits."""
    left, right = digits[: len(digits) // 2], digits[len(digits) // 2 :]
    if not left:
        return "", "", {}
    sign = "+-*"[sum(map(int, digits)) % 3]
    compute = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__}[sign]
    return f"{int(left)}{sign}{int(right)}", str(compute(int(left), int(right))), {}


def _countdown(digits: str) -> Made:
    """357 → make 22 out of 3, 5 and 7 → (3 * 5) + 7."""
    if len(digits) < 2 or "0" in digits:
        return "", "", {}
    solution, target = _reached(digits)
    question = (
        f"Make {target} out of {', '.join(digits[:-1])} and {digits[-1]}. Use each number once, with + - * / "
        "and parentheses. Reply with the arithmetic alone."
    )
    return question, solution, {"numbers": [*map(int, digits)], "target": target}


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


TOYS: dict[str, Callable[[str], Made]] = {
    "sort_digits": lambda digits: (digits, "".join(sorted(digits)), {}),  # 52831 → 12358
    "reverse_digits": lambda digits: (digits, digits[::-1], {}),  # 52831 → 13825
    "even_digits": lambda digits: (digits, "".join(each for each in digits if each in "02468"), {}),  # 28
    "arithmetic": _arithmetic,
    "countdown": _countdown,
}
"""By name; each makes a question of a string of digits."""

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
    by_multiset = _by_multiset(name, digits, random.Random(split_seed))
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
        training=tuple(task for group in training for task in group),
        validation=tuple(group[0] for group in validation),
        warmup=tuple(group[0] for group in warmup),
    )


def _by_multiset(name: str, digits: int, rng: random.Random) -> dict[str, list[Task]]:
    total: int = 10**digits
    drawn = range(total) if total <= _QUESTIONS else rng.sample(range(total), _QUESTIONS)
    groups: dict[str, list[Task]] = {}
    for number in drawn:
        written = f"{number:0{digits}d}"
        question, answer, facts = TOYS[name](written)
        if answer:
            task = Task(f"{name}-{written}", question, answer, metadata=facts)
            groups.setdefault("".join(sorted(written)), []).append(task)
    return groups


def make_dummies(count: int, *, seed: int, split: str) -> tuple[Task, ...]:
    """Tasks for measuring throughput: eight random words to a question, and an answer that has nothing to do
    with them. `metadata["random_number"]` numbers them, such as for an agent that takes it for a seed."""
    rng = random.Random(f"{split}/{seed}")
    return tuple(
        Task(
            f"dummy-{split}-{number}",
            " ".join("".join(rng.choices("abcdefghij", k=5)) for _ in range(8)),
            str(rng.randrange(10**9)),
            metadata={"random_number": number},
        )
        for number in range(count)
    )
