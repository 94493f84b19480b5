"""One HTTP request and what is sent back, on ASGI."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import orjson

from trainer_core.gateway.ask import GatewayError, episode_ended
from trainer_core.gateway.dialects.dialect import Dialect, event

if TYPE_CHECKING:
    import httpx

_LARGEST_BODY = 64 * 2**20
_BODY_S = 60.0


class ClientGoneError(Exception):
    """The client has hung up."""


class Exchange:
    """One request and what is sent back."""

    def __init__(self, scope: Mapping[str, Any], receive: Any, send: Any, dialect: type[Dialect]) -> None:
        self.dialect = dialect
        self.query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self._receive = receive
        self._send = send
        self.raw = b""
        """The body as it came, once it has been read."""
        self._is_stream = False

    def api_key(self) -> str:
        header = self._headers.get(b"x-api-key") or self._headers.get(b"authorization", b"")
        return header.decode("latin-1").removeprefix("Bearer ").strip()

    def header(self, name: bytes) -> bytes | None:
        """A header of the request; its name in small letters."""
        return self._headers.get(name)

    def is_repeated(self) -> bool:
        """True if the client's SDK says that it has sent this before."""
        return self._headers.get(b"x-stainless-retry-count", b"0") != b"0"

    def name(self, path: str) -> bytes:
        """What makes two requests the same one."""
        key = self._headers.get(b"idempotency-key") or self.raw
        return hashlib.blake2b(path.encode() + self.api_key().encode() + key, digest_size=16).digest()

    async def body(self, *, may_be_empty: bool = False) -> dict[str, Any]:
        """The body as an object.

        Raises:
            GatewayError: it is none, too large, or does not come.
        """
        raw = bytearray()
        try:
            async with asyncio.timeout(_BODY_S):
                while True:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGoneError
                    raw += message.get("body", b"")
                    if len(raw) > _LARGEST_BODY:
                        message = f"the body is larger than {_LARGEST_BODY} bytes"
                        raise GatewayError(413, message, code="too_large")
                    if not message.get("more_body"):
                        break
        except TimeoutError:
            raise GatewayError(408, f"the body did not come within {_BODY_S:.0f} s", code="timeout") from None
        self.raw = bytes(raw)
        if may_be_empty and not self.raw:
            return {}
        try:
            body = orjson.loads(self.raw)
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
                raise episode_ended() from None
            raise
        finally:
            task.cancel()
            gone.cancel()

    async def whole(self, value: Any, headers: Mapping[str, str] | None = None, status: int = 200) -> None:
        """Send an answer: bytes as they are, anything else as JSON."""
        body = value if isinstance(value, bytes) else orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
        kind = "text/plain; version=0.0.4" if body is value else "application/json"
        named = {"content-type": kind, **(headers or {}), "content-length": str(len(body))}
        await self._start(status, named)
        await self._send({"type": "http.response.body", "body": body})

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Begin a stream."""
        self._is_stream = True
        await self._start(status, headers)

    async def more(self, part: bytes, *, last: bool = False) -> None:
        """Go on with a stream."""
        if part or last:
            await self._send({"type": "http.response.body", "body": part, "more_body": not last})

    async def _start(self, status: int, headers: Mapping[str, str]) -> None:
        raw = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def fail(self, error: GatewayError) -> None:
        """Send an error; in a stream that has begun, as its last event."""
        body = self.dialect.error(error)
        if self._is_stream:
            await self.more(event(body), last=True)
            return
        await self.whole(body, {"retry-after": "1"} if error.status == 429 else {}, error.status)

    async def relay(self, answer: httpx.Response) -> None:
        """Send what another server answers, as it comes."""
        kept = ("content-type", "retry-after", "x-ajet-sampling", "x-ajet-unmet")
        headers = {name: answer.headers[name] for name in kept if name in answer.headers}
        await self.begin(answer.status_code, headers)
        async for part in answer.aiter_bytes():
            await self.more(part)
        await self.more(b"", last=True)
