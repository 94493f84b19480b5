"""A service of environments that speaks the protocol of `env_service.py`:

    python -m trainer_core.environments.service --port 8080 --env lake.py->Lake

serves FrozenLake (`frozen_lake`) and classes of your own, which derive from `ServedEnvironment`. It asks for
no key: whoever reaches its port can act in its environments, but for web pages in a browser.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar, cast

import orjson
import typer
from pydantic import BaseModel, ConfigDict, ValidationError

from trainer_core.environments.served import FrozenLake, ServedEnvironment, State
from trainer_core.gateway.ask import GatewayError
from trainer_core.gateway.exchange import ClientGoneError, Exchange
from trainer_core.types import TrainingError
from trainer_core.user_code import load_named

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_THREADS = 256
_KEPT_ALIVE_S = 75
_CALLS = ("/get_env_profile", "/create", "/step", "/evaluate", "/get_info", "/release")


class _Asked(BaseModel):
    """The body of a request."""

    model_config = ConfigDict(coerce_numbers_to_str=True)

    env_type: str | None = None
    task_id: str | None = None
    instance_id: str | None = None
    messages: dict[str, Any] = {}
    params: dict[str, Any] = {}


@dataclass
class _Instance:
    environment: ServedEnvironment
    info: Mapping[str, str]
    last_used: float
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the one call that is being played."""


class _Replies:
    """How the protocol says that there is no answer."""

    @staticmethod
    def error(error: GatewayError) -> dict[str, Any]:
        return {"success": False, "detail": str(error), "code": error.code}


