"""Environments behind OpenEnv's protocol: a client, the workflow that plays them, and their tasks.

    GET base_url/schema → {"action": JSON schema, …}
    WebSocket base_url/ws, one session each:
    {"type": "reset" | "step", "data": …} → {"type": "observation", "data": {"observation", "reward", "done"}}
                                          → {"type": "error", "data": {"message", "code", …}}

A task is a seed that the environment is reset with.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from trainer_core.types import DataError, Task
from trainer_core.workflow.tuner import Tuner
from trainer_core.workflow.workflow import Workflow, WorkflowOutput

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

    from trainer_core.config.tasks import OpenEnv

_CLOSE_S = 5.0
_LARGEST = 2**27


class ActionRefusedError(ServiceError):
    """What was said is no action of the environment, which goes on waiting for one."""


class OpenEnvClient:
    """A session with an OpenEnv server, and with it an environment of its own, while the context is open.

    All calls raise ServiceOutageError where the server is down, full or too slow, after which the session is
    of no more use, and ServiceError where it answers with an error or with nonsense.
    """

    def __init__(self, base_url: str, *, timeout: float = ANSWER_S) -> None:
        """`base_url`: http or https. `timeout`: seconds to wait for each answer."""
        self._url = f"ws{base_url.rstrip('/').removeprefix('http')}/ws"
        self._timeout = timeout
        self._socket: ClientConnection

    async def __aenter__(self) -> OpenEnvClient:
        from websockets.asyncio.client import connect
        from websockets.exceptions import WebSocketException

        try:
            self._socket = await connect(
                self._url, open_timeout=CONNECT_S, close_timeout=_CLOSE_S, max_size=_LARGEST
            )
        except (OSError, WebSocketException) as error:
            raise ServiceOutageError(f"{self._url}: {type(error).__name__}: {error}") from error
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close the session; the server lets go of its environment."""
        await self._socket.close()

    async def reset(self, **arguments: Any) -> Observation:
        """Begin an episode, with `seed` and whatever else the environment takes."""
        return await self._ask("reset", arguments)

    async def step(self, action: Mapping[str, Any]) -> Observation:
        """Act.

        Raises:
            ActionRefusedError: that is no action here.
        """
        return await self._ask("step", action)

    async def _ask(self, call: str, data: Mapping[str, Any]) -> Observation:
        from websockets.exceptions import ConnectionClosed

        where, sent = f"{self._url} {call}", json.dumps({"type": call, "data": dict(data)})
        try:
            async with asyncio.timeout(self._timeout):
                with suppress(ConnectionClosed):  # what the server said before it closed is still to be read
                    await self._socket.send(sent)
                raw = await self._socket.recv()
        except (ConnectionClosed, TimeoutError) as error:
            raise ServiceOutageError(f"{where}: {type(error).__name__}: {error}") from error
        try:
            reply = json.loads(raw)
            kind, held = reply["type"], dict(reply["data"])
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ServiceError(f"{where}: expected type and data, not {raw[:SHOWN]!r}") from None
        if kind != "error":
            return _observed(held, self._url)
        code, why = held.get("code"), str(held.get("message"))[-SHOWN:]
        if code == "VALIDATION_ERROR" and call == "step":
            raise ActionRefusedError(_reasons(held.get("errors")) or why)
        if code == "CAPACITY_REACHED":
            why += f"; set ajet.rollout.max_env_worker to {held.get('max_sessions')} at most"
            raise ServiceOutageError(f"{where}: {why}")
        raise ServiceError(f"{where}: {code}: {why}")


def _observed(data: Mapping[str, Any], url: str) -> Observation:
    """The model sees an observation's only text where there is nothing else in it, else all of it."""
    observation, reward = data.get("observation"), data.get("reward")
    if not isinstance(observation, Mapping):
        raise ServiceError(f"{url}: expected an observation, not {str(data)[:SHOWN]}")
    seen = {name: value for name, value in observation.items() if name != "metadata"}
    only = next(iter(seen.values())) if len(seen) == 1 else None
    text = only if isinstance(only, str) else json.dumps(seen, ensure_ascii=False)
    worth = 0.0 if reward is None else finite(reward, f"{url}: reward")
    return Observation([{"role": "user", "content": text}], worth, data.get("done") is True)


