"""A model endpoint in front of an application that exists: its users' requests become training.

    application ─► Proxy ─► num_repeat episodes of a swarm server, asked the same
                     ◄── the best answer ── rewards, by comparison ──► end_episode

Each request is a group of its own, so every turn of a conversation is trained, after the history that its
user has seen. Whatever fails here (the reward, some answers, the training), the user gets an answer if there
is one to be had: from the other episodes, from the fallback model, or 503 with Retry-After.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

import httpx

from trainer_core.gateway.ask import GatewayError
from trainer_core.gateway.dialects import DIALECTS, Chat, Messages, answered_path
from trainer_core.gateway.exchange import ClientGoneError, Exchange
from trainer_core.gateway.server import EVENTS, forward
from trainer_core.swarm.async_client import AsyncSwarmClient
from trainer_core.swarm.episode import OpenaiBaseUrlAndApiKey
from trainer_core.swarm.proxy_group import (
    Groups,
    NoAnswerError,
    ProxySettings,
    is_temporary,
    request_of,
    told,
)
from trainer_core.swarm.proxy_reward import Reward
from trainer_core.swarm.proxy_stream import STREAMS, as_events

_log = logging.getLogger(__name__)
_RETRY_AFTER_S = 5
_KEPT = 1_000
_UNUSED_S = 2.0
"""After which a connection is given up. Servers give theirs up after 5: a request in that moment is lost."""
_COUNTED = (
    *("requests", "trained", "episodes_trained", "served_directly", "served_by_fallback", "unavailable"),
    *("hung_up", "judge_failures", "failed_answers", "lone_answers", "rewards_not_taken"),
)


class Proxy:
    """An ASGI application. A user who hangs up changes nothing: his request is answered and trained on."""

    def __init__(
        self,
        swarm_url: str,
        reward: Reward,
        settings: ProxySettings,
        *,
        token: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """
        Args:
            token: of the swarm server.
            transport: instead of the network.
        """
        limits = httpx.Limits(max_connections=None, keepalive_expiry=_UNUSED_S)
        self._http = httpx.AsyncClient(transport=transport, limits=limits, timeout=settings.max_seconds)
        self._swarm = AsyncSwarmClient(swarm_url, verbose=False, token=token, transport=transport)
        self._settings = settings
        self._counts: Counter[str] = Counter()
        self._groups = Groups(self._swarm, self._http, reward, settings, self._counts)
        self._playing: dict[asyncio.Task[httpx.Response], bytes] = {}
        self._latencies: deque[float] = deque(maxlen=_KEPT)
        self._eligible = 0
        self._is_closing = False

    async def close(self) -> None:
        """Give the episodes of unfinished groups back, and begin no others."""
        self._is_closing = True
        for playing in self._playing:
            playing.cancel()
        await self._groups.close()
        await self._http.aclose()
        await self._swarm.close()

    # --- HTTP -----------------------------------------------------------------------------------------

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """The ASGI application."""
        if scope["type"] != "http":
            return
        known = answered_path(scope["method"], scope["path"])
        path = known or scope["path"].rstrip("/")
        dialect = Messages if path.startswith("/v1/messages") else DIALECTS.get(path, Chat)
        exchange = Exchange(scope, receive, send, dialect)
        try:
            if scope["method"] == "GET":
                await self._get(path, exchange)
            elif known is not None:
                await self._post(path, exchange)
            else:
                raise GatewayError(404, f"there is no {scope['method']} {path}", code="not_found")
        except GatewayError as error:
            await exchange.fail(error)
        except ClientGoneError:
            self._counts["hung_up"] += 1
        except Exception as error:  # noqa: BLE001 - whatever it is, the user gets an answer
            _log.exception("a request to %s failed", path)
            await exchange.fail(GatewayError(500, told(error), code="unexpected"))

    async def _get(self, path: str, exchange: Exchange) -> None:
        if path == "/health":
            await exchange.whole({"status": "ok"})
        elif path == "/requests":
            await exchange.whole(self.report())
        elif answered_path("GET", path) is not None:
            try:
                await exchange.relay(await self._http.get(self._swarm.server_url + path))
            except httpx.HTTPError as error:
                raise GatewayError(503, told(error), code="no_swarm_server") from error
        else:
            raise GatewayError(404, f"there is no GET {path}", code="not_found")

    async def _post(self, path: str, exchange: Exchange) -> None:
        body = await exchange.body()
        self._counts["requests"] += 1
        began = time.monotonic()
        try:
            if self._is_closing:
                raise NoAnswerError("the proxy ends")
            if self._is_sampled(path):
                await self._answer_best(path, exchange, body)
            else:
                await self._answer_once(path, exchange, body)
        except NoAnswerError as error:
            await self._answer_otherwise(path, exchange, body, str(error))
        self._latencies.append(time.monotonic() - began)

    def _is_sampled(self, path: str) -> bool:
        if path not in STREAMS:
            return False
        self._eligible += 1
        return (self._eligible - 1) % self._settings.sample_every == 0

    async def _answer_best(self, path: str, exchange: Exchange, body: Mapping[str, Any]) -> None:
        """Have a group answer. An SDK that repeats a request which is being answered waits for the same."""
        name = exchange.name(path)
        same = (each for each, asked in self._playing.items() if asked == name)
        playing = next(same, None) if exchange.is_repeated() else None
        if playing is None:
            playing = self._groups.spawn(self._groups.play(path, body))
            self._playing[playing] = name
            playing.add_done_callback(self._playing.pop)
        try:
            best: httpx.Response = await exchange.unless_gone(asyncio.shield(playing))
        except GatewayError:  # the group was cancelled
            raise NoAnswerError("the proxy ends") from None
        if body.get("stream") and best.is_success:
            await exchange.begin(200, EVENTS)
            await exchange.more(as_events(path, best.json(), body), last=True)
        else:
            kind = {"content-type": best.headers.get("content-type", "application/json")}
            await exchange.whole(best.content, kind, best.status_code)

    async def _answer_once(self, path: str, exchange: Exchange, body: Mapping[str, Any]) -> None:
        """Have one episode answer that is not trained on; a stream comes as it is drawn."""
        (episode,) = await self._groups.begin("eval", 1)
        try:
            await exchange.unless_gone(self._relay(episode, path, exchange, body))
        finally:
            self._groups.spawn(self._groups.abort([episode]))
        self._counts["served_directly"] += 1

    async def _relay(
        self, episode: OpenaiBaseUrlAndApiKey, path: str, exchange: Exchange, body: Mapping[str, Any]
    ) -> None:
        asked = {name: value for name, value in body.items() if name != "model"}
        request = self._http.build_request("POST", **request_of(episode, path, asked))
        try:
            answer = await self._http.send(request, stream=True)
        except httpx.HTTPError as error:
            raise NoAnswerError(told(error)) from error
        try:
            if is_temporary(answer):
                raise NoAnswerError(f"the model's server answers {answer.status_code}")
            await exchange.relay(answer)
        except httpx.HTTPError as error:
            raise GatewayError(502, told(error), code="cut_off") from error
        finally:
            await answer.aclose()

    async def _answer_otherwise(
        self, path: str, exchange: Exchange, body: Mapping[str, Any], why: str
    ) -> None:
        """Have the fallback model answer, or tell the user to try again."""
        if (other := self._settings.fallback) is not None:
            self._counts["served_by_fallback"] += 1
            await exchange.unless_gone(forward(exchange, other, path, body))
            return
        self._counts["unavailable"] += 1
        error = GatewayError(503, f"the model cannot answer now: {why}; try again", code="unavailable")
        await exchange.whole(exchange.dialect.error(error), {"retry-after": str(_RETRY_AFTER_S)}, 503)

    def report(self) -> dict[str, Any]:
        """Counters since the start; rewards of the last 1,000 groups and latencies of as many requests."""
        means = self._groups.means
        return {
            **{name: self._counts[name] for name in _COUNTED},
            "running_groups": len(self._playing),
            "mean_reward": fmean(means) if means else None,
            "latency_s": _spread(sorted(self._latencies)),
        }


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    p95 = values[int(0.95 * (len(values) - 1))]
    return {"mean": fmean(values), "median": median(values), "p95": p95, "max": values[-1]}
