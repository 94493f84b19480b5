"""What a judge is, what it may return, and a user's own class named in the config."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from trainer_core.types import DataError, Episode, StopReason, Task, TrainingError, check_reward
from trainer_core.user_code import load_named

if TYPE_CHECKING:
    from trainer_core.outside_model import OutsideModel


@dataclass(frozen=True)
class Score:
    """What an episode earned."""

    reward: float
    is_success: bool | None = None
    """None: solved when the reward is 1 or more."""


class Judge(Protocol):
    """Decides what the episodes of a group earned."""

    async def score(self, task: Task, episodes: Sequence[Episode]) -> Sequence[Score]:
        """A score for each episode, in their order. All are tries at this task, none failed; their number
        may be smaller than the group where others did."""


@dataclass(frozen=True)
class Output:
    """What `compute_reward` is given."""

    text: str
    """The answer without special tokens."""
    finished: bool
    """False: a limit cut it off."""


class OneByOne:
    """An object with `compute_reward(task, output) -> (reward, is_success)` as a judge; `is_success` None:
    solved when the reward is 1 or more. It is called for one answer after the other, in a thread of its own,
    so that it may be slow and need not be thread-safe; or in the caller's, where a debugger is at home."""

    def __init__(self, function: Any, *, own_thread: bool = True) -> None:
        self.name = type(function).__name__
        self._function = function
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="judge") if own_thread else None

    async def score(self, task: Task, episodes: Sequence[Episode]) -> list[Score]:
        if self._thread is None:
            return self._scores(task, episodes)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._scores, task, episodes)

    def _scores(self, task: Task, episodes: Sequence[Episode]) -> list[Score]:
        scores = []
        for episode in episodes:
            output = Output(episode.output, episode.stop_reason is not StopReason.LENGTH)
            reward, is_success = self._function.compute_reward(task, output)
            scores.append(Score(reward, is_success))
        return scores


class ExactMatchJudge:
    """1 when the answer, without surrounding white space, is the expected one to the character; else 0."""

    async def score(self, task: Task, episodes: Sequence[Episode]) -> list[Score]:
        expected = expected_answer(task).strip()
        return [Score(float(episode.output.strip() == expected)) for episode in episodes]


def expected_answer(task: Task) -> str:
    """The answer that others are compared with.

    Raises:
        DataError: the task has none.
    """
    if task.answer is None:
        raise DataError(
            f"task {task.task_id!r} has no answer to compare with. Add an `answer` to the data, "
            "or name a judge of your own: task_judge.judge_type: customized_protocol, "
            "task_judge.judge_protocol: my_module->MyJudge"
        )
    return task.answer


def with_reference(data: dict[str, Any], reference: str | None) -> dict[str, Any]:
    """What an outside model is given, with the task's answer where there is one."""
    return data if reference is None else {**data, "reference": reference}


class EnvironmentJudge:
    """The reward that the episode brings from its workflow or environment, as it is."""

    name = "environment"

    async def score(self, task: Task, episodes: Sequence[Episode]) -> list[Score]:
        return [Score(brought(episode), episode.is_success) for episode in episodes]


class EnvServiceJudge:
    """AgentJet's rule for environments: with the reward r that the episode brings, 1 + r/2 where r is 1 or
    more, which is a success, and r/2 otherwise."""

    async def score(self, task: Task, episodes: Sequence[Episode]) -> list[Score]:
        rewards = [brought(episode) for episode in episodes]
        return [Score(1.0 + 0.5 * raw if raw >= 1.0 else 0.5 * raw, raw >= 1.0) for raw in rewards]


def brought(episode: Episode) -> float:
    """The reward that an episode has before it is judged.

    Raises:
        TrainingError: none.
    """
    if episode.reward is None:
        raise TrainingError(
            f"an episode of task {episode.task.task_id!r} brings no reward from its workflow or "
            "environment, and no judge is named that could give one. Let the workflow return a reward, "
            "or set task_judge.judge_type, to exact_match for example"
        )
    return episode.reward


