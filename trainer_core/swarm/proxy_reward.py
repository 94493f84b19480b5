"""What the answers to one request earn, compared with each other: by a function of the user's, or a judge."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainer_core.config.tasks import TaskJudge
from trainer_core.judge.judge import judged
from trainer_core.judge.pairwise import PairwiseJudge
from trainer_core.outside_model import OutsideModel
from trainer_core.types import Episode, Task, TrainingError, check_reward
from trainer_core.user_code import load_named


@dataclass(frozen=True)
class ProxyAnswer:
    """One of the answers to a request."""

    text: str
    """What it says; tool calls are lines of JSON."""
    body: Mapping[str, Any]
    """The whole reply, in the protocol of the request."""


Reward = Callable[[Mapping[str, Any], Sequence[ProxyAnswer]], Awaitable[list[float]]]
"""From the body of a request and its answers to a reward for each, in their order. Whatever it raises, the
group is not trained on."""


def comparison(function: str | None, judge_model: str | None, criteria: str | None) -> Reward:
    """By a function of the user's, or by an outside model; `criteria`: for that one, None: its usual ones.

    Raises:
        TrainingError: neither or both are named, or there is no such function.
    """
    if (function is None) == (judge_model is None):
        raise TrainingError("give one of --reward and --judge-model: what compares the answers")
    if function is not None:
        return function_reward(function)
    return judge_reward(OutsideModel(judge_model or ""), criteria or TaskJudge().criteria)


def function_reward(named: str) -> Reward:
    """The rewards that a function of the user's gives: `module->name` or `file.py->name`. It may be `async`;
    otherwise it is called in a thread, in several at once where requests overlap.

    Raises:
        TrainingError: there is no such function.
    """
    function = load_named(named, "--reward", "function")
    if not callable(function):
        raise TrainingError(f"--reward: {named} is no function (request, answers) -> list of numbers")

    async def reward(request: Mapping[str, Any], answers: Sequence[ProxyAnswer]) -> list[float]:
        if inspect.iscoroutinefunction(function):
            given = await function(request, answers)
        else:
            given = await asyncio.to_thread(function, request, answers)
        rewards = [float(each) for each in given]
        if len(rewards) != len(answers):
            raise TrainingError(f"{named} gave {len(rewards)} rewards for {len(answers)} answers")
        for each in rewards:
            check_reward(each, f"{named} gave")
        return rewards

    return reward


def judge_reward(model: OutsideModel, criteria: str) -> Reward:
    """The share of its comparisons with the others that an answer wins, in the eyes of an outside model."""
    judge = PairwiseJudge(model, criteria)

    async def reward(request: Mapping[str, Any], answers: Sequence[ProxyAnswer]) -> list[float]:
        task = Task("request", "", init_messages=_conversation(request))
        episodes = [Episode(task, place, (), answer.text) for place, answer in enumerate(answers)]
        return [float(each.reward or 0.0) for each in await judged(judge, task, episodes)]

    return reward


def _conversation(request: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The messages of a request in any protocol, for a reader."""
    system = request.get("system") or request.get("instructions")
    turns = request.get("messages") or request.get("input") or request.get("prompt")
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        turns = [{"role": "user", "content": turns}]
    return ({"role": "system", "content": system}, *turns) if system else tuple(turns)
