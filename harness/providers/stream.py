"""One streamed call through an SDK, from the open connection to a whole reply or a `ProviderError`.

Both SDKs are made alike (same exception names, same stream objects), so what a broken call means is decided
once, here: `UnavailableError` (it will pass), `RequestTooLongError`, `RejectedError` (it will not), each with
a text for people that holds no secret. `Parts` is what each protocol fills: events in, a reply out.
"""

import asyncio
import email.utils
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timezone
from types import ModuleType
from typing import Any

from harness.providers.chat import (
    ProviderError,
    RejectedError,
    Reply,
    Request,
    RequestTooLongError,
    UnavailableError,
    Usage,
    tokens_of,
)
from harness.redaction import redact

CONNECT_S = 10.0
BETWEEN_CHUNKS_S = 120.0
WHOLE_REPLY_S = 900.0
SHORTEST_SECRET = 8
"""Shorter keys ("EMPTY", "dummy") are placeholders that servers without keys are given, and plain words."""

_TOO_LONG = re.compile(
    r"context_length_exceeded|prompt is too long|maximum context|context length|context window|context size"
    r"|input is too long|request_too_large|request too large|reduce the length"
)
_NO_CREDIT = re.compile(
    r"insufficient_quota|exceeded your current quota|billing_hard_limit|billing_not_active|billing_error"
    r"|spend_limit|credit balance"
)
_REJECTED = re.compile(r"invalid_request|authentication|permission|not_found|bad_?request")
_PASSING_STATUSES = {408, 409, 425, 429}
_TRANSPORT = {"httpx", "httpx2", "httpcore", "httpcore2", "h11", "anyio"}
_UNDELIVERED = {"ConnectTimeout", "PoolTimeout", "WriteTimeout"}
_FIXES = {
    401: "Check the key: {key}",
    402: "The account has no credit left: add some with the provider, or name another model",
    403: "The key may not use this model or server: {key}",
    404: "Check the model's name and, where one is given, the server's address",
}
_LONGEST_QUOTE = 500


@dataclass(frozen=True)
class Place:
    """Where a call goes, for error texts. `secret` is the key itself, masked wherever a server repeats it;
    `proxy` the address the calls go through, None: straight to the server."""

    provider: str
    model: str
    base_url: str | None
    secret: str | None
    proxy: str | None = None

    def text(self, what: str, fix: str = "") -> str:
        """One message for people."""
        name = f"{self.provider}:{self.model}" + (f" at {self.base_url}" if self.base_url else "")
        secret = self.secret or ""
        known = [secret] if len(secret) >= SHORTEST_SECRET else []
        return redact(f"{name} {what}" + (f". {fix}" if fix else ""), known)

    @property
    def through(self) -> str:
        return f" through the proxy {self.proxy}" if self.proxy else ""

    @property
    def key(self) -> str:
        """Where the key is set."""
        if self.base_url:
            return "`key_env` in the [llm] section of harness.toml names the variable that holds it"
        return f"{self.provider.upper()}_API_KEY, or `key_env` in the [llm] section of harness.toml"


class Parts:
    """A reply while it streams in; each protocol adds `add` and `reply`.

    `stop`: why the model stopped, in the protocol's word, None until it says so: nothing but bookkeeping can
    follow then. `written`: bytes of output seen so far, for servers that do not count.
    """

    def __init__(self, request: Request) -> None:
        self.request = request
        self.has_begun = False
        self.stop: str | None = None
        self.model = ""
        self.usage = Usage()
        self.written = 0

    def add(self, event: Any) -> None:
        """Take in one event of the stream."""
        raise NotImplementedError

    def reply(self) -> Reply:
        """The whole reply."""
        raise NotImplementedError

    def known_usage(self) -> Usage | None:
        """What a reply that broke off has used; None when it had not begun."""
        return self.counted() if self.has_begun else None

    def counted(self) -> Usage:
        """What the server reports; an estimate for what it leaves out or reports as nothing."""
        usage = self.usage
        if not usage.all_input_tokens:
            usage = replace(usage, input_tokens=tokens_of(self.request.size))
        if not usage.output_tokens or self.stop is None:
            usage = replace(usage, output_tokens=max(usage.output_tokens, tokens_of(self.written)))
        return usage


def client_options(sdk: ModuleType, uses_proxies: bool) -> dict[str, Any]:
    """What every client is made with: our time-outs, no retries, and no redirects, which would carry key and
    prompt to an address that was never named. `uses_proxies`: those of the environment are gone through."""
    return {
        "timeout": sdk.Timeout(BETWEEN_CHUNKS_S, connect=CONNECT_S, pool=CONNECT_S),
        "max_retries": 0,
        "http_client": sdk.DefaultAsyncHttpxClient(follow_redirects=False, trust_env=uses_proxies),
    }


async def put_together(
    sdk: ModuleType,
    place: Place,
    opening: Callable[[], Awaitable[Any]],
    parts: Parts,
    now: Callable[[], float],
) -> Reply:
    """The reply of the stream that `opening` opens. Raises ProviderError, with what is known of the usage."""
    content_type = ""

    async def read() -> None:
        nonlocal content_type
        async with await opening() as stream:
            content_type = stream.response.headers.get("content-type", "")
            async for event in stream:
                parts.has_begun = True
                with _reading(place, parts):
                    parts.add(event)

    try:
        await asyncio.wait_for(read(), WHOLE_REPLY_S)
    except Exception as error:
        failure = _failure(sdk, place, error, parts, now())
        if parts.stop is None:
            raise failure from error
    if parts.stop is not None:
        with _reading(place, parts):
            return parts.reply()
    if not parts.has_begun and "event-stream" not in content_type:
        what = f"answered with {content_type or 'nothing'} where a stream of events was expected"
        raise RejectedError(place.text(what, "Does the address lead to a server of this protocol?"))
    raise _cut_off(place, "the stream ended early", parts.known_usage())


