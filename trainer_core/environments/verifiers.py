"""Environments of verifiers, each in an interpreter of its own: their tasks, and who plays them."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer_core.config.layers import merged
from trainer_core.config.section import path_of
from trainer_core.environments.process import WorkerProcess, ask
from trainer_core.tasks.rows import text_of, unique_tasks
from trainer_core.types import DataError, Task
from trainer_core.workflow.tuner import Tuner
from trainer_core.workflow.workflow import Workflow, WorkflowOutput

if TYPE_CHECKING:
    from trainer_core.config.tasks import VerifiersEnvironment

_WORKER = Path(__file__).with_name("verifiers_worker.py")
_KEY = "task_reader.environments"
_STARTS_IN_S = 900.0


class VerifiersEnvironments(ExitStack):
    """The environments of a config, which run until it is closed, and their tasks."""

    def __init__(self, environments: Sequence[VerifiersEnvironment], folder: Path) -> None:
        """`folder`: gets what they print, in `environments/`."""
        super().__init__()
        self._environments = environments
        self._folder = folder / "environments"
        self.workers: list[WorkerProcess] = []

    def tasks(self) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
        """Start the environments, and read the tasks to train on and to validate on.

        Raises:
            DataError: none is named, one cannot be started or has no tasks, or ids are used twice.
        """
        if not self._environments:
            raise DataError(f"{_KEY}: name an environment, as [{{package: NAME, python: PATH}}]")
        self._folder.mkdir(parents=True, exist_ok=True)
        training: list[Task] = []
        validation: list[Task] = []
        for number, settings in enumerate(self._environments):
            worker = self.enter_context(self._start(settings, number))
            self.workers.append(worker)
            both = _tasks(settings, worker, worker.first({"ask": "tasks"}, _STARTS_IN_S))
            training += both[0]
            validation += both[1]
        return _unique(training), _unique(validation)

    def _start(self, settings: VerifiersEnvironment, number: int) -> WorkerProcess:
        name = f"{_KEY}[{number}] ({settings.package})"
        python = settings.python if "/" not in settings.python else str(path_of(settings.python))
        if shutil.which(python) is None:
            raise DataError(f"{name}: python: there is no interpreter {python}")
        held_out = settings.num_validation_tasks if settings.num_training_tasks is not None else 0
        most = None if settings.num_training_tasks is None else settings.num_training_tasks + held_out
        sides = (
            ("training", settings.training_arguments, most),
            ("validation", settings.validation_arguments, settings.num_validation_tasks),
        )
        splits = {
            split: {"arguments": merged(settings.arguments, own), "most": limit}
            for split, own, limit in sides
        }
        log = self._folder / f"{number}-{re.sub(r'[^A-Za-z0-9_.-]+', '-', settings.package)}.log"
        arguments = [json.dumps({"package": settings.package, "splits": splits})]
        return WorkerProcess([python, str(_WORKER)], arguments, name, log)


class PlayVerifiers(Workflow):
    """An episode of a verifiers environment: its harness is the agent, its rubric the judge."""

    name = "verifiers"

    async def execute(self, task: Task, tuner: Tuner) -> WorkflowOutput:
        """Have the worker play it, each agent with a key of its own."""
        where = task.metadata["environment"]
        keys = {agent: tuner(agent).as_oai_baseurl_apikey().api_key for agent in where["agents"]}
        request = {
            "ask": "play",
            "split": where["split"],
            "index": where["index"],
            "base_url": tuner.as_oai_baseurl_apikey().base_url,
            "model": tuner.model,
            "keys": keys,
        }
        reply = await ask(where["socket"], request)
        untrained = frozenset(reply["untrained"])
        return WorkflowOutput(reply["reward"], log_metrics=reply["metrics"], untrained_agents=untrained)


def _tasks(
    settings: VerifiersEnvironment, worker: WorkerProcess, reply: Mapping[str, Any]
) -> tuple[list[Task], list[Task]]:
    """Of both splits. Where the environment has one data set, tasks drawn from it by a fixed seed are for
    validation alone."""

    def made(split: str) -> Iterator[Task]:
        for index, row in enumerate(reply[split]):
            where = {"split": split, "index": index, "socket": worker.socket, "agents": reply["agents"]}
            prompt, answer = row["prompt"] or "", row["answer"]
            messages = prompt if isinstance(prompt, list) else []
            yield Task(
                row["id"] or f"{settings.package}-{split}-{index}",
                text_of(messages[-1]) if messages else str(prompt),
                None if answer is None else str(answer),
                init_messages=tuple(messages),
                env_type=settings.package,
                metadata={"environment": where},
            )

    training, validation = list(made("training")), list(made("validation"))
    if not validation:
        held_out = set(
            random.Random("validation").sample(range(len(training)), _held_out(settings, training))
        )
        validation = [task for index, task in enumerate(training) if index in held_out]
        training = [task for index, task in enumerate(training) if index not in held_out]
    return training, validation


def _held_out(settings: VerifiersEnvironment, tasks: Sequence[Task]) -> int:
    if len(tasks) < 2:
        raise DataError(
            f"{_KEY}: {settings.package} has {len(tasks)} tasks, too few to train and to validate on; give "
            "validation_arguments"
        )
    return min(settings.num_validation_tasks, len(tasks) // 2)


def _unique(tasks: Sequence[Task]) -> tuple[Task, ...]:
    return unique_tasks(((task, str(task.env_type)) for task in tasks), source=_KEY)
