"""What the protocols share: one streamed call through an SDK, from the open connection to a whole reply or a
`ProviderError`, and the forms of texts and tools.

Both SDKs are made alike (same exception names, same stream objects), so what a broken call means is decided
once, here: `UnavailableError` (it will pass), `RequestTooLongError`, `RejectedError` (it will not), each with
a text for people that holds no secret. `Parts` is what each protocol fills: events in, a reply out.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, ClassVar

from harness.providers.chat import (
    NoAccessError,
    ProviderError,
    RejectedError,
    Reply,
    Request,
    RequestTooLongError,
    StopReason,
    Tool,
    ToolCall,
    UnavailableError,
    Usage,
    tokens_of,
)
from harness.providers.cost import is_loopback
from harness.redaction import Secrets, parts, redact

OFFICIAL_URLS = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com/v1"}
"""Each protocol's own server, by the name of its provider."""
CONNECT_S = 10.0
TIMEOUT_S, LOCAL_TIMEOUT_S = 120.0, 600.0
"""How long nothing may come: from elsewhere; from this machine, whose server may have to load its model."""
_WHOLE_REPLY = 8  # so many times as long a reply that goes on coming may take

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
_LONGEST_NAME = 64


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

    stops: ClassVar[Mapping[str, StopReason]] = {}

    def __init__(self, request: Request) -> None:
        self.request = request
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
        turn = len(self.request.turns)
        calls = tuple(
            ToolCall(call.id or f"call_{turn}_{number}", call.name, call.arguments or "{}")
            for number, call in enumerate(self.calls)
        )
        natural = StopReason.TOOL_CALL if calls else StopReason.END
        stop = self.stops.get(self.stop or "", StopReason.REFUSED if self.refusal else natural)
        return Reply(self.text or self.refusal, calls, stop, self._counted(), self.model)

    def known_usage(self) -> Usage | None:
        """What a reply that broke off has used; None when it had not begun."""
        return self._counted() if self.has_begun else None

    def _counted(self) -> Usage:
        """What the server reports; an estimate for what it leaves out or reports as nothing."""
        usage = self.usage
        if not usage.all_input_tokens:
            usage = replace(usage, input_tokens=tokens_of(self.request.size))
        if not usage.output_tokens or self.stop is None:
            usage = replace(usage, output_tokens=max(usage.output_tokens, tokens_of(self.written)))
        return usage