@contextmanager
def _reading(place: Place, parts: Parts) -> Iterator[None]:
    """Servers send what their protocol does not foresee; whatever that breaks is a RejectedError."""
    try:
        yield
    except Exception as error:
        raise _unreadable(place, error, parts.known_usage()) from error


def _failure(sdk: ModuleType, place: Place, error: Exception, parts: Parts, now: float) -> ProviderError:
    """What the error means."""
    usage = parts.known_usage()
    if isinstance(error, ProviderError):
        return error
    is_late = isinstance(error, sdk.APITimeoutError | asyncio.TimeoutError)
    is_transport = isinstance(error, OSError) or type(error).__module__.partition(".")[0] in _TRANSPORT
    if is_late or is_transport or isinstance(error, sdk.APIConnectionError):
        if usage is not None:
            return _cut_off(place, str(error) or type(error).__name__, usage)
        return _timed_out(place, error, parts.request) if is_late else _unreachable(place, error)
    if isinstance(error, sdk.APIStatusError):
        headers = error.response.headers
        return from_status(place, error.status_code, error.body, error.message, headers, now, usage)
    if isinstance(error, sdk.APIError):  # an error inside the stream
        return from_status(place, 0, error.body, error.message, {}, now, usage)
    if isinstance(error, ValueError):
        return _cut_off(place, f"what it sent cannot be read: {error}", usage)
    return _unreadable(place, error, usage)


def _unreachable(place: Place, error: Exception) -> UnavailableError:
    """No network, no server, or a connection that broke before an answer."""
    cause = error.__cause__ or error
    fix = "Is the server running and the address right?" if place.base_url else ""
    if place.proxy:
        fix = f"Is the proxy that the environment names right? {fix}".strip()
    reason = str(cause) or type(cause).__name__
    return UnavailableError(place.text(f"cannot be reached{place.through} ({reason})", fix))


def _timed_out(place: Place, error: Exception, request: Request) -> UnavailableError:
    """No answer came in time. A request that went out before may be charged: at least for being read."""
    causes = {type(error).__name__, type(error.__cause__).__name__}
    charged = None if causes & _UNDELIVERED else Usage(input_tokens=tokens_of(request.size))
    what = f"did not answer in time{place.through}"
    return UnavailableError(place.text(what), charged, is_estimated=charged is not None)


def _unreadable(place: Place, error: Exception, usage: Usage | None) -> RejectedError:
    what = f"sent a reply that cannot be read ({type(error).__name__}: {error})"
    return RejectedError(place.text(what, "Does the server speak this protocol?"), usage)


def _cut_off(place: Place, reason: str, usage: Usage | None) -> UnavailableError:
    return UnavailableError(place.text(f"broke off in the middle of its reply ({reason})"), usage)


def from_status(
    place: Place,
    status: int,
    body: Any,
    message: str,
    headers: Mapping[str, str],
    now: float,
    usage: Usage | None = None,
) -> ProviderError:
    """The error for a server's answer; `status` 200 or 0 for an error inside a stream.

    `now`: epoch seconds, for a Retry-After that is a date.
    """
    if 300 <= status < 400:
        what = f"answered {status}: it leads to {headers.get('location', 'another address')}"
        return RejectedError(place.text(what, "Name that address instead"))
    words = _words(body, message)
    flat = f"{words} {body if isinstance(body, str) else json.dumps(body, default=str)}".lower()
    if status < 400:
        status = _status_inside(body)
    what = f"answered {status}: {words}" if status else f"broke off with an error: {words}"
    is_client_error = 400 <= status < 500 or status == 0
    if status == 413 or (_TOO_LONG.search(flat) and (is_client_error or status == 500)):
        return RequestTooLongError(place.text(what, "The request is longer than the model can read"), usage)
    if _NO_CREDIT.search(flat) and is_client_error:
        return RejectedError(place.text(what, _FIXES[402]), usage)
    if status in _PASSING_STATUSES or status >= 500 or (status == 0 and not _REJECTED.search(flat)):
        return UnavailableError(place.text(what), usage, retry_after_s=retry_after(headers, now))
    return RejectedError(place.text(what, _FIXES.get(status, "").format(key=place.key)), usage)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait by the Retry-After headers (milliseconds, seconds or a date); None without one."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if re.fullmatch(r"\d+(\.\d+)?", value):
            return float(value) / unit
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except (TypeError, ValueError, IndexError):
        return None
    return max(0.0, (date if date.tzinfo else date.replace(tzinfo=timezone.utc)).timestamp() - now)


def _error_in(body: Any) -> Any:
    return body.get("error", body) if isinstance(body, dict) else None


def _status_inside(body: Any) -> int:
    """The status that an error inside a stream speaks of; 0 when it names none."""
    error = _error_in(body)
    code, kind = (str(error.get(key) or "") if isinstance(error, dict) else "" for key in ("code", "type"))
    if re.fullmatch(r"[45]\d\d", code):
        return int(code)
    return 529 if "overloaded" in kind.lower() else 0


def _words(body: Any, message: str) -> str:
    """The server's own sentence, shortened."""
    error = _error_in(body)
    own = error.get("message") if isinstance(error, dict) else error
    kind = (error.get("code") or error.get("type")) if isinstance(error, dict) else None
    words = own if isinstance(own, str) and own.strip() else message
    words = " ".join(words.split())[:_LONGEST_QUOTE]
    return f"{words} ({kind})" if kind and str(kind) not in words else words
