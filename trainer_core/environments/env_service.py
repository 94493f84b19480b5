"""Environments behind AgentJet's HTTP protocol: a client, the workflow that plays them, and their tasks.

    POST /get_env_profile | /create | /step | /evaluate | /release
         {"env_type", "task_id", "instance_id", "messages", "params"}
    200  {"success": true, "data": …}; from 400 on, {"detail": why}

A state is a list of messages. `python -m trainer_core.environments.service` serves it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx

from trainer_core.environments.conversation import (
    ANSWER_S,
    CONNECT_S,
    SHOWN,
    Message,
    Observation,
    ServiceError,
    ServiceOutageError,
    converse,
    finite,
)
from trainer_core.tasks.rows import unique_tasks
from trainer_core.types import DataError, Task
from trainer_core.workflow.tuner import Tuner
from trainer_core.workflow.workflow import Workflow, WorkflowOutput

if TYPE_CHECKING:
    from trainer_core.config.tasks import EnvService as EnvServiceSettings

_log = logging.getLogger(__name__)
_RELEASE_S = 10.0
_KEPT_S = 1.0
"""Connections are reused for less than the five seconds after which uvicorn closes them."""


class ServedInstance:
    """One instance of an environment at a service, for one episode; `environment_of` makes it."""

    def __init__(self, http: httpx.AsyncClient, url: str, task: Task) -> None:
        self.messages: list[Message] = []
        """What the environment begins the conversation with."""
        self.instance_id = uuid.uuid4().hex
        """Chosen here, so that an instance can be released whose creation was never answered."""
        self._http = http
        self._url = url
        self._body = _body(task.env_type, task_id=task.task_id, instance_id=self.instance_id)

    async def create(self) -> None:
        """Begin the episode; `environment_of` has done so."""
        self.messages = _messages(await self._post("create"), f"{self._url}/create")

    async def step(self, action: str | Mapping[str, Any]) -> Observation:
        """Act: with the assistant's message, or its text.

        Raises:
            ServiceOutageError: the service is down, busy, too slow, or no longer knows this instance.
            ServiceError: it refuses, or its reply is none.
        """
        action = {"role": "assistant", "content": action} if isinstance(action, str) else action
        data, where = await self._post("step", messages=dict(action)), f"{self._url}/step"
        seen = [_answer(message) for message in _messages(data, where)]
        reward = finite(data.get("reward") or 0.0, f"{where}: reward")
        return Observation(seen or [{"role": "user", "content": ""}], reward, bool(data.get("is_terminated")))

    async def evaluate(self) -> float:
        """The score of the episode. Raises as `step` does."""
        return finite(await self._post("evaluate"), f"{self._url}/evaluate: score")

    async def release(self) -> None:
        """Have the service forget the instance; where that fails, services do so by themselves, in time."""
        try:
            await self._http.post(f"{self._url}/release", json=self._body, timeout=_RELEASE_S)
        except httpx.TransportError as error:
            _log.warning("%s/release: %s: %s", self._url, type(error).__name__, error)

    async def _post(self, call: str, **more: Any) -> Any:
        where = f"{self._url}/{call}"
        try:
            response = await self._http.post(where, json=self._body | more)
        except httpx.TransportError as error:
            raise ServiceOutageError(f"{where}: {type(error).__name__}: {error}") from error
        return _data(where, response, is_known=call != "create")


@asynccontextmanager
async def environment_of(task: Task, *, timeout: float = ANSWER_S) -> AsyncIterator[ServedInstance]:
    """The environment of a task of reader `env_service`, at the beginning of an episode. It is released at
    the end, however that comes about.

    Args:
        timeout: seconds to wait for each answer of the service.

    Raises:
        ServiceOutageError, ServiceError: as `ServedInstance.step`.
    """
    url = task.metadata.get("env_url")
    if url is None:
        raise ServiceError(f"task {task.task_id!r} has no env_url; read tasks with reader env_service")
    async with httpx.AsyncClient(
        timeout=httpx.Timeout(timeout, connect=CONNECT_S),
        limits=httpx.Limits(keepalive_expiry=_KEPT_S),
        verify=url.startswith("https:"),  # to load certificates takes 20 ms
    ) as http:
        instance = ServedInstance(http, url, task)
        try:
            await instance.create()
            yield instance
        finally:
            await instance.release()


class PlayEnvService(Workflow):
    """One conversation with an environment of a service, until the environment ends it or the model has no
    calls or context left; the environment's score is the reward."""

    name = "env_service"

    async def execute(self, task: Task, tuner: Tuner) -> WorkflowOutput:
        async with environment_of(task) as environment:
            await converse(tuner, environment.messages, environment.step)
            return WorkflowOutput(await environment.evaluate())


