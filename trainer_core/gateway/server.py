"""The HTTP server that agents call: authentication, bodies in, answers or streams out.

It runs in a thread of its own, so an agent that blocks the caller's event loop can still be answered.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from trainer_core.engine.protocols import InferenceEngine
from trainer_core.gateway.answering import Answerer
from trainer_core.gateway.ask import Answer, Delta, GatewayError
from trainer_core.gateway.dialects import COUNT_TOKENS, DIALECTS, Chat, Dialect, Messages
from trainer_core.gateway.exchange import ClientGoneError, Exchange
from trainer_core.gateway.keys import Keys
from trainer_core.gateway.recording import EpisodeRules, OpenEpisode, OtherModel
from trainer_core.types import TrainingError

_log = logging.getLogger(__name__)
_START_S = 60.0
_STOP_S = 10.0
_OTHER_S = 1800.0
EVENTS = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}


class Gateway:
    """The model as a server, for as long as the context is open."""

    takes_any_name = False
    """True if a client may send any name as `model`: its key says enough."""

    def __init__(
        self,
        engine: InferenceEngine,
        tokenizer: Any,
        *,
        model: str,
        max_model_len: int,
        host: str = "127.0.0.1",
        port: int = 0,
        socket_path: Path | None = None,
        key_lifetime_s: float = 86_400.0,
    ) -> None:
        """
        Args:
            model: the name that clients send.
            max_model_len: prompt and answer together, in tokens.
            port: 0 takes any that is free.
            socket_path: listen on this Unix socket instead.
            key_lifetime_s: after which an api_key is refused, whatever became of its episode.
        """
        self.model = model
        self._texts = tokenizer
        self._answerer = Answerer(engine, copy.deepcopy(tokenizer), max_model_len)  # in the server's thread
        self._max_model_len = max_model_len
        self._keys: Keys[tuple[OpenEpisode, str]] = Keys(key_lifetime_s)
        self._address = host, port
        self._socket_path = socket_path
        self._counts: Counter[tuple[str, str]] = Counter()
        self.base_url = ""
        """`http://host:port`, once the context is open; OpenAI's SDKs want `/v1` after it."""

    # --- what the trainer calls -----------------------------------------------------------------------

    def __enter__(self) -> Gateway:
        """Start the server.

        Raises:
            TrainingError: it cannot listen at this address.
        """
        import uvicorn

        listening = self._listening()
        config = uvicorn.Config(
            self._serve,
            interface="asgi3",
            proxy_headers=False,
            lifespan="off",
            ws="none",
            access_log=False,
            log_level="warning",
            log_config=None,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([listening],), name="gateway", daemon=True
        )
        self._thread.start()
        until = time.monotonic() + _START_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > until:
                raise TrainingError("the gateway did not start")
            time.sleep(0.005)
        return self

    def _listening(self) -> socket.socket:
        place: str | tuple[str, int] = self._address if self._socket_path is None else str(self._socket_path)
        listening = socket.socket(socket.AF_INET if self._socket_path is None else socket.AF_UNIX)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(place)
        except OSError as error:
            shown = place if isinstance(place, str) else "{}:{}".format(*place)
            raise TrainingError(f"the gateway cannot listen at {shown}: {error.strerror}") from error
        if self._socket_path is None:
            self.base_url = "http://{}:{}".format(*listening.getsockname()[:2])
        return listening

    def __exit__(self, *_: object) -> None:
        """Stop the server; what is being answered is cut off."""
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(_STOP_S)

    def open_episode(self, rules: EpisodeRules) -> OpenEpisode:
        """Begin an episode. Any thread may."""
        return OpenEpisode(
            rules, self._keys, lambda ids: str(self._texts.decode(ids, skip_special_tokens=True))
        )

    # --- HTTP -----------------------------------------------------------------------------------------

    async def _serve(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """The ASGI application."""
        if scope["type"] != "http":
            return
        path = scope["path"].rstrip("/")
        if path.startswith("/v1/v1/"):
            path = path.removeprefix("/v1")  # Anthropic's SDKs add /v1 to a base_url that has it
        exchange = Exchange(scope, receive, send, DIALECTS.get(path, Chat))
        try:
            if scope["method"] == "GET":
                if (known := self._known().get(path)) is None:
                    raise GatewayError(404, f"there is no {path}", code="not_found")
                await exchange.whole(known)
            elif scope["method"] != "POST":
                raise GatewayError(405, f"{scope['method']} is not answered here", code="method_not_allowed")
            elif path == COUNT_TOKENS:
                exchange.dialect = Messages
                await self._count_tokens(exchange)
            elif path not in DIALECTS:
                message = f"there is no {path}; post to one of {', '.join(DIALECTS)}"
                raise GatewayError(404, message, code="not_found")
            else:
                await self._post(path, exchange)
        except GatewayError as error:
            self._counts["errors", error.code] += 1
            await exchange.fail(error)
        except ClientGoneError:
            self._counts["errors", "client_gone"] += 1
        except Exception as error:  # noqa: BLE001  # whatever it is, the client gets an answer
            _log.exception("a request to %s failed", path)
            self._counts["errors", "unexpected"] += 1
            await exchange.fail(GatewayError(500, f"{type(error).__name__}: {error}", code="unexpected"))

    def _known(self) -> dict[str, Any]:
        """What is answered to GET, by path."""
        card = {"id": self.model, "object": "model", "created": 0, "owned_by": "ajet"}
        card |= {"max_model_len": self._max_model_len}
        lines = []
        for name in sorted({name for name, _ in self._counts}):
            lines.append(f"# TYPE ajet_gateway_{name}_total counter")
            counts = sorted((label, count) for (of, label), count in self._counts.items() if of == name)
            lines += [f'ajet_gateway_{name}_total{{kind="{label}"}} {count}' for label, count in counts]
        return {
            "/health": {"status": "ok"},
            "/metrics": "\n".join([*lines, ""]).encode(),
            "/v1/models": {"object": "list", "data": [card]},
            f"/v1/models/{self.model}": card,
        }

    async def _count_tokens(self, exchange: Exchange) -> None:
        episode, _ = self._keys.owner(exchange.api_key())
        ask = Messages(await exchange.body(), self.model).ask
        await exchange.whole({"input_tokens": len(self._answerer.render(episode, ask))})

    async def _post(self, path: str, exchange: Exchange) -> None:
        episode, agent = self._keys.owner(exchange.api_key())
        body = await exchange.body()
        if agent in episode.rules.others:
            await exchange.unless_gone(forward(exchange, episode.rules.others[agent], path, body))
            self._counts["calls", "forwarded"] += 1
            return
        try:
            asked = exchange.dialect(body, self.model)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise GatewayError(400, f"the body is malformed: {error!r}", code="invalid_request") from error
        if not self.takes_any_name and asked.ask.model not in ("", self.model):
            message = f"there is no model {asked.ask.model!r} here; this is {self.model!r}"
            raise GatewayError(404, message, code="model_not_found", param="model")
        headers = self._answerer.headers(episode, asked.ask)
        answer = functools.partial(
            self._answerer.answer,
            *(episode, agent, asked.ask, exchange.name(path)),
            is_repeated=exchange.is_repeated(),
        )
        if asked.ask.stream:
            await exchange.unless_gone(_stream(exchange, asked, answer, headers))
        else:
            await exchange.whole(asked.write(await exchange.unless_gone(answer())), headers)
        self._counts["calls", path] += 1


async def _stream(
    exchange: Exchange, asked: Dialect, answer: Callable[..., Awaitable[Answer]], headers: Mapping[str, str]
) -> None:
    """Send deltas as they come. Until the first token is drawn, an error has a status of its own."""
    deltas: asyncio.Queue[Delta | None] = asyncio.Queue()
    task = asyncio.ensure_future(answer(on_delta=deltas.put_nowait))
    task.add_done_callback(lambda _: deltas.put_nowait(None))
    try:
        delta = await deltas.get()
        if delta is None:
            await task  # which may have failed
        await exchange.begin(200, {**EVENTS, **headers})
        await exchange.more(asked.begin())
        while delta is not None:
            await exchange.more(asked.delta(delta))
            delta = await deltas.get()
        await exchange.more(asked.end(await task), last=True)
    finally:
        task.cancel()


async def forward(exchange: Exchange, other: OtherModel, path: str, body: Mapping[str, Any]) -> None:
    """Have another model answer; nothing is recorded."""
    import httpx

    url = other.base_url.rstrip("/").removesuffix("/v1") + path
    headers = {"authorization": f"Bearer {other.api_key}", "x-api-key": other.api_key}
    try:
        async with (
            httpx.AsyncClient(timeout=_OTHER_S) as client,
            client.stream("POST", url, json={**body, "model": other.model}, headers=headers) as answer,
        ):
            await exchange.relay(answer)
    except httpx.HTTPError as error:
        message = f"the other model at {other.base_url} failed: {type(error).__name__}: {error}"
        raise GatewayError(502, message, code="other_model_failed") from error
