"""One streamed call through an SDK, from the open connection to a whole reply or a `ProviderError`.

Both SDKs are made alike (same exception names, same stream objects), so what a broken call means is decided
once, here: `UnavailableError` (it will pass), `RequestTooLongError`, `RejectedError` (it will not), each with
a text for people that holds no secret. `Parts` is what each protocol fills: events in, a reply out.
"""

import asyncio
import email.utils
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timezone
from functools import partial
from types import ModuleType
from typing import Any

from harness.providers.chat import (
    ProviderError,
    RejectedError,
    Reply,
    Request,
    RequestTooLongError,
    StopReason,
    ToolCall,
    UnavailableError,
    Usage,
    tokens_of,
)
from harness.providers.cost import is_loopback
from harness.providers.wire import sendable
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
    """Where a call goes, for error texts. `secret` is the key itself, masked wherever a server repeats it."""

    provider: str
    model: str
    base_url: str | None
    secret: str | None

    def text(self, what: str, fix: str = "") -> str:
        """One message for people."""
        name = f"{self.provider}:{self.model}" + (f" at {self.base_url}" if self.base_url else "")
        secret = self.secret or ""
        known = [secret] if len(secret) >= SHORTEST_SECRET else []
        return redact(f"{name} {what}" + (f". {fix}" if fix else ""), known)

    @property
    def key(self) -> str:
        """Where the key is set."""
        own = "" if self.base_url else f"{self.provider.upper()}_API_KEY, or the variable that "
        return f"{own}`key_env` in the [llm] section of harness.toml names"


@dataclass
class PartialCall:
    """One tool call while it streams in."""

    index: int | None
    id: str = ""
    name: str = ""
    arguments: str = ""


class Parts:
    """A reply while it streams in; each protocol adds `add`. `stops`: what its words for stopping mean.

    `stop`: why it stopped, in the protocol's word, None until it says so: nothing but bookkeeping can follow
    then. `written`: bytes of output seen so far, for servers that do not count.
    """

    def __init__(self, request: Request, stops: Mapping[str, StopReason]) -> None:
        self.request = request
        self._stops = stops
        self.has_begun = False
        self.stop: str | None = None
        self.model = self.text = self.refusal = ""
        self.calls: list[PartialCall] = []
        self.usage = Usage()
        self.written = 0

    def add(self, event: Any) -> None:
        """Take in one event of the stream."""
        raise NotImplementedError

    def count(self, text: str) -> None:
        self.written += len(text.encode("utf-8", "replace"))

    def reply(self) -> Reply:
        """The whole reply."""
        turn = len(self.request.turns)
        calls = tuple(
            ToolCall(call.id or f"call_{turn}_{number}", call.name, sendable(call.arguments) or "{}")
            for number, call in enumerate(self.calls)
        )
        natural = StopReason.TOOL_CALL if calls else StopReason.END
        stop = self._stops.get(self.stop or "", StopReason.REFUSED if self.refusal else natural)
        return Reply(self.text or self.refusal, calls, stop, self.counted(), self.model)

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


def client_options(sdk: ModuleType, url: str) -> dict[str, Any]:
    """What every client is made with: our time-outs, no retries, and no redirects, which would carry key and
    prompt to an address that was never named. A server on this machine is asked past all proxies."""
    client = sdk.DefaultAsyncHttpxClient(follow_redirects=False, trust_env=not is_loopback(url))
    timeout = sdk.Timeout(BETWEEN_CHUNKS_S, connect=CONNECT_S, pool=CONNECT_S)
    return {"base_url": url, "timeout": timeout, "max_retries": 0, "http_client": client}


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
                _understood(place, parts, partial(parts.add, event))

    try:
        await asyncio.wait_for(read(), WHOLE_REPLY_S)
    except Exception as error:
        failure = _failure(sdk, place, error, parts, now())
        if parts.stop is None:
            raise failure from error
    if parts.stop is not None:
        return _understood(place, parts, parts.reply)
    if not parts.has_begun and "event-stream" not in content_type:
        what = f"answered with {content_type or 'nothing'} where a stream of events was expected"
        raise RejectedError(place.text(what, "Does the address lead to a server of this protocol?"))
    raise _cut_off(place, "the stream ended early", parts.known_usage())


