"""Environments of verifiers, each in an interpreter of its own: their tasks, and who plays them.

A request to a worker is one connection to its Unix socket, a JSON line each way, so that any thread, event
loop or process may ask; who hangs up cancels. A worker that dies is started again, and the rollout tries
again what it was playing.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer_core.child_process import ChildProcess
from trainer_core.config.layers import merged
from trainer_core.config.section import path_of
from trainer_core.environments.conversation import ServiceError, ServiceOutageError
from trainer_core.tasks.rows import text_of, unique_tasks
from trainer_core.types import DataError, Task, TrainingError
from trainer_core.workflow.tuner import Tuner
from trainer_core.workflow.workflow import Workflow, WorkflowOutput

if TYPE_CHECKING:
    from trainer_core.config.tasks import VerifiersEnvironment

_WORKER = Path(__file__).with_name("verifiers_worker.py")
_KEY = "task_reader.environments"
_STARTS_IN_S = 900.0
_LONGEST_LINE = 2**31
_MOST_RESTARTS = 5
_LONG_LIFE_S = 60.0
_RESTARTS_IN_S = 120.0
_LOOK_S = 0.2


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
        most = settings.num_training_tasks and settings.num_training_tasks + settings.num_validation_tasks
        splits = {
            "training": {"arguments": merged(settings.arguments, settings.training_arguments), "most": most},
            "validation": {
                "arguments": merged(settings.arguments, settings.validation_arguments),
                "most": settings.num_validation_tasks,
            },
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
        if len(training) < 2:
            raise DataError(
                f"{_KEY}: {settings.package} has {len(training)} tasks, too few to train and to validate on; "
                "give validation_arguments"
            )
        count = min(settings.num_validation_tasks, len(training) // 2)
        held_out = set(random.Random("validation").sample(range(len(training)), count))
        validation = [task for index, task in enumerate(training) if index in held_out]
        training = [task for index, task in enumerate(training) if index not in held_out]
    return training, validation


def _unique(tasks: Sequence[Task]) -> tuple[Task, ...]:
    return unique_tasks(((task, str(task.env_type)) for task in tasks), source=_KEY)


class WorkerProcess(ChildProcess):
    """A worker, started at once, and from its first answer on kept running until `close`."""

    def __init__(self, command: Sequence[str], arguments: Sequence[str], name: str, log: Path) -> None:
        """`command`: starts it, with its own folder first on PATH; the path of its socket and `arguments`
        come after it. `log`: the file that gets what it prints."""
        folder = tempfile.mkdtemp(prefix="ajet-")
        self.socket = str(Path(folder, "socket"))
        """Where it listens."""
        beside = [str(Path(command[0]).parent)] if "/" in command[0] else []
        path = os.pathsep.join([*beside, os.environ.get("PATH", "")])
        super().__init__([*command, self.socket, *arguments], name, log, {"PATH": path}, leaves=[folder])

    def first(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """The answer to its first request, once it listens.

        Raises:
            DataError: it ended or failed, or took too long.
        """
        try:
            self.wait_until(Path(self.socket).exists, timeout_s)
            reply = asyncio.run(asyncio.wait_for(ask(self.socket, request), timeout_s))
        except (ServiceError, TimeoutError) as error:
            raise DataError(f"{self.name}: {error or 'no answer'}:\n{self.tail()}") from None
        except TrainingError as error:
            raise DataError(str(error)) from None
        self.keep(_MOST_RESTARTS, long_life_s=_LONG_LIFE_S)
        return reply


async def _connected(path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection, once a worker that is being started again listens."""
    for _ in range(int(_RESTARTS_IN_S / _LOOK_S)):
        with suppress(FileNotFoundError, ConnectionRefusedError):
            return await asyncio.open_unix_connection(path, limit=_LONGEST_LINE)
        if not Path(path).parent.exists():
            raise ServiceError("the environment's process has ended too often")
        await asyncio.sleep(_LOOK_S)
    raise ServiceOutageError(f"the environment's process was not there again in {_RESTARTS_IN_S:g} s")


async def ask(path: str, request: dict[str, Any]) -> dict[str, Any]:
    """The answer of the worker that listens at `path`; to cancel this is to cancel the request.

    Raises:
        ServiceOutageError: there is no worker, or it died over it.
        ServiceError: it says that it failed, or what it says is no answer.
    """
    reader, writer = await _connected(path)
    try:
        writer.write(json.dumps(request).encode() + b"\n")
        line = await reader.readline()
    except OSError as error:
        raise ServiceOutageError(f"the environment's process does not answer: {error}") from error
    finally:
        writer.close()
    if not line:
        raise ServiceOutageError("the environment's process died")
    try:
        reply: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise ServiceError(f"no answer ({error})") from None
    if "failed" in reply:
        raise ServiceError(reply["failed"])
    return reply
