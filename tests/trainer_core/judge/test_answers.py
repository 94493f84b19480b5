"""Judges of one answer, on what models write and on what is written to break them."""

import asyncio
import math
import re
import time
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer_core.config.tasks import TaskJudge
from trainer_core.judge.answers import last_boxed
from trainer_core.judge.choose import make_judge
from trainer_core.judge.judge import judged
from trainer_core.types import DataError, Episode, Task, TrainingError


def reward(text: str, answer: str | None = None, metadata: Any = None, **settings: Any) -> float | None:
    task = Task("t", "question", answer, metadata=metadata or {})
    judge = make_judge(TaskJudge.model_validate(settings))
    (episode,) = asyncio.run(judged(judge, task, [Episode(task, 0, (), output=text)]))
    return episode.reward


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        (r"so \boxed{42}.", "42", 1),
        (r"\boxed{41}, no: \boxed{42}", "42", 1),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}", 1),
        (r"\boxed{\frac{1}{2}}", r"\boxed{\frac{1} {2}}", 1),
        (r"\boxed{\{1, 2\}}", r"\{1,2\}", 1),
        (r"\boxed{1,000}", "1000", 1),
        (r"\boxed{0.5}", "1/2", 1),
        (r"\boxed{\boxed{7}}", "7", 1),
        ("42", "42", 0),
        (r"\boxed{42", "42", 0),
        (r"\boxed{42} \boxed{", "42", 0),
        (r"\boxed{}", "42", 0),
        ("\\boxed{" * 50_000, "42", 0),
    ],
)
def test_boxed(text: str, answer: str, expected: float) -> None:
    assert reward(text, answer, judge_type="boxed") == expected


@given(st.text(alphabet="{}\\ab", max_size=30))
def test_a_box_holds_balanced_braces(text: str) -> None:
    found = last_boxed(f"\\boxed{{{text}")
    if found is not None:
        bare = found.replace("\\\\", "").replace("\\{", "").replace("\\}", "")
        assert bare.count("{") == bare.count("}") and text.startswith(found)


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [
        ("It is 1,000.", "1000", 1),
        ("1e3", "1,000.0", 1),
        ("about -3.5 or so", "-3.5", 1),
        ("3-5", "5", 1),
        ("−7", "-7", 1),
        ("$1,234.50", "1234.5", 1),
        ("-$5", "-5", 1),
        (".5", "1/2", 1),
        ("The answer is 1/2.", "0.5", 1),
        (r"\frac{3}{4}", "0.75", 1),
        ("12.5 %", "0.125", 1),
        ("50%", "50", 1),
        ("50", "50%", 1),
        ("50%", "0.5", 1),
        ("0.5%", "50%", 0),
        ("first 3, then 4", "3", 0),
        ("1,2,3", "3", 1),
        ("1/0", "1", 0),
        ("1e999999", "1e999998", 0),
        ("none", "4", 0),
        ("1.0000001", "1", 1),
        ("1.00001", "1", 0),
        ("1000000.5", "1000000", 1),
        ("9" * 100_000, "4", 0),
        ("1," * 50_000, "4", 0),
    ],
)
def test_numeric(text: str, answer: str, expected: float) -> None:
    assert reward(text, answer, judge_type="numeric") == expected


def test_the_tolerance_is_relative() -> None:
    assert reward("102", "100", judge_type="numeric", tolerance=0.02) == 1
    assert reward("103", "100", judge_type="numeric", tolerance=0.02) == 0


def test_a_reference_without_number_names_the_task() -> None:
    with pytest.raises(DataError, match="task 't': there is no number in its answer 'many'"):
        reward("4", "many", judge_type="numeric")


def test_regex() -> None:
    assert reward("the cat sat", r"\bcat\b", judge_type="regex") == 1
    assert reward("concatenate", r"\bcat\b", judge_type="regex") == 0
    assert reward("x=1 x=2", "2", judge_type="regex", pattern=r"x=(\d)") == 1
    assert reward("x=2 x=1", "2", judge_type="regex", pattern=r"x=(\d)") == 0
    assert reward("yes!", judge_type="regex", pattern="^yes") == 1