def _understood(place: Place, parts: Parts, read: Callable[[], Any]) -> Any:
    """Servers send what their protocol does not foresee; whatever that breaks is a RejectedError."""
    try:
        return read()
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
        return _unanswered(place, error, is_late, parts.request)
    if isinstance(error, sdk.APIError):  # without a response it came inside the stream
        headers = error.response.headers if isinstance(error, sdk.APIStatusError) else {}
        status = getattr(error, "status_code", 0)
        return _from_status(place, status, error.body, error.message, headers, now, usage)
    if isinstance(error, ValueError):
        return _cut_off(place, f"what it sent cannot be read: {error}", usage)
    return _unreadable(place, error, usage)


def _unanswered(place: Place, error: Exception, is_late: bool, request: Request) -> UnavailableError:
    """No network, no server, or no answer in time: a request that went out then may be charged, at least for
    being read."""
    cause = error.__cause__ or error
    if is_late:
        is_charged = not {type(error).__name__, type(cause).__name__} & _UNDELIVERED
        charged = Usage(input_tokens=tokens_of(request.size)) if is_charged else None
        return UnavailableError(place.text("did not answer in time"), charged, is_estimated=is_charged)
    fix = "Is the server running, and are its address and the proxies in the environment right?"
    return UnavailableError(place.text(f"cannot be reached ({str(cause) or type(cause).__name__})", fix))


def _unreadable(place: Place, error: Exception, usage: Usage | None) -> RejectedError:
    what = f"sent a reply that cannot be read ({type(error).__name__}: {error})"
    return RejectedError(place.text(what, "Does the server speak this protocol?"), usage)


def _cut_off(place: Place, reason: str, usage: Usage | None) -> UnavailableError:
    return UnavailableError(place.text(f"broke off in the middle of its reply ({reason})"), usage)


def _from_status(
    place: Place,
    status: int,
    body: Any,
    message: str,
    headers: Mapping[str, str],
    now: float,
    usage: Usage | None,
) -> ProviderError:
    """The error for a server's answer; `status` 200 or 0 for an error inside a stream."""
    if 300 <= status < 400:
        what = f"answered {status}: it leads to {headers.get('location', 'another address')}"
        return RejectedError(place.text(what, "Name that address instead"))
    words, code = _words(body, message)
    flat = f"{words} {body if isinstance(body, str) else json.dumps(body, default=str)}".lower()
    if status < 400:  # the error itself may name one
        status = int(code) if re.fullmatch(r"[45]\d\d", code) else 529 if "overloaded" in code.lower() else 0
    what = f"answered {status}: {words}" if status else f"broke off with an error: {words}"
    is_client_error = 400 <= status < 500 or status == 0
    if status == 413 or (_TOO_LONG.search(flat) and (is_client_error or status == 500)):
        return RequestTooLongError(place.text(what, "The request is longer than the model can read"), usage)
    if _NO_CREDIT.search(flat) and is_client_error:
        return RejectedError(place.text(what, _FIXES[402]), usage)
    if status in _PASSING_STATUSES or status >= 500 or (status == 0 and not _REJECTED.search(flat)):
        return UnavailableError(place.text(what), usage, retry_after_s=_retry_after(headers, now))
    return RejectedError(place.text(what, _FIXES.get(status, "").format(key=place.key)), usage)


def _retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait by the Retry-After header (seconds or a date); None without one."""
    value = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d+(\.\d+)?", value):
        return float(value)
    try:
        date = email.utils.parsedate_to_datetime(value)
    except (TypeError, ValueError, IndexError):
        return None
    return max(0.0, (date if date.tzinfo else date.replace(tzinfo=timezone.utc)).timestamp() - now)


def _words(body: Any, message: str) -> tuple[str, str]:
    """The server's own sentence, shortened, and its code or kind of error ("" without one)."""
    error = body.get("error", body) if isinstance(body, dict) else None
    own = error.get("message") if isinstance(error, dict) else error
    code = str(error.get("code") or error.get("type") or "") if isinstance(error, dict) else ""
    words = own if isinstance(own, str) and own.strip() else message
    words = " ".join(words.split())[:_LONGEST_QUOTE]
    return (f"{words} ({code})" if code and code not in words else words), code
