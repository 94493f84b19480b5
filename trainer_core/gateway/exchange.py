"""One HTTP request and what is sent back, on ASGI."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping
from types import ModuleType
from typing import Any

import orjson

from trainer_core.gateway.ask import GatewayError
from trainer_core.gateway.dialects import Dialect, messages

_LARGEST_BODY = 64 * 2**20
_BODY_S = 60.0
_EVENTS = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}


class ClientGoneError(Exception):
    """The client has hung up."""


class Exchange:
    """One request and what is sent back, on ASGI."""

    def __init__(
        self, scope: Mapping[str, Any], receive: Any, send: Any, dialect: Dialect | ModuleType
    ) -> None:
        self.dialect: Any = dialect
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self._receive = receive
        self._send = send
        self._raw = b""
        self._is_stream = False

    def api_key(self) -> str:
        header = self._headers.get(b"x-api-key") or self._headers.get(b"authorization", b"")
        return header.decode("latin-1").removeprefix("Bearer ").strip()

    def is_repeated(self) -> bool:
        """True if the client's SDK says that it has sent this before."""
        return self._headers.get(b"x-stainless-retry-count", b"0") != b"0"

    def name(self, path: str) -> bytes:
        """What makes two requests the same one."""
        key = self._headers.get(b"idempotency-key") or self._raw
        return hashlib.blake2b(path.encode() + self.api_key().encode() + key, digest_size=16).digest()

    async def body(self) -> dict[str, Any]:
        """The body as an object.

        Raises:
            GatewayError: it is none, too large, or does not come.
        """
        parts, size = [], 0
        try:
            async with asyncio.timeout(_BODY_S):
                while True:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGoneError
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > _LARGEST_BODY:
                        raise GatewayError(
                            413, f"the body is larger than {_LARGEST_BODY} bytes", code="too_large"
                        )
                    if not message.get("more_body"):
                        break
        except TimeoutError:
            raise GatewayError(408, f"the body did not come within {_BODY_S:.0f} s", code="timeout") from None
        self._raw = b"".join(parts)
        try:
            body = orjson.loads(self._raw)
        except ValueError as error:
            raise GatewayError(400, f"the body is not JSON: {error}", code="invalid_json") from None
        if not isinstance(body, dict):
            raise GatewayError(400, "the body must be a JSON object", code="invalid_json")
        return body

    async def unless_gone(self, answering: Any) -> Any:
        """Wait for an answer; a client that hangs up cancels it.

        Raises:
            ClientGoneError: it did.
        """
        task = asyncio.ensure_future(answering)
        gone = asyncio.ensure_future(self._receive())
        try:
            await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ClientGoneError
            return task.result()
        except asyncio.CancelledError:
            if task.cancelled():  # by the end of its episode
                raise GatewayError(
                    401, "the episode of this api_key has ended", code="episode_ended"
                ) from None
            raise
        finally:
            task.cancel()
            gone.cancel()

    async def json(self, value: Any) -> None:
        await self.whole(200, orjson.dumps(value), {})

    async def whole(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        named = {"content-type": "application/json", **headers, "content-length": str(len(body))}
        await self._start(status, named)
        await self._send({"type": "http.response.body", "body": body})

    async def begin(self, first: bytes, headers: Mapping[str, str]) -> None:
        self._is_stream = True
        await self._start(200, {**_EVENTS, **headers})
        await self.more(first)

    async def more(self, part: bytes, *, last: bool = False) -> None:
        if part or last:
            await self._send({"type": "http.response.body", "body": part, "more_body": not last})

    async def relay(self, status: int, content_type: str, parts: AsyncIterator[bytes]) -> None:
        self._is_stream = True
        await self._start(status, {"content-type": content_type})
        async for part in parts:
            await self.more(part)
        await self.more(b"", last=True)

    async def _start(self, status: int, headers: Mapping[str, str]) -> None:
        raw = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def fail(self, error: GatewayError) -> None:
        """Send an error; in a stream that has begun, as its last event."""
        body = orjson.dumps(self.dialect.error(error))
        if self._is_stream:
            name = b"event: error\n" if self.dialect is messages else b""
            await self.more(name + b"data: " + body + b"\n\n", last=True)
            return
        told = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
        await self.whole(error.status, body, told)
