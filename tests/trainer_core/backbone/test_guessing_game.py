"""The rules of the guessing game, how well it can be played, and that what lies beside its agent fits it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from trainer_core.user_code import load_named

GAME = Path(__file__).parents[3] / "blueprints" / "guessing_game"


@pytest.fixture(scope="module")
def agent() -> ModuleType:
    return sys.modules[load_named(f"{GAME / 'agent.py'}->GuessingGame", "test").__module__]


def test_a_truthful_keeper_and_a_guesser_of_the_middle_find_every_secret(agent: ModuleType) -> None:
    for secret in agent.NUMBERS:
        is_found, guesses = agent.play(agent.NUMBERS, secret, "", _middle, _truth)
        assert is_found and guesses <= 3


def test_a_lie_an_unknown_word_and_a_number_that_is_not_left_lose(agent: ModuleType) -> None:
    assert agent.play("123", "1", "", _middle, _truth) == (True, 2)
    assert agent.play("123", "1", "", _middle, lambda seen: "H") == (False, 2)
    assert agent.play("123456", "1", "", _middle, lambda seen: "HL") == (False, 2)
    assert agent.play("123456", "6", "", lambda seen: "1", _truth) == (False, 2)
    assert agent.play("123456", "6", "5", _middle, _truth) == (True, 2)
    assert agent.play("12", "6", "", lambda seen: "6", _truth) == (False, 1)
    assert agent.play("123", "1", "", lambda seen: "", _truth) == (False, 1)


def test_neither_player_can_win_alone(agent: ModuleType) -> None:
    def share(choose: Callable[[Iterable[Fraction]], Fraction], truth: Fraction) -> float:
        return float(_found(agent, agent.NUMBERS, 3, choose, truth) / len(agent.NUMBERS))

    half, always = Fraction(1, 2), Fraction(1)
    assert share(max, always) == 1  # the optimum: no reward is above 1
    assert share(max, half) == pytest.approx(0.458, abs=1e-3)
    assert share(_mean, always) == pytest.approx(0.746, abs=1e-3)
    assert share(_mean, half) == pytest.approx(0.381, abs=1e-3)


def test_the_files_are_what_the_agent_writes(agent: ModuleType) -> None:
    assert (GAME / "training.jsonl").read_text().splitlines() == agent.training_rows()
    assert (GAME / "validation.jsonl").read_text().splitlines() == agent.validation_rows()


def test_the_warm_up_is_shown_every_allowed_answer_equally_often(agent: ModuleType) -> None:
    shown = Counter((row["main_query"], row["answer"]) for row in map(json.loads, agent.training_rows()))
    for question in {question for question, _ in shown}:
        answers = {answer: times for (asked, answer), times in shown.items() if asked == question}
        assert set(answers) == set("HL" if question.startswith("secret") else _left(question))
        assert len(set(answers.values())) == 1


def test_the_config_is_accepted() -> None:
    command = [sys.executable, "-m", "trainer_core.cli", "--conf", "config.yaml", "--dry-run"]
    done = subprocess.run(command, cwd=GAME, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "280 training tasks, 6 validation tasks" in done.stdout


def _left(seen: str) -> str:
    return seen.removeprefix("guess ").replace(".", "")


def _middle(seen: str) -> str:
    left = _left(seen)
    return left[len(left) // 2] if left else "1"


def _truth(seen: str) -> str:
    _, secret, _, guess = seen.split()
    return "H" if secret > guess else "L"


def _mean(values: Iterable[Fraction]) -> Fraction:
    found = list(values)
    return sum(found, Fraction(0)) / len(found)


@cache
def _found(
    agent: ModuleType,
    left: str,
    tries: int,
    choose: Callable[[Iterable[Fraction]], Fraction],
    truth: Fraction,
) -> Fraction:
    """How many of the secrets in `left` are found where the guesser's choice among all guesses is worth
    `choose` of them, and each word is true with probability `truth`; a lie rules the secret out."""
    if not left or not tries:
        return Fraction(0)
    rest = {guess: [agent.still_possible(left, guess, word) for word in agent.WORDS] for guess in left}
    return choose(
        1 + truth * sum(_found(agent, part, tries - 1, choose, truth) for part in parts)
        for parts in rest.values()
    )
