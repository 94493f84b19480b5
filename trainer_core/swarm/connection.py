"""How a client reaches a swarm server: it asks again while the server is away or busy."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import os
import random
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import httpx

from trainer_core.swarm.errors import error_of

PATIENCE_S, SHORT_PATIENCE_S = 60.0, 5.0
_ANSWERS_S, _SHORT_ANSWERS_S, _CONNECTS_S = 90.0, 20.0, 10.0
_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0
_AGAIN = {429, 502, 503, 507}
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=3.0)
_log = logging.getLogger(__name__)


class Connection:
    """To one server, with its token. One that `blocks` never suspends who awaits it: it blocks the thread."""

    def __init__(
        self,
        server_url: str,
        token: str | None,
        *,
        verbose: bool,
        blocks: bool,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """
        Args:
            transport: instead of the network, of one that does not block.

        Raises:
            ValueError: the url is not one.
        """
        parts = urlsplit(server_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"server_url {server_url!r}: write it in full, such as http://localhost:10086")
        token = os.environ.get("AJET_SWARM_TOKEN") if token is None else token
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self.url, self.client_uuid, self._verbose = server_url.rstrip("/"), str(uuid.uuid4()), verbose
        is_https = parts.scheme == "https"  # loading certificates for nothing takes time
        given: Any = {"base_url": self.url, "headers": headers, "limits": _LIMITS, "verify": is_https}
        self._http = httpx.Client(**given) if blocks else httpx.AsyncClient(transport=transport, **given)

    async def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        wait_s: float = 0.0,
        patience_s: float = PATIENCE_S,
    ) -> dict[str, Any]:
        """The answer, which may take `wait_s` longer than others. While the server is away or busy it is
        asked again, for `patience_s` from its first failure; with less than `PATIENCE_S`, from now.

        Raises:
            SwarmError: it does not answer, or refuses.
        """
        is_short = patience_s < PATIENCE_S
        answers_s = _SHORT_ANSWERS_S if is_short else _ANSWERS_S
        timeout = httpx.Timeout(answers_s + wait_s, connect=_CONNECTS_S)
        sent = {"json": {"client_uuid": self.client_uuid, **(body or {})}} if method == "POST" else {}
        give_up_at = time.monotonic() + wait_s + patience_s if is_short else math.inf
        for attempt in itertools.count():
            retry_after = ""
            answer: httpx.Response | httpx.TransportError
            try:
                answer = await self._send(method, path, timeout=timeout, **sent)
                if answer.status_code not in _AGAIN:
                    break
                retry_after = answer.headers.get("retry-after", "")
            except httpx.TransportError as error:
                answer = error
            give_up_at = min(give_up_at, time.monotonic() + patience_s)
            pause = _pause(attempt, retry_after)
            if time.monotonic() + pause > give_up_at:
                break
            if attempt == 2:
                self.say(f"{self.url} is away or busy, and asked again: {answer!r}")
            await self.sleep(pause)
        if isinstance(answer, httpx.TransportError):
            raise error_of("cannot_connect", f"no server answers at {self.url}: {answer!r}")
        return _read(answer, path)

    def say(self, line: str) -> None:
        """Tell the user, or the log."""
        if self._verbose:
            print(f"[swarm] {line}", flush=True)
        else:
            _log.info(line)

    async def sleep(self, pause_s: float) -> None:
        """Pause."""
        if isinstance(self._http, httpx.Client):
            time.sleep(pause_s)  # noqa: ASYNC251 - there is no event loop
        else:
            await asyncio.sleep(pause_s)

    @property
    def is_closed(self) -> bool:
        """True once `close` was called."""
        return self._http.is_closed

    async def close(self) -> None:
        """Let go of it."""
        if isinstance(self._http, httpx.Client):
            self._http.close()
        else:
            await self._http.aclose()

    async def _send(self, method: str, path: str, **sent: Any) -> httpx.Response:
        if isinstance(self._http, httpx.Client):
            return self._http.request(method, path, **sent)
        return await self._http.request(method, path, **sent)


def _read(answer: httpx.Response, path: str) -> dict[str, Any]:
    told: Any = None
    with suppress(ValueError):
        told = answer.json()
    if answer.status_code == 200 and isinstance(told, dict):
        return told
    told = told if isinstance(told, dict) else {}
    message = told.get("error") or f"status {answer.status_code}: {answer.text[:200]}"
    raise error_of(str(told.get("code", "not_a_swarm_server")), f"{path.partition('?')[0]}: {message}")


def _pause(attempt: int, retry_after: str) -> float:
    """Seconds until the next attempt: longer each time, and not the same for two clients."""
    grown = min(_LONGEST_PAUSE_S, _PAUSE_S * 2.0**attempt) * random.uniform(0.5, 1.5)
    return grown + (float(retry_after) if retry_after.isdecimal() else 0.0)
