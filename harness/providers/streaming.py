"""One streamed call through an SDK, from the open connection to a whole reply or a `ProviderError`.

Both SDKs are made alike (same exception names, same stream objects), so what a broken call means is said
once, here. `Parts` is what each protocol fills: events in, a reply out.
"""

import asyncio
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any, Protocol

from harness.providers import failures
from harness.providers.turns import estimated_tokens, request_bytes
from harness.providers.types import ProviderError, Reply, Request, Usage

CONNECT_S = 10.0
BETWEEN_CHUNKS_S = 120.0
WHOLE_REPLY_S = 900.0


class Parts(Protocol):
    """A reply while it streams in."""

    @property
    def has_begun(self) -> bool: ...

    @property
    def is_complete(self) -> bool:
        """Whether the model has said why it stopped: nothing but bookkeeping can follow."""
        ...

    def add(self, event: Any) -> None: ...

    def known_usage(self) -> Usage | None:
        """What a reply that broke off has used; None when it had not begun."""
        ...

    def reply(self) -> Reply: ...


def client_options(sdk: ModuleType, uses_proxies: bool) -> dict[str, Any]:
    """What every client is made with: our time-outs, no retries, and no redirects, which would carry key and
    prompt to an address that nobody named. `uses_proxies`: those of the environment are gone through."""
    return {
        "timeout": sdk.Timeout(BETWEEN_CHUNKS_S, connect=CONNECT_S, pool=CONNECT_S),
        "max_retries": 0,
        "http_client": sdk.DefaultAsyncHttpxClient(follow_redirects=False, trust_env=uses_proxies),
    }


async def put_together(
    sdk: ModuleType,
    place: failures.Place,
    opening: Callable[[], Awaitable[Any]],
    parts: Parts,
    request: Request,
    now: Callable[[], float],
) -> Reply:
    """The reply of the stream that `opening` opens for `request`. Raises ProviderError, with what is known of
    the usage."""
    content_type = ""

    async def read() -> None:
        nonlocal content_type
        async with await opening() as stream:
            content_type = stream.response.headers.get("content-type", "")
            async for event in stream:
                _add(place, parts, event)

    try:
        await asyncio.wait_for(read(), WHOLE_REPLY_S)
    except Exception as error:
        failure = _failure(sdk, place, error, parts.known_usage(), request, now())
        if not parts.is_complete:
            raise failure from error
    if parts.is_complete:
        try:
            return parts.reply()
        except Exception as error:
            raise failures.unreadable(place, error, parts.known_usage()) from error
    if not parts.has_begun and "event-stream" not in content_type:
        raise failures.no_stream(place, content_type)
    raise failures.cut_off(place, "the stream ended early", parts.known_usage())


def _add(place: failures.Place, parts: Parts, event: Any) -> None:
    """One event. Servers send what their protocol never said; whatever that breaks, it is theirs."""
    try:
        parts.add(event)
    except Exception as error:
        raise failures.unreadable(place, error, parts.known_usage()) from error


def _failure(
    sdk: ModuleType,
    place: failures.Place,
    error: Exception,
    usage: Usage | None,
    request: Request,
    now: float,
) -> ProviderError:
    """What the error means."""
    if isinstance(error, ProviderError):
        return error
    is_late = isinstance(error, sdk.APITimeoutError | asyncio.TimeoutError)
    if is_late or isinstance(error, sdk.APIConnectionError) or failures.is_transport_error(error):
        if usage is not None:
            return failures.cut_off(place, str(error) or type(error).__name__, usage)
        if not is_late:
            return failures.connection_failed(place, error)
        return failures.timed_out(place, _charged(request) if _was_delivered(error) else None)
    if isinstance(error, sdk.APIStatusError):
        headers = error.response.headers
        return failures.from_status(place, error.status_code, error.body, error.message, headers, now, usage)
    if isinstance(error, sdk.APIError):  # an error inside the stream
        return failures.from_status(place, 0, error.body, error.message, {}, now, usage)
    if isinstance(error, ValueError):
        return failures.cut_off(place, f"what it sent cannot be read: {error}", usage)
    return failures.unreadable(place, error, usage)


def _was_delivered(error: BaseException) -> bool:
    """Whether a time-out came after the request had gone out: the provider may charge for it then."""
    causes = {type(error).__name__, type(error.__cause__).__name__}
    return not causes & {"ConnectTimeout", "PoolTimeout", "WriteTimeout"}


def _charged(request: Request) -> Usage:
    """The least that a provider which read the request and answered nothing may charge."""
    return Usage(input_tokens=estimated_tokens(request_bytes(request)))
