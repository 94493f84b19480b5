"""Judges: the built-in exact match, and a user's own class named in the config."""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Protocol

from trainer_core.types import DataError, Output, Task, TrainingError


class Judge(Protocol):
    """Decides what an episode earned."""

    def compute_reward(self, task: Task, output: Output) -> tuple[float, bool | None]:
        """Return the reward and whether the task was solved (None: solved when the reward is 1 or more)."""


class ExactMatchJudge:
    """1 when the answer, without surrounding white space, is the expected one to the character; else 0."""

    def compute_reward(self, task: Task, output: Output) -> tuple[float, bool | None]:
        if task.answer is None:
            raise DataError(
                f"task {task.task_id!r} has no answer to compare with. Add an `answer` to the data, "
                "or name a judge of your "
                "own: task_judge.judge_type: customized_protocol, task_judge.judge_protocol: "
                "my_module->MyJudge"
            )
        solved = output.text.strip() == task.answer.strip()
        return float(solved), solved


def judge_output(judge: Judge, task: Task, output: Output) -> tuple[float, bool]:
    """Ask a judge and check what it says.

    Raises:
        TrainingError: the judge raised, or returned something else than a finite number and a truth value.
    """
    name = type(judge).__name__
    try:
        reward, is_success = judge.compute_reward(task, output)
        reward = float(reward)
    except TrainingError:
        raise
    except Exception as error:
        raise TrainingError(
            f"judge {name} failed on task {task.task_id!r} with {type(error).__name__}: {error}. "
            "compute_reward(task, output) must return (reward, is_success)"
        ) from error
    if not math.isfinite(reward):
        raise TrainingError(
            f"judge {name} gave task {task.task_id!r} the reward {reward}; it must be a finite number"
        )
    return reward, reward >= 1.0 if is_success is None else bool(is_success)


def load_judge(protocol: str) -> Judge:
    """Create the judge named `package.module->Class` or `path/to/file.py->Class`, without arguments.

    Raises:
        TrainingError: the module or class is not there, or has no `compute_reward`.
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
        judge = getattr(module, class_name)()
    except Exception as error:
        raise TrainingError(f"{key}: {class_name}() failed with {type(error).__name__}: {error}") from error
    if not callable(getattr(judge, "compute_reward", None)):
        raise TrainingError(f"{key}: {class_name} in {where} has no method compute_reward(task, output)")
    return judge


def _import(where: str, key: str) -> ModuleType:
    try:
        if not where.endswith(".py"):
            if (here := str(Path.cwd())) not in sys.path:
                sys.path.insert(0, here)  # as `python -m` would, so that a module beside the data is found
            return importlib.import_module(where)
        path = Path(where)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise TrainingError(f"{key}: there is no file {path.absolute()}")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    except ModuleNotFoundError as error:
        raise TrainingError(
            f"{key}: cannot import {where!r} ({error}). It must lie on PYTHONPATH or in the folder "
            "the training starts in"
        ) from error