class UnlessBrought:
    """Asks a judge about the episodes that bring no reward of their own, and leaves the others as they
    are."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.name = name_of(judge)

    async def score(self, task: Task, episodes: Sequence[Episode]) -> list[Score]:
        open_ones = [episode for episode in episodes if episode.reward is None]
        asked = list(await self._judge.score(task, open_ones)) if open_ones else []
        if len(asked) != len(open_ones):
            return asked  # `judged` says what is wrong with their number
        scores = iter(asked)
        return [
            next(scores) if episode.reward is None else Score(episode.reward, episode.is_success)
            for episode in episodes
        ]


def name_of(judge: Judge) -> str:
    """What messages call a judge."""
    return getattr(judge, "name", None) or type(judge).__name__


async def judged(judge: Judge, task: Task, episodes: Sequence[Episode]) -> list[Episode]:
    """The episodes of a group with what they earned; those that failed are not judged.

    Raises:
        TrainingError: the judge raised, or returned something else than a finite reward for each episode.
    """
    whole = [episode for episode in episodes if episode.error is None]
    if not whole:
        return list(episodes)
    name, where = name_of(judge), f"task {task.task_id!r}"
    form = "score(task, episodes) must return a Score for each episode"
    if isinstance(judge, OneByOne):
        form = "compute_reward(task, output) must return (reward, is_success)"
    try:
        earned = [_earned(score) for score in await judge.score(task, whole)]
    except TrainingError:
        raise
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise TrainingError(f"judge {name} failed on {where} with {told}. {form}") from error
    if len(earned) != len(whole):
        count = f"{len(earned)} scores for {len(whole)} episodes of {where}"
        raise TrainingError(f"judge {name} gave {count}; {form}")
    left = iter(earned)
    return [episode if episode.error is not None else replace(episode, **next(left)) for episode in episodes]


def _earned(score: Score) -> dict[str, Any]:
    """Reward and success as an episode has them, of whatever number type the judge computes with.

    Raises:
        TypeError, ValueError: it is no number, not a finite one, or the success is neither true nor false.
    """
    if not hasattr(score.reward, "__float__"):
        raise TypeError(f"the reward {score.reward!r} is not a number")
    if not (score.is_success is None or isinstance(score.is_success, bool | np.bool_)):
        raise TypeError(f"is_success is {score.is_success!r}, neither true, false nor None")
    reward = float(score.reward)
    check_reward(reward, "the reward is")
    return {
        "reward": reward,
        "is_success": bool(reward >= 1.0 if score.is_success is None else score.is_success),
    }


def load_judge(
    protocol: str, *, own_thread: bool = True, outside_model: Callable[[], OutsideModel] | None = None
) -> Judge:
    """Create the judge named `package.module->Class` or `path/to/file.py->Class`. Where its constructor has a
    parameter `outside_model`, it is given what that makes, and else nothing.
    `own_thread`: where a `compute_reward` is called, see `OneByOne`.

    Raises:
        TrainingError: the module or class is not there, or has neither `score` nor `compute_reward`.
    """
    key = "task_judge.judge_protocol"
    named = load_named(protocol, key)
    try:
        given: dict[str, Any] = {}
        if outside_model is not None and "outside_model" in inspect.signature(named).parameters:
            given["outside_model"] = outside_model()
        made: Any = named(**given)
    except TrainingError:
        raise
    except Exception as error:
        told = f"{named.__name__}() failed with {type(error).__name__}: {error}"
        raise TrainingError(f"{key}: {told}") from error
    if inspect.iscoroutinefunction(getattr(made, "score", None)):
        judge: Judge = made
        return judge
    if callable(getattr(made, "compute_reward", None)):
        return OneByOne(made, own_thread=own_thread)
    raise TrainingError(
        f"{key}: {protocol} has neither a method compute_reward(task, output) nor async score(task, episodes)"
    )
