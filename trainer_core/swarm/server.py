"""The swarm server: HTTP in, the book and the ledger behind it, a training beside it.

One event loop. What a client is told has happened is on the disk before it is told; what it waits for wakes
it at once, where it asks with a long poll.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from trainer_core.gateway.ask import GatewayError
from trainer_core.gateway.dialects import DIALECTS, Chat, Dialect, answered_path
from trainer_core.gateway.exchange import ClientGoneError, Exchange
from trainer_core.gateway.keys import Keys
from trainer_core.swarm import wire
from trainer_core.swarm.book import Book, Claimed, RefusedError
from trainer_core.swarm.engine import Engine
from trainer_core.swarm.episodes import Episodes, name_of
from trainer_core.swarm.errors import NO_CODE
from trainer_core.swarm.ledger import Ledger

_log = logging.getLogger(__name__)
_LOOKS_S = 0.25
_KEY_LIFETIME_S = 7 * 86_400.0
_REMEMBERS_S = 0.6
"""For half a second AgentJet's clients go by the state they saw last: told sooner that the engine has
started, they take it for offline still, and give up."""
Body = TypeVar("Body", bound=BaseModel)
Handler = Callable[[Exchange], Awaitable[tuple[int, Mapping[str, Any]]]]


class _Wire(Dialect):
    """The form of errors outside the model's own protocols."""

    @staticmethod
    def error(failed: GatewayError) -> dict[str, Any]:
        told = {"error": failed.message, "fail_cause": failed.message, "failure_reason": failed.message}
        return {"success": False, "code": failed.code, **told}