class PlayOpenEnv(Workflow):
    """One conversation with an environment, until it is done or the model has no calls or context left; the
    sum of the rewards is the episode's."""

    name = "openenv"

    async def execute(self, task: Task, tuner: Tuner) -> WorkflowOutput:
        schema, rewards = task.metadata["action"], []
        async with OpenEnvClient(task.metadata["base_url"]) as environment:
            first = await environment.reset(**task.metadata["reset"])
            rewards.append(first.reward)

            async def act(said: Message) -> Observation:
                try:
                    seen = await environment.step(action_of(said["content"], schema))
                except ActionRefusedError as refused:
                    return Observation([{"role": "user", "content": str(refused)}], 0.0, is_over=False)
                rewards.append(seen.reward)
                return seen

            system = {"role": "system", "content": _instructions(schema)}
            await converse(tuner, [system, *first.messages], act)
        return WorkflowOutput(sum(rewards), log_metrics={"environment_steps": len(rewards) - 1})


def action_of(said: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The action that a reply means: a JSON object, or the value of the only field that an action needs.

    Args:
        schema: of the environment's actions.

    Raises:
        ActionRefusedError: it is neither.
    """
    text = said.strip()
    if text.startswith("```") and text.endswith("```"):
        text = text.partition("\n")[2].removesuffix("```")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    field = _only_field(schema)
    if isinstance(value, dict) and (field is None or field in value):
        return value
    if field is None:
        raise ActionRefusedError("an action is one JSON object")
    kind = schema["properties"][field].get("type", "string")
    if kind != "string" and value is None:
        raise ActionRefusedError(f"{field} is of type {kind}")
    return {field: said if kind == "string" else value}


def read_openenv(settings: OpenEnv) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Tasks to train on and to validate on, with the schema of the environment's actions.

    Raises:
        DataError: the server cannot be reached, or has no such schema.
    """
    import httpx

    url = settings.base_url.rstrip("/")
    try:
        response = httpx.get(f"{url}/schema", timeout=CONNECT_S).raise_for_status()
        schema = dict(response.json()["action"])
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, TypeError, KeyError) as error:
        raise DataError(
            f"task_reader.openenv.base_url: {url}/schema gives no schema of actions ({type(error).__name__}: "
            f"{error}). Start the environment's server, such as with openenv serve or uvicorn server.app:app"
        ) from None
    shared = {"base_url": url, "action": schema}

    def task(seed: int) -> Task:
        reset = {"seed": seed, **settings.reset}
        return Task(f"seed-{seed}", f"seed {seed}", env_type="openenv", metadata={**shared, "reset": reset})

    validation = settings.num_validation_tasks
    training = range(validation, validation + settings.num_training_tasks)
    return tuple(map(task, training)), tuple(map(task, range(validation)))


def _only_field(schema: Mapping[str, Any]) -> str | None:
    """The one field that an action must have, or the one that it can have."""
    fields = [name for name in schema.get("properties", {}) if name != "metadata"]
    needed = [name for name in fields if name in schema.get("required", ())] or fields
    return needed[0] if len(needed) == 1 else None


def _instructions(schema: Mapping[str, Any]) -> str:
    from jinja2 import StrictUndefined, Template

    field = _only_field(schema)
    shown = schema["properties"][field] if field else schema
    template = (Path(__file__).parent / "templates" / "openenv.md.j2").read_text(encoding="utf-8")
    return Template(template, undefined=StrictUndefined).render(field=field, schema=json.dumps(shown))


def _reasons(errors: object) -> str:
    """What pydantic says of an action, without what the model said."""
    each = errors if isinstance(errors, list) else []
    told = [{name: one.get(name) for name in ("loc", "msg")} for one in each if isinstance(one, dict)]
    return json.dumps(told) if told else ""
