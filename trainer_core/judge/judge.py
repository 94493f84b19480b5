"""Judges: the built-in exact match, and a user's own class named in the config."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import math
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from trainer_core.types import DataError, Episode, StopReason, Task, TrainingError


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


class RewardFunction(Protocol):
    """A judge that looks at one answer at a time."""

    def compute_reward(self, task: Task, output: Output) -> tuple[float, bool | None]:
        """Return the reward and whether the task was solved (None: solved when the reward is 1 or more)."""


class OneByOne:
    """A `RewardFunction` as a judge. It is called for one answer after the other, in a thread of its own, so
    that it may be slow and need not be thread-safe; or in the caller's, where a debugger is at home."""

    def __init__(self, function: RewardFunction, *, own_thread: bool = True) -> None:
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
        if task.answer is None:
            raise DataError(
                f"task {task.task_id!r} has no answer to compare with. Add an `answer` to the data, "
                "or name a judge of your own: task_judge.judge_type: customized_protocol, "
                "task_judge.judge_protocol: my_module->MyJudge"
            )
        expected = task.answer.strip()
        return [Score(float(episode.output.strip() == expected)) for episode in episodes]


async def judged(judge: Judge, task: Task, episodes: Sequence[Episode]) -> list[Episode]:
    """The episodes of a group with what they earned; those that failed are not judged.

    Raises:
        TrainingError: the judge raised, or returned something else than a finite reward for each episode.
    """
    whole = [episode for episode in episodes if episode.error is None]
    if not whole:
        return list(episodes)
    if isinstance(judge, OneByOne):
        name, form = judge.name, "compute_reward(task, output) must return (reward, is_success)"
    else:
        name, form = type(judge).__name__, "score(task, episodes) must return a Score for each episode"
    try:
        scores = [(float(score.reward), score.is_success) for score in await judge.score(task, whole)]
    except TrainingError:
        raise
    except Exception as error:
        raise TrainingError(
            f"judge {name} failed on task {task.task_id!r} with {type(error).__name__}: {error}. {form}"
        ) from error
    if len(scores) != len(whole):
        raise TrainingError(
            f"judge {name} gave {len(scores)} scores for {len(whole)} episodes of task {task.task_id!r}; "
            f"{form}"
        )
    for reward, _ in scores:
        if not math.isfinite(reward):
            raise TrainingError(
                f"judge {name} gave task {task.task_id!r} the reward {reward}; it must be a finite number"
            )
    scored = iter(scores)
    return [episode if episode.error is not None else _with(episode, *next(scored)) for episode in episodes]


def _with(episode: Episode, reward: float, is_success: bool | None) -> Episode:
    return replace(
        episode, reward=reward, is_success=reward >= 1.0 if is_success is None else bool(is_success)
    )


def load_judge(protocol: str, *, own_thread: bool = True) -> Judge:
    """Create the judge named `package.module->Class` or `path/to/file.py->Class`, without arguments.
    `own_thread`: where a `compute_reward` is called, see `OneByOne`.

    Raises:
        TrainingError: the module or class is not there, or has neither `score` nor `compute_reward`.
    """
    where, arrow, class_name = (part.strip() for part in protocol.partition("->"))
    key = "task_judge.judge_protocol"
    if not arrow or not where or not class_name:
        raise TrainingError(
            f"{key}: {protocol!r} is not of the form `package.module->Class` or `file.py->Class`"
        )
    module = _import(where, key)
    if not hasattr(module, class_name):
        known = [name for name, value in vars(module).items() if isinstance(value, type)]
        raise TrainingError(
            f"{key}: {where} has no class {class_name!r}; it has {', '.join(known) or 'no classes'}"
        )
    try:
        made: Any = getattr(module, class_name)()
    except Exception as error:
        raise TrainingError(f"{key}: {class_name}() failed with {type(error).__name__}: {error}") from error
    if inspect.iscoroutinefunction(getattr(made, "score", None)):
        judge: Judge = made
        return judge
    if callable(getattr(made, "compute_reward", None)):
        return OneByOne(made, own_thread=own_thread)
    raise TrainingError(
        f"{key}: {class_name} in {where} has neither a method compute_reward(task, output) nor "
        "async score(task, episodes)"
    )


def _import(where: str, key: str) -> ModuleType:
    try:
        if not where.endswith(".py"):
            if (here := str(Path.cwd())) not in sys.path:
                sys.path.insert(0, here)  # as `python -m` would, so that a module beside the data is found
            return importlib.import_module(where)
        path = Path(where)
        name = f"file_{path.stem}"  # not the name of a library's module
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise TrainingError(f"{key}: there is no file {path.absolute()}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # where dataclasses look for the names in their annotations
        spec.loader.exec_module(module)
        return module
    except ModuleNotFoundError as error:
        raise TrainingError(
            f"{key}: cannot import {where!r} ({error}). It must lie on PYTHONPATH or in the folder "
            "the training starts in"
        ) from error
    except TrainingError:
        raise
    except Exception as error:
        raise TrainingError(f"{key}: {where} raised {type(error).__name__}: {error}") from error