def read_env_service(
    settings: EnvServiceSettings, *, validates: bool
) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """The tasks of both splits; without `validates` none to validate on.

    Raises:
        DataError: the service cannot be reached, or has no such tasks.
    """
    training = _split(settings, settings.training_split)
    return training, _split(settings, settings.validation_split) if validates else ()


def _split(settings: EnvServiceSettings, split: str) -> tuple[Task, ...]:
    url, env_type = settings.env_url.rstrip("/"), settings.env_type
    where = f"{url}/get_env_profile"
    try:
        body = _body(env_type, params={"split": split})
        ids = _data(where, httpx.post(where, json=body, timeout=ANSWER_S), is_known=False)
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise DataError(
            f"task_reader.env_service.env_url: {url} cannot be reached ({type(error).__name__}: {error}). "
            f"Start the service of {env_type}; `python -m trainer_core.environments.service` serves "
            "frozen_lake, and environments of your own"
        ) from None
    except ServiceError as error:
        raise DataError(f"task_reader.env_service: {error}") from None
    if not isinstance(ids, list) or not all(isinstance(each, str | int) for each in ids):
        raise DataError(f"{where}: expected a list of task ids, not {str(ids)[:80]}")
    source, metadata = f"{where}: split {split} of {env_type}", {"env_url": url, "split": split}
    tasks = (Task(str(each), f"{env_type} {each}", env_type=env_type, metadata=metadata) for each in ids)
    return unique_tasks(((task, source) for task in tasks), source=source)


def _body(env_type: str, **more: Any) -> dict[str, Any]:
    """Of any call; services want the mappings even if they are empty."""
    empty: dict[str, Any] = {"task_id": None, "instance_id": None, "messages": {}, "params": {}}
    return {"env_type": env_type, **empty, **more}


def _data(where: str, response: httpx.Response, *, is_known: bool) -> Any:
    """What a reply holds. `is_known`: the service has known the instance.

    Raises:
        ServiceOutageError: it is busy, has failed, or no longer knows the instance.
        ServiceError: it refuses, or its reply is none.
    """
    status = response.status_code
    try:
        reply = response.json()
    except (ValueError, RecursionError):
        reply = None
    fields = reply if isinstance(reply, dict) else {}
    held = fields.get("data", fields.get("task_ids"))
    if status == 200 and fields.get("success", True) is not False and held is not None:
        return held
    why = str(fields["detail"])[-SHOWN:] if "detail" in fields else response.text[:SHOWN]
    is_outage = status == 429 or status >= 500 or (status == 404 and is_known)
    kind = ServiceOutageError if is_outage else ServiceError
    raise kind(f"{where}: status {status}: {why}")


def _messages(data: Any, where: str) -> list[Message]:
    """The messages of a state, which may also be one message, or text for the user."""
    state = data.get("state") if isinstance(data, dict) else None
    if isinstance(state, str):
        state = {"role": "user", "content": state}
    messages = [state] if isinstance(state, dict) else state
    if not isinstance(messages, list) or not all(map(_is_message, messages)):
        raise ServiceError(f"{where}: expected a state of messages, not {str(data)[:SHOWN]}")
    return messages


def _is_message(value: object) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("role"), str)
        and isinstance(value.get("content"), str | list)
    )


def _answer(message: Message) -> Message:
    """What an environment says, as the conversation goes on; some say it as the assistant, or as a tool that
    nobody called."""
    is_expected = message["role"] in ("user", "system") or "tool_call_id" in message
    return message if is_expected else {"role": "user", "content": message["content"]}