class SwarmServer:
    """An ASGI application."""

    def __init__(self, ledger: Ledger, folder: Path, *, secret: bytes, token: str | None) -> None:
        """
        Args:
            folder: where the server keeps the config that clients send.
            secret: of the keys for the model; the same again after a restart.
            token: what a request has to carry; None: nothing.
        """
        self._keys: Keys[Claimed] = Keys(_KEY_LIFETIME_S, secret)
        self.book = Book(time.monotonic, self._released)
        self._token = token
        self.engine = Engine(self.book, ledger, folder, self._changed)
        self.episodes = Episodes(self.book, ledger, self.engine, self._changed)
        self._seen: set[asyncio.Future[None]] = set()
        self._shown = 0
        self._handlers: dict[tuple[str, str], Handler] = {
            ("GET", "/health"): self._health,
            ("GET", "/get_engine_status"): self._status,
            ("GET", "/get_current_batch_rollout_pool_information"): self._pool,
            ("GET", "/get_server_experiment_dir"): self._experiment_dir,
            ("GET", "/get_log_tail"): self._log_tail,
            ("POST", "/sync_train_config"): self._sync_train_config,
            ("POST", "/sync_train_code"): self._sync_train_code,
            ("POST", "/start_engine"): self._start_engine,
            ("POST", "/stop_engine"): self._stop_engine,
            ("POST", "/claim_episode"): self._claim,
            ("POST", "/end_episode"): self._end,
            ("POST", "/abort_episode"): self._abort,
            ("POST", "/can_continue_episode"): self._can_continue,
            ("POST", "/is_episode_claimed"): self._is_claimed,
            ("POST", "/get_episode_buffer"): self._buffer,
            ("POST", "/agree_sync_weight"): self._agree,
        }

    async def watch(self) -> None:
        """Take away what is idle, and see what time has made possible, for ever."""
        while True:
            await asyncio.sleep(_LOOKS_S)
            self.book.expired()
            self._changed()

    # --- HTTP -----------------------------------------------------------------------------------------

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """The ASGI application."""
        if scope["type"] != "http":
            return
        path = answered_path(scope["method"], scope["path"]) or scope["path"].rstrip("/") or "/"
        is_call = path.startswith("/v1/")
        exchange = Exchange(scope, receive, send, DIALECTS.get(path, Chat) if is_call else _Wire)
        try:
            if is_call:
                await self._call(scope["method"], path, exchange)
                return
            handler = self._handlers.get((scope["method"], path))
            if handler is None:
                raise GatewayError(404, f"there is no {scope['method']} {path}", code="not_found")
            if path != "/health":
                self._check_caller(exchange)
            status, answer = await handler(exchange)
            await exchange.whole(answer, status=status)
        except GatewayError as error:
            await exchange.fail(error)
        except RefusedError as error:
            await exchange.fail(GatewayError(error.status, str(error), code=error.code))
        except ClientGoneError:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
            _log.exception("a request to %s failed", path)
            told = f"{type(error).__name__}: {error}"
            await exchange.fail(GatewayError(500, told, code="unexpected"))

    def _check_caller(self, exchange: Exchange) -> None:
        if exchange.header(b"origin") is not None:  # a page that somebody has open on this machine
            raise GatewayError(403, "commands are not taken from web pages", code="from_a_page")
        if self._token is None:
            return
        if not hmac.compare_digest(exchange.api_key().encode(), self._token.encode()):
            message = "this server wants its token: send `Authorization: Bearer TOKEN` (AJET_SWARM_TOKEN)"
            raise GatewayError(401, message, code="wrong_token")

    async def _read(self, exchange: Exchange, form: type[Body]) -> Body:
        body = await exchange.body(may_be_empty=True)
        try:
            return form.model_validate(body)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            message = f"{place}: {first['msg']}; it is {first['input']!r:.200}"
            raise GatewayError(400, message, code="invalid_request") from error

    # --- what is asked of the engine ------------------------------------------------------------------

    async def _health(self, exchange: Exchange) -> tuple[int, Mapping[str, Any]]:
        return 200, {"status": "ok"}

    async def _status(self, exchange: Exchange) -> tuple[int, Mapping[str, Any]]:
        """With `wait_s` and the `number` last `seen`: as soon as there is another."""
        await exchange.body(may_be_empty=True)
        wait_s = min(_number(exchange, "wait_s", 0.0), wire.LONGEST_WAIT_S)
        if wait_s > 0 and exchange.query.get("seen") == str(self.book.number):
            change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._seen.add(change)
            try:
                with suppress(TimeoutError):
                    await exchange.unless_gone(asyncio.wait_for(change, wait_s))
            finally:
                self._seen.discard(change)
        return 200, self.engine.status()

    async def _pool(self, exchange: Exchange) -> tuple[int, Mapping[str, Any]]:
        return 200, self.book.pool()

    async def _experiment_dir(self, exchange: Exchange) -> tuple[int, Mapping[str, Any]]:
        return 200, {"server_experiment_dir": self.engine.experiment_dir}

    async def _log_tail(self, exchange: Exchange) -> tuple[int, Mapping[str, Any]]:
        return 200, {"lines": self.engine.tail(int(min(_number(exchange, "lines", 20.0), 1000)))}

    async def _sync_train_config(self, exchange: Exchange) -> tuple[int, Mapping[str, Any]]:
        asked = await self._read(exchange, wire.TrainConfig)
        return 200, {"success": True, **await self.engine.configure(asked.yaml_as_string)}

    async def _sync_train_code(self, exchange: Exchange) -> tuple[int, Mapping[str, Any]]:
        raise GatewayError(400, NO_CODE, code="no_code")

    async def _start_engine(self, exchange: Exchange) -> tuple[int, Mapping[str, Any]]:
        is_ours = "client_uuid" in await exchange.body(may_be_empty=True)
        started = await self.engine.start()
        if started["started"] and not is_ours:
            await asyncio.sleep(_REMEMBERS_S)
        return 200, {"success": True, **started}

    async def _stop_engine(self, exchange: Exchange) -> tuple[int, Mapping[str, Any]]:
        await self._read(exchange, wire.Nothing)
        await self.engine.stop()
        return 200, {"success": True, "failure_reason": ""}

    # --- episodes -------------------------------------------------------------------------------------

    async def _claim(self, exchange: Exchange) -> tuple[int, Mapping[str, Any]]:
        ask = await self._read(exchange, wire.Claim)
        claimed = await self.episodes.claim(ask, exchange)
        if claimed is None:
            cause = self.book.why_not(ask) or "others wait for an episode. No available episodes to claim."
            answer = {"client_uuid": ask.client_uuid, "episode_uuid": "", "openai_base_url": ""}
            return 200, {"success": False, "fail_cause": cause, "openai_api_key": "", **answer}
        claimed.key = self._keys.issue(claimed)
        host = (exchange.header(b"host") or b"").decode("latin-1")
        return 200, {
            "success": True,
            "client_uuid": claimed.client,
            "episode_uuid": claimed.uuid,
            "openai_base_url": f"http://{host}/v1",
            "openai_api_key": claimed.key,
            "weight_version": claimed.version,
            "fail_cause": "",
        }

    def _changed(self) -> None:
        """Something may have become possible."""
        self.engine.advance()
        self.episodes.give()
        if self._shown == self.book.number:
            return
        self._shown = self.book.number
        while self._seen:
            change = self._seen.pop()
            if not change.done():
                change.set_result(None)

    async def _end(self, exchange: Exchange) -> tuple[int, Mapping[str, Any]]:
        return 200, await self.episodes.end(await self._read(exchange, wire.Ended))

    async def _abort(self, exchange: Exchange) -> tuple[int, Mapping[str, Any]]:
        ended = await self._read(exchange, wire.Ended)
        self.episodes.abort(ended.episode_uuid, ended.client_uuid)
        return 200, {"success": True}

    async def _can_continue(self, exchange: Exchange) -> tuple[int, Mapping[str, Any]]:
        ask = await self._read(exchange, wire.OfEpisode)
        claimed = self.book.claims.get(ask.episode_uuid)
        return 200, {"can_continue": claimed is not None and claimed.client == ask.client_uuid}

    async def _is_claimed(self, exchange: Exchange) -> tuple[int, Mapping[str, Any]]:
        ask = await self._read(exchange, wire.OfEpisode)
        is_claimed = ask.episode_uuid in self.book.claims
        return 200, {"success": is_claimed, "failure_reason": "" if is_claimed else "it is not claimed"}

    async def _buffer(self, exchange: Exchange) -> tuple[int, Mapping[str, Any]]:
        await self._read(exchange, wire.Nothing)
        now, at = time.monotonic(), time.time()
        return 200, {
            "buffer": [
                {
                    "episode_uuid": one.uuid,
                    "episode_status": "claimed",
                    "episode_type": one.kind,
                    "openai_base_url": "",
                    "openai_api_key": "",
                    "client_uuid": one.client,
                    "zmq_listen_result_addr": "",
                    "latest_activity_timestamp": at - (now - one.active_at),
                    "discard_episode_timeout": one.timeout,
                    "llm_call_count": one.calls,
                    "debug_log": [],
                    "optional_task_id": one.task_id,
                }
                for one in self.book.claims.values()
            ]
        }

    async def _agree(self, exchange: Exchange) -> tuple[int, Mapping[str, Any]]:
        self.book.agree((await self._read(exchange, wire.OfClient)).client_uuid)
        self._changed()
        return 200, {"success": True}

    # --- the model ------------------------------------------------------------------------------------

    async def _call(self, method: str, path: str, exchange: Exchange) -> None:
        """Hand a request to the training, and its answer back."""
        if answered_path(method, path) is None:
            raise GatewayError(404, f"there is no {method} {path}", code="not_found")
        claimed = None if method == "GET" else self._keys.owner(exchange.api_key())
        await exchange.body(may_be_empty=method == "GET")
        if self.engine.training is None:
            raise GatewayError(503, f"there is no model now: {self.book.state}", code="no_training")
        name = "" if claimed is None else name_of(claimed)
        if claimed is not None:
            claimed.in_flight += 1
            claimed.is_asked = True
            self.book.active(claimed)
        try:
            await exchange.unless_gone(self._pass_on(method, path, name, exchange, claimed))
        except httpx.HTTPError as error:
            message = f"the training does not answer ({type(error).__name__})"
            raise GatewayError(503, message, code="no_training") from error
        finally:
            if claimed is not None:
                claimed.in_flight -= 1
                self.book.active(claimed)

    async def _pass_on(
        self, method: str, path: str, name: str, exchange: Exchange, claimed: Claimed | None
    ) -> None:
        assert self.engine.training is not None
        async with self.engine.training.call(method, path, name, exchange) as answer:
            if claimed is not None and answer.is_success and path in DIALECTS:
                claimed.calls += 1
            await exchange.relay(answer)

    def _released(self, claimed: Claimed) -> None:
        self._keys.revoke(claimed.key)
        self.episodes.forget(claimed)


def _number(exchange: Exchange, name: str, default: float) -> float:
    """A number of the query.

    Raises:
        GatewayError: it is none.
    """
    try:
        return max(0.0, float(exchange.query.get(name, default)))
    except ValueError:
        message = f"{name} is {exchange.query[name]!r}; write a number"
        raise GatewayError(400, message, code="invalid_request") from None