def test_a_hostile_pattern_cannot_hold_a_run_up() -> None:
    started = time.process_time()
    assert reward("a" * 20_000, "(a+)+$b", judge_type="regex") == 0
    assert reward("a" * 20_000 + "!", "(a|aa)+$", judge_type="regex") == 0
    assert time.process_time() - started < 5


def test_what_is_no_pattern_says_where_it_stands() -> None:
    with pytest.raises(TrainingError, match="task 't': its answer: '\\(' is not a pattern"):
        reward("a", "(", judge_type="regex")
    with pytest.raises(TrainingError, match=r"task_judge.pattern: .* is not a pattern"):
        reward("a", judge_type="regex", pattern=r"(a)\1")


NUMBERS = {"numbers": [3, 5, 7], "target": 22}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3 * 5 + 7", 1),
        ("let me see\n(3 × 5) + 7 = 22", 1),
        ("<answer>1</answer> <answer>7+5*3</answer> done 4", 1),
        ("3 + 5 + 7", 0.1),
        ("3 * 5 + 7 + 0", 0),
        ("3 * 5", 0),
        ("22", 0),
        ("3 * 5 + 7 +", 0),
        ("7 / (5 - 5) + 3", 0),
        ("3 ** 5 + 7", 0),
        ("3 // 5 + 7", 0),
        ("__import__('os').abort()", 0),
        ("3 * 5 + 7 if 1 else 0", 0),
        ("(" * 299, 0),
        ("9" * 5000, 0),
        ("", 0),
    ],
)
def test_countdown(text: str, expected: float) -> None:
    assert reward(text, metadata=NUMBERS, judge_type="countdown") == expected


@given(st.recursive(st.integers(1, 20).map(str), lambda inner: st.builds("({}{}{})".format, inner,
       st.sampled_from("+-*/"), inner), max_leaves=6))  # fmt: skip
def test_countdown_computes_as_exact_fractions_do(text: str) -> None:
    numbers = [int(found) for found in re.findall(r"\d+", text)]
    try:
        value = eval(re.sub(r"(\d+)", r"Fraction(\1)", text), {"Fraction": Fraction})
    except ZeroDivisionError:
        return
    row = {"nums": numbers, "target": str(value)}
    assert reward(text, metadata=row, judge_type="countdown") == 1


def test_countdown_needs_numbers_and_a_target() -> None:
    with pytest.raises(DataError, match="task 't': judge_type: countdown needs rows with `numbers`"):
        reward("1", metadata={"target": 1}, judge_type="countdown")


def brought(reward: float | None, is_success: bool = False, **settings: Any) -> tuple[float | None, bool]:
    task = Task("t", "q", "right")
    judge = make_judge(TaskJudge.model_validate(settings))
    episode = Episode(task, 0, (), output="right", reward=reward, is_success=is_success)
    (scored,) = asyncio.run(judged(judge, task, [episode]))
    return scored.reward, scored.is_success


def test_a_reward_that_the_episode_brings() -> None:
    agentjet = "ajet.task_judge.env_service_as_judge->EnvServiceJudge"
    assert brought(0.4, judge_type="environment") == (0.4, False)
    assert brought(0.4) == (0.4, False)
    assert brought(1.0, judge_protocol=agentjet) == (1.5, True)
    assert brought(0.5, judge_protocol=agentjet) == (0.25, False)
    assert brought(0.4, judge_type="exact_match") == (1.0, True)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "an episode of task 't' brings no reward"),
        *((value, "judge environment failed on task 't'") for value in ("0.5", [1.0])),
        *(
            (value, "judge environment failed on task 't' with ValueError: the reward is")
            for value in (math.nan, math.inf, -1e308)
        ),
    ],
)
def test_a_reward_that_is_no_finite_number_names_the_task(value: Any, told: str) -> None:
    with pytest.raises(TrainingError, match=told):
        brought(value, judge_type="environment")
