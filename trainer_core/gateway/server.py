"""The HTTP server that agents call: authentication, bodies in, answers or streams out.

It runs in a thread of its own, so an agent that blocks the caller's event loop can still be answered.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import orjson

from trainer_core.engine.protocols import InferenceEngine
from trainer_core.gateway.answering import Answerer, added
from trainer_core.gateway.ask import Answer, Ask, Delta, GatewayError, Said
from trainer_core.gateway.dialects import DIALECTS, Stream, chat, messages
from trainer_core.gateway.exchange import ClientGoneError, Exchange
from trainer_core.gateway.keys import Keys
from trainer_core.gateway.recording import EpisodeRules, OpenEpisode, OtherModel
from trainer_core.types import TrainingError

_log = logging.getLogger(__name__)
_START_S = 60.0
_STOP_S = 10.0
_OTHER_S = 1800.0


class Gateway:
    """The model as a server, for as long as the context is open."""

    def __init__(
        self,
        engine: InferenceEngine,
        tokenizer: Any,
        *,
        model: str,
        max_model_len: int,
        host: str = "127.0.0.1",
        port: int = 0,
        key_lifetime_s: float = 86_400.0,
    ) -> None:
        """
        Args:
            model: the name that clients send.
            max_model_len: prompt and answer together, in tokens.
            port: 0 takes any that is free.
            key_lifetime_s: after which an api_key is refused, whatever became of its episode.
        """
        self.model = model
        self._tokenizer = copy.deepcopy(tokenizer)  # used in the server's thread alone
        self._texts = tokenizer
        self._answerer = Answerer(engine, self._tokenizer, model, max_model_len)
        self._max_model_len = max_model_len
        self._keys: Keys[tuple[OpenEpisode, str]] = Keys(key_lifetime_s)
        self._address = host, port
        self._counts: Counter[tuple[str, str]] = Counter()
        self._is_held = False
        self.base_url = ""
        """`http://host:port`, once the context is open; OpenAI's SDKs want `/v1` after it."""

    # --- what the trainer calls -----------------------------------------------------------------------

    def __enter__(self) -> Gateway:
        """Start the server.

        Raises:
            TrainingError: it cannot listen at this address.
        """
        import uvicorn

        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(self._address)
        except OSError as error:
            host, port = self._address
            raise TrainingError(f"the gateway cannot listen at {host}:{port}: {error.strerror}") from error
        host, port = listening.getsockname()[:2]
        self.base_url = f"http://{host}:{port}"
        config = uvicorn.Config(
            self._serve,
            interface="asgi3",
            proxy_headers=False,
            lifespan="off",
            ws="none",
            access_log=False,
            log_level="warning",
            log_config=None,
            backlog=2048,
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the server; what is being answered is cut off."""
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(_STOP_S)

    def open_episode(self, rules: EpisodeRules) -> OpenEpisode:
        """Begin an episode. Any thread may."""
        return OpenEpisode(
            rules, self._keys, lambda ids: str(self._texts.decode(ids, skip_special_tokens=True))
        )

    def hold(self) -> None:
        """Refuse new calls with 429 and Retry-After, as while weights are changed for long."""
        self._is_held = True

    def release(self) -> None:
        """Take calls again."""
        self._is_held = False

    # --- HTTP -----------------------------------------------------------------------------------------

    async def _serve(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """The ASGI application."""
        if scope["type"] != "http":
            return
        path = scope["path"].rstrip("/")
        if path.startswith("/v1/v1/"):
            path = path.removeprefix("/v1")  # Anthropic's SDKs add /v1 to a base_url that has it
        exchange = Exchange(scope, receive, send, DIALECTS.get(path, chat))
        try:
            if scope["method"] == "GET":
                await self._get(path, exchange)
            elif scope["method"] != "POST":
                raise GatewayError(405, f"{scope['method']} is not answered here", code="method_not_allowed")
            elif path == "/v1/messages/count_tokens":
                exchange.dialect = messages
                await self._count_tokens(exchange)
            elif path not in DIALECTS:
                raise GatewayError(
                    404, f"there is no {path}; post to one of {', '.join(DIALECTS)}", code="not_found"
                )
            else:
                await self._post(path, exchange)
        except GatewayError as error:
            self._counts["errors", error.code or str(error.status)] += 1
            await exchange.fail(error)
        except ClientGoneError:
            self._counts["errors", "client_gone"] += 1
        except Exception as error:  # noqa: BLE001  # whatever it is, the client gets an answer
            _log.exception("a request to %s failed", path)
            self._counts["errors", "unexpected"] += 1
            await exchange.fail(GatewayError(500, f"{type(error).__name__}: {error}", code="unexpected"))

    async def _get(self, path: str, exchange: Exchange) -> None:
        if path == "/health":
            await exchange.json({"status": "held" if self._is_held else "ok"})
        elif path == "/metrics":
            await exchange.whole(200, self._metrics(), {"content-type": "text/plain; version=0.0.4"})
        elif path == "/v1/models":
            await exchange.json({"object": "list", "data": [self._card()]})
        elif path == f"/v1/models/{self.model}":
            await exchange.json(self._card())
        else:
            raise GatewayError(404, f"there is no {path}", code="not_found")

    def _card(self) -> dict[str, Any]:
        return {
            "id": self.model,
            "object": "model",
            "created": 0,
            "owned_by": "ajet",
            "max_model_len": self._max_model_len,
        }

    def _metrics(self) -> bytes:
        lines = []
        for name in sorted({name for name, _ in self._counts}):
            lines.append(f"# TYPE ajet_gateway_{name}_total counter")
            counts = {label: count for (of, label), count in self._counts.items() if of == name}
            lines += [
                f'ajet_gateway_{name}_total{{kind="{label}"}} {counts[label]}' for label in sorted(counts)
            ]
        return "\n".join([*lines, ""]).encode()

    async def _count_tokens(self, exchange: Exchange) -> None:
        episode, _ = self._keys.owner(exchange.api_key())
        ask = messages.read({"max_tokens": 1, **await exchange.body()})
        await exchange.json({"input_tokens": self._answerer.count(episode, ask)})

    async def _post(self, path: str, exchange: Exchange) -> None:
        episode, agent = self._keys.owner(exchange.api_key())
        if self._is_held:
            raise GatewayError(429, "the weights are being changed; try again", code="held", retry_after=1)
        body = await exchange.body()
        if agent in episode.rules.others:
            await exchange.unless_gone(_forward(exchange, episode.rules.others[agent], path, body))
            self._counts["calls", "forwarded"] += 1
            return
        try:
            ask = exchange.dialect.read(body)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise GatewayError(400, f"the body is malformed: {error!r}", code="invalid_request") from error
        if ask.model not in ("", self.model):
            raise GatewayError(
                404,
                f"there is no model {ask.model!r} here; this is {self.model!r}",
                code="model_not_found",
                param="model",
            )
        request = exchange.name(path)
        repeats = request if exchange.is_repeated() else b""
        answering = _Answering(self._answerer, episode, agent, ask, repeats=repeats, remember_as=request)
        if ask.stream:
            await self._stream(exchange, answering, body)
        else:
            answer = await exchange.unless_gone(answering.whole())
            written = orjson.dumps(
                exchange.dialect.write(answer, ask, body), option=orjson.OPT_SERIALIZE_NUMPY
            )
            await exchange.whole(200, written, self._answerer.headers(episode, ask))
        self._counts["calls", path] += 1

    async def _stream(self, exchange: Exchange, answering: _Answering, body: Mapping[str, Any]) -> None:
        answer_id = uuid.uuid4().hex
        stream = exchange.dialect.stream(answering.ask, body, answer_id, int(time.time()), self.model)
        await exchange.unless_gone(answering.into(exchange, stream, answer_id))


class _Answering:
    """One request on its way through the answerer."""

    def __init__(self, answerer: Answerer, episode: OpenEpisode, agent: str, ask: Ask, **more: Any) -> None:
        self.ask = ask
        self._answerer = answerer
        self._episode = episode
        self._agent = agent
        self._more = more

    async def whole(self) -> Answer:
        return await self._answerer.answer(self._episode, self._agent, self.ask, **self._more)

    async def into(self, exchange: Exchange, stream: Stream, answer_id: str) -> None:
        """Send deltas as they come. Until the first token is drawn, an error has a status of its own."""
        deltas: asyncio.Queue[Delta | None] = asyncio.Queue()
        task = asyncio.ensure_future(
            self._answerer.answer(
                self._episode,
                self._agent,
                self.ask,
                **self._more,
                answer_id=answer_id,
                on_delta=deltas.put_nowait,
            )
        )
        task.add_done_callback(lambda _: deltas.put_nowait(None))
        headers = self._answerer.headers(self._episode, self.ask)
        told = [Said()] * self.ask.n
        began = False
        try:
            while delta := await deltas.get():
                if not began:
                    await exchange.begin(stream.open(), headers)
                    began = True
                told[delta.index] = _and(told[delta.index], delta)
                await exchange.more(stream.delta(delta))
            answer = await task
        finally:
            task.cancel()
        if not began:
            await exchange.begin(stream.open(), headers)
        rest = [
            stream.delta(delta)
            for place, choice in enumerate(answer.choices)
            if (delta := added(place, told[place], choice.said, self.ask, final=True))
        ]
        await exchange.more(b"".join([*rest, stream.close(answer)]), last=True)


def _and(said: Said, delta: Delta) -> Said:
    return Said(said.content + delta.content, said.reasoning + delta.reasoning)


async def _forward(exchange: Exchange, other: OtherModel, path: str, body: Mapping[str, Any]) -> None:
    """Have another model answer; nothing is recorded."""
    import httpx

    url = other.base_url.rstrip("/").removesuffix("/v1") + path
    headers = {"authorization": f"Bearer {other.api_key}", "x-api-key": other.api_key}
    try:
        async with (
            httpx.AsyncClient(timeout=_OTHER_S) as client,
            client.stream("POST", url, json={**body, "model": other.model}, headers=headers) as answer,
        ):
            await exchange.relay(
                answer.status_code, answer.headers.get("content-type", ""), answer.aiter_bytes()
            )
    except httpx.HTTPError as error:
        message = f"the other model at {other.base_url} failed: {type(error).__name__}: {error}"
        raise GatewayError(502, message, code="other_model_failed") from error