class StreamedProvider:
    """One model behind an SDK; each protocol has a client of its own, opens the stream, and reads it."""

    name: str
    sdk: ModuleType
    parts: type[Parts]

    def __init__(
        self,
        model: str,
        key: str | None,
        base_url: str | None = None,
        timeout_s: float | None = None,
        is_token: bool = False,
    ) -> None:
        """`key` None: the server needs none; `is_token`: it is an OAuth-style token. `timeout_s` None: the
        default for where the server is."""
        self.model = model
        self._key, self._base_url = key, base_url
        self._url = base_url or OFFICIAL_URLS[self.name]
        self._timeout_s = timeout_s or (LOCAL_TIMEOUT_S if is_loopback(self._url) else TIMEOUT_S)
        self._client = self._connect(key, is_token)

    def _connect(self, key: str | None, is_token: bool) -> Any:
        """The SDK's client."""
        raise NotImplementedError

    def _open(self, request: Request) -> Awaitable[Any]:
        raise NotImplementedError

    def _options(self) -> dict[str, Any]:
        """What every client is made with: our time-outs, no retries, and no redirects, which would carry key
        and prompt to an address that was never named. A server on this machine is asked past all proxies."""
        trust_env = not is_loopback(self._url)
        client = self.sdk.DefaultAsyncHttpxClient(follow_redirects=False, trust_env=trust_env)
        timeout = self.sdk.Timeout(self._timeout_s, connect=CONNECT_S, pool=CONNECT_S)
        return {"base_url": self._url, "timeout": timeout, "max_retries": 0, "http_client": client}

    async def complete(self, request: Request) -> Reply:
        """The model's reply. Raises ProviderError, with what is known of the usage."""
        parts, content_type = self.parts(request), ""

        async def read() -> None:
            nonlocal content_type
            async with await self._open(request) as stream:
                content_type = stream.response.headers.get("content-type", "")
                async for event in stream:
                    parts.has_begun = True
                    parts.add(event)

        try:
            await asyncio.wait_for(read(), _WHOLE_REPLY * self._timeout_s)
        except Exception as error:
            if parts.stop is None:
                raise self._failure(error, parts) from error
        if parts.stop is not None:
            return parts.reply()
        if not parts.has_begun and "event-stream" not in content_type:
            what = f"answered with {content_type or 'nothing'} where a stream of events was expected"
            raise NoAccessError(self._text(what, "Does the address lead to a server of this protocol?"))
        raise self._cut_off("the stream ended early", parts.known_usage())

    async def close(self) -> None:
        await self._client.close()

    # --- what a broken call means ---

    def _text(self, what: str, fix: str = "") -> str:
        """One message for people; the key is masked wherever a server repeats it."""
        name = f"{self.name}:{self.model}" + (f" at {self._base_url}" if self._base_url else "")
        return redact(f"{name} {what}" + (f". {fix}" if fix else ""), Secrets(parts(self._key or "")))

    def _failure(self, error: Exception, parts: Parts) -> ProviderError:
        usage = parts.known_usage()
        is_late = isinstance(error, self.sdk.APITimeoutError | asyncio.TimeoutError)
        is_transport = isinstance(error, OSError) or type(error).__module__.partition(".")[0] in _TRANSPORT
        if is_late or is_transport or isinstance(error, self.sdk.APIConnectionError):
            if usage is not None:
                return self._cut_off(str(error) or type(error).__name__, usage)
            return self._unanswered(error, is_late, parts.request)
        if isinstance(error, self.sdk.APIError):  # without a response it came inside the stream
            return self._told(error, usage)
        if isinstance(error, ValueError):
            return self._cut_off(f"what it sent cannot be read: {error}", usage)
        what = f"sent a reply that cannot be read ({type(error).__name__}: {error})"
        return RejectedError(self._text(what, "Does the server speak this protocol?"), usage)

    def _cut_off(self, reason: str, usage: Usage | None) -> UnavailableError:
        return UnavailableError(self._text(f"broke off in the middle of its reply ({reason})"), usage)

    def _unanswered(self, error: Exception, is_late: bool, request: Request) -> UnavailableError:
        """No network, no server, or no answer in time: a request that went out then may be charged, at least
        for being read."""
        cause = error.__cause__ or error
        if is_late:
            is_charged = not {type(error).__name__, type(cause).__name__} & _UNDELIVERED
            charged = Usage(input_tokens=tokens_of(request.size)) if is_charged else None
            late = f"did not answer in time (`timeout_s` in harness.toml: {self._timeout_s:g} s)"
            return UnavailableError(self._text(late), charged, is_estimated=is_charged)
        fix = "Is the server running, and are its address and the proxies in the environment right?"
        return UnavailableError(self._text(f"cannot be reached ({str(cause) or type(cause).__name__})", fix))

    def _told(self, error: Any, usage: Usage | None) -> ProviderError:
        """The error that a server answered with, or put into a stream."""
        status, body = getattr(error, "status_code", 0), error.body
        headers = error.response.headers if isinstance(error, self.sdk.APIStatusError) else {}
        if 300 <= status < 400:
            what = f"answered {status}: it leads to {headers.get('location', 'another address')}"
            return NoAccessError(self._text(what, "Name that address instead"))
        words, code = _words(body, error.message)
        flat = f"{words} {body if isinstance(body, str) else json.dumps(body, default=str)}".lower()
        if status < 400:  # the error itself may name one
            status = 529 if "overloaded" in code.lower() else 0
            status = int(code) if re.fullmatch(r"[45]\d\d", code) else status
        what = f"answered {status}: {words}" if status else f"broke off with an error: {words}"
        is_client_error = 400 <= status < 500 or status == 0
        if status == 413 or (_TOO_LONG.search(flat) and (is_client_error or status == 500)):
            what = self._text(what, "The request is longer than the model can read")
            return RequestTooLongError(what, usage)
        if _NO_CREDIT.search(flat) and is_client_error:
            return NoAccessError(self._text(what, _FIXES[402]), usage)
        if status in _PASSING_STATUSES or status >= 500 or (status == 0 and not _REJECTED.search(flat)):
            wait = headers.get("retry-after", "")
            seconds = float(wait) if re.fullmatch(r"\d+(\.\d+)?", wait) else None
            return UnavailableError(self._text(what), usage, retry_after_s=seconds)
        own = "" if self._base_url else f"{self.name.upper()}_API_KEY, or "
        key = f"{own}the variable that `key_env` in the [llm] section of harness.toml names"
        kind = NoAccessError if status in _FIXES else RejectedError
        return kind(self._text(what, _FIXES.get(status, "").format(key=key)), usage)


def _words(body: Any, message: str) -> tuple[str, str]:
    """The server's own sentence, shortened, and its code or kind of error ("" without one)."""
    error = body.get("error", body) if isinstance(body, dict) else None
    own = error.get("message") if isinstance(error, dict) else error
    code = str(error.get("code") or error.get("type") or "") if isinstance(error, dict) else ""
    words = own if isinstance(own, str) and own.strip() else message
    words = " ".join(words.split())[:_LONGEST_QUOTE]
    return (f"{words} ({code})" if code and code not in words else words), code


# --- what both protocols need to put a conversation on the wire, and to read what servers send ------------


def arguments_object(call: ToolCall) -> dict[str, Any]:
    """A call's arguments as the object that protocols demand.

    Text that is no JSON object is kept as `{"_malformed": text}`, so that the model can see what it wrote.
    """
    try:
        value = json.loads(call.arguments or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"_malformed": sendable(call.arguments)}


def sendable(text: str) -> str:
    """Text that UTF-8 can carry: lone surrogates (from undecodable log bytes) become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def spoken(text: str) -> str:
    """Text for a place where providers refuse empty words."""
    return sendable(text) if text.strip() else "(nothing)"


def wire_name(name: str) -> str:
    """A tool's name as protocols take it back: models make up `functions.look`, "" and longer ones."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_LONGEST_NAME] or "unnamed"


def functions(tools: tuple[Tool, ...], schema: str) -> list[dict[str, Any]]:
    """The tools as objects, with their JSON schema under the protocol's own key."""
    return [{"name": tool.name, "description": tool.description, schema: tool.parameters} for tool in tools]


def field(source: Any, name: str) -> str:
    """A text that a server sent; "" when it is missing. Raises TypeError for anything else."""
    value = getattr(source, name, None)
    if value is not None and not isinstance(value, str):
        raise TypeError(f"`{name}` is no text but {value!r:.80}")
    return sendable(value or "")


def count(source: Any, name: str) -> int:
    """A number of tokens that a server sent; 0 when it is missing or no number."""
    value = getattr(source, name, None)
    return int(value) if isinstance(value, int | float) and 0 < value < 1e12 else 0