class EnvironmentService:
    """The ASGI application, with the instances that it keeps."""

    def __init__(
        self,
        environments: Sequence[type[ServedEnvironment]],
        *,
        max_instances: int = 1024,
        max_idle_s: float = 3600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`max_idle_s`: after which an instance is dropped that nobody calls."""
        self.environments = {each.name or each.__name__: each for each in environments}
        self.instances: dict[str, _Instance] = {}
        self._max_instances = max_instances
        self._max_idle_s = max_idle_s
        self._clock = clock
        self._threads = ThreadPoolExecutor(_THREADS, "environment")

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return await self._live(receive, send)
        exchange, path = Exchange(scope, receive, send, cast(Any, _Replies)), scope["path"]
        try:
            if path == "/healthz":
                return await exchange.whole(b"OK")
            if any(name == b"origin" for name, _ in scope["headers"]):
                raise GatewayError(403, "web pages are not answered", code="web_page")
            if scope["method"] != "POST" or path not in _CALLS:
                raise GatewayError(404, f"post to one of {', '.join(_CALLS)}", code="no_such_call")
            data = await self._answer(path, _Asked.model_validate(await exchange.body()))
            reply = {"success": data is not False, "data": data}
            body = orjson.dumps(reply, default=str, option=orjson.OPT_SERIALIZE_NUMPY)
            await exchange.whole(body, {"content-type": "application/json"})
        except ClientGoneError:
            pass
        except GatewayError as error:
            await exchange.fail(error)
        except ValidationError as error:
            await exchange.fail(GatewayError(400, str(error), code="invalid_request"))
        except ValueError as error:
            await exchange.fail(GatewayError(400, str(error), code="refused"))
        except Exception as error:  # noqa: BLE001  # whatever it is, the client gets an answer
            _log.exception("%s failed", path)
            await exchange.fail(GatewayError(500, f"{type(error).__name__}: {error}", code="failed"))

    async def drop_idle(self) -> None:
        """Release the instances that nobody has called for long."""
        oldest = self._clock() - self._max_idle_s
        for instance_id, instance in list(self.instances.items()):
            if instance.last_used < oldest and not instance.lock.locked():
                _log.warning("an instance was never released: %s", instance.info)
                await self._release(instance_id)

    async def _answer(self, call: str, asked: _Asked) -> Any:
        """The data of a reply."""
        instance_id = asked.instance_id or ""
        if call == "/get_env_profile":
            kind, split = self._kind(asked.env_type), str(asked.params.get("split", "train"))
            return list(map(str, await self._in_thread(lambda: kind.tasks(split))))
        if call == "/create":
            return await self._create(asked, instance_id or uuid.uuid4().hex)
        if call == "/release":
            return await self._release(instance_id)
        instance = self.instances.get(instance_id)
        if instance is None:
            text = f"there is no instance {instance_id!r}, or no longer"
            raise GatewayError(404, text, code="no_such_instance")
        if call == "/get_info":
            return instance.info
        if call == "/evaluate":
            return float(await self._play(instance, instance.environment.score))
        return _seen(instance, *await self._play(instance, lambda: instance.environment.step(asked.messages)))

    async def _create(self, asked: _Asked, instance_id: str) -> dict[str, Any]:
        kind, task_id = self._kind(asked.env_type), asked.task_id
        if not task_id:
            raise GatewayError(400, "task_id is missing", code="invalid_request")
        await self._release(instance_id)  # a client that asks again has not seen the first answer
        if len(self.instances) >= self._max_instances:
            text = f"all {self._max_instances} instances are in use (--max-instances)"
            raise GatewayError(429, text, code="full")
        info = {"instance_id": instance_id, "task_id": task_id}
        instance = self.instances[instance_id] = _Instance(kind(), info, self._clock())
        try:
            return _seen(instance, await self._play(instance, lambda: instance.environment.reset(task_id)))
        except Exception:
            await self._release(instance_id)
            raise

    async def _release(self, instance_id: str) -> bool:
        instance = self.instances.pop(instance_id, None)
        if instance is not None:
            await self._play(instance, instance.environment.close)
        return instance is not None

    def _kind(self, env_type: str | None) -> type[ServedEnvironment]:
        kind = self.environments.get(env_type or "")
        if kind is None:
            text = f"there is no env_type {env_type!r} here; there are {', '.join(self.environments)}"
            raise GatewayError(404, text, code="no_such_environment")
        return kind

    async def _play(self, instance: _Instance, call: Callable[[], _T]) -> _T:
        async with instance.lock:
            try:
                return await self._in_thread(call)
            finally:
                instance.last_used = self._clock()

    async def _in_thread(self, call: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def _live(self, receive: Any, send: Any) -> None:
        """Drop what is idle, from the server's start to its end, and then everything."""

        async def sweep() -> None:
            while True:
                await asyncio.sleep(min(60.0, self._max_idle_s / 4))
                await self.drop_idle()

        await receive()
        sweeping = asyncio.create_task(sweep())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        sweeping.cancel()
        for instance_id in list(self.instances):
            await self._release(instance_id)
        await send({"type": "lifespan.shutdown.complete"})


def _seen(instance: _Instance, state: State, reward: float = 0.0, is_over: bool = False) -> dict[str, Any]:
    messages = [{"role": "user", "content": state}] if isinstance(state, str) else list(state)
    worth = {"reward": float(reward), "is_terminated": bool(is_over)}
    return {"state": messages, **worth, "info": instance.info}


def serve(
    port: Annotated[int, typer.Option(help="0 takes any that is free.")] = 8080,
    env: Annotated[
        list[str] | None, typer.Option(metavar="FILE.py->Class", help="An environment of your own.")
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    max_instances: Annotated[int, typer.Option(help="Episodes at once.")] = 1024,
    max_idle: Annotated[float, typer.Option(help="Seconds until an unused instance is dropped.")] = 3600.0,
) -> None:
    """Serve FrozenLake, and environments of your own, to the trainer's reader `env_service`."""
    import uvicorn

    try:
        named = [load_named(each, "--env") for each in env or []]
        listening = socket.create_server((host, port), backlog=2048)
    except (TrainingError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    service = EnvironmentService([FrozenLake, *named], max_instances=max_instances, max_idle_s=max_idle)
    where, port = listening.getsockname()[:2]
    typer.echo(f"serving {', '.join(service.environments)} at http://{where}:{port}")
    if not ipaddress.ip_address(where).is_loopback:
        typer.echo("warning: whoever reaches this port can act in these environments", err=True)
    quiet: dict[str, Any] = {"ws": "none", "access_log": False, "log_level": "warning"}
    config = uvicorn.Config(service, interface="asgi3", timeout_keep_alive=_KEPT_ALIVE_S, **quiet)
    uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    typer.run(serve)
