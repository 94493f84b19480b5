"""What went wrong with a call, from what a server said to the error that says what may be done about it.

In: a status, the server's words and headers, as the SDKs hand them over. Out: `UnavailableError` (it will
pass), `RequestTooLongError`, `RejectedError` (it will not), each with a text for people that holds no secret.
"""

import email.utils
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timezone
from typing import Any

from harness.providers.types import ProviderError, RejectedError, RequestTooLongError, UnavailableError, Usage
from harness.redaction import redact

_TOO_LONG = re.compile(
    r"context_length_exceeded|prompt is too long|maximum context|context length|context window|context size"
    r"|input is too long|request_too_large|request too large|reduce the length"
)
_NO_CREDIT = re.compile(
    r"insufficient_quota|exceeded your current quota|billing_hard_limit|billing_not_active|billing_error"
    r"|spend_limit|credit balance"
)
_PASSING_STATUSES = {408, 409, 425, 429}
_PASSING_KINDS = re.compile(r"overloaded|api_error|rate_limit|timeout|server_error|internal|unavailable")
_REJECTED_KINDS = re.compile(r"invalid_request|authentication|permission|not_found|bad_?request")
_MENDS = {
    401: "Check the key: {key}",
    402: "The account has no credit left: add some with the provider, or name another model",
    403: "The key may not use this model or server: {key}",
    404: "Check the model's name and, where one is given, the server's address",
}
_LONGEST_QUOTE = 500
SHORTEST_SECRET = 8
"""Shorter keys ("EMPTY", "dummy") are placeholders that servers without keys are given, and plain words."""


@dataclass(frozen=True)
class Place:
    """Where a call goes, for error texts. `secret` is the key itself, masked wherever a server repeats it;
    `proxy` the address the calls go through, None: straight to the server."""

    provider: str
    model: str
    base_url: str | None
    secret: str | None
    proxy: str | None = None

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}" + (f" at {self.base_url}" if self.base_url else "")

    def text(self, what: str, mend: str = "") -> str:
        """One message for people."""
        message = f"{self} {what}" + (f". {mend}" if mend else "")
        secret = self.secret or ""
        return redact(message, [secret] if len(secret) >= SHORTEST_SECRET else [])

    @property
    def key(self) -> str:
        if self.base_url:
            return "`key_env` in the [llm] section of harness.toml names the variable that holds it"
        return f"{self.provider.upper()}_API_KEY, or `key_env` in the [llm] section of harness.toml"


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
        target = headers.get("location", "another address")
        what = f"answered {status}: it leads to {target}"
        return RejectedError(place.text(what, "Name that address instead"))
    words = _words(body, message)
    told = f"{words} {_flat(body)}".lower()
    if status < 400:
        status = _status_inside(body)
    what = f"answered {status}: {words}" if status else f"broke off with an error: {words}"
    is_client_error = 400 <= status < 500 or status == 0
    if status == 413 or (_TOO_LONG.search(told) and (is_client_error or status == 500)):
        return RequestTooLongError(place.text(what, "The request is longer than the model can read"), usage)
    if _NO_CREDIT.search(told) and is_client_error:
        return RejectedError(place.text(what, _MENDS[402]), usage)
    if status in _PASSING_STATUSES or status >= 500 or (status == 0 and not _REJECTED_KINDS.search(told)):
        return UnavailableError(place.text(what), retry_after(headers, now), usage)
    return RejectedError(place.text(what, _MENDS.get(status, "").format(key=place.key)), usage)


def connection_failed(place: Place, error: BaseException) -> UnavailableError:
    """No network, no server, or a connection that broke before an answer."""
    cause = error.__cause__ or error
    reason = str(cause) or type(cause).__name__
    mend = "Is the server running and the address right?" if place.base_url else ""
    if place.proxy:
        mend = f"Is the proxy that the environment names right? {mend}".strip()
    return UnavailableError(place.text(f"cannot be reached{_through(place)} ({reason})", mend))


def timed_out(place: Place, charged: Usage | None) -> UnavailableError:
    """No answer came. `charged`: what it may cost all the same, None when the request was never delivered."""
    what = f"did not answer in time{_through(place)}"
    return UnavailableError(place.text(what), usage=charged, is_estimated=charged is not None)


def unreadable(place: Place, error: Exception, usage: Usage | None) -> RejectedError:
    """The server answered with something that its protocol does not foresee."""
    what = f"sent a reply that cannot be read ({type(error).__name__}: {error})"
    return RejectedError(place.text(what, "Does the server speak this protocol?"), usage)


def cut_off(place: Place, reason: str, usage: Usage | None) -> UnavailableError:
    """The reply ended before its end."""
    return UnavailableError(place.text(f"broke off in the middle of its reply ({reason})"), usage=usage)


def no_stream(place: Place, content_type: str) -> RejectedError:
    """The server said yes and then nothing of what the protocol foresees."""
    what = f"answered with {content_type or 'nothing'} where a stream of events was expected"
    return RejectedError(place.text(what, "Does the address lead to a server of this protocol?"))


def is_transport_error(error: BaseException) -> bool:
    """Whether the network or the HTTP library under the SDKs raised it; their version decides which one."""
    library = type(error).__module__.partition(".")[0]
    return isinstance(error, OSError) or library in {
        "httpx",
        "httpx2",
        "httpcore",
        "httpcore2",
        "h11",
        "anyio",
    }


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
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    return max(0.0, date.timestamp() - now)


def _through(place: Place) -> str:
    return f" through the proxy {place.proxy}" if place.proxy else ""


def _status_inside(body: Any) -> int:
    """The status that an error inside a stream speaks of; 0 when it names none."""
    error = body.get("error", body) if isinstance(body, dict) else {}
    code = str(error.get("code") or "") if isinstance(error, dict) else ""
    if re.fullmatch(r"[45]\d\d", code):
        return int(code)
    kind = str(error.get("type") or "").lower() if isinstance(error, dict) else ""
    if "overloaded" in kind:
        return 529
    return 0


def _words(body: Any, message: str) -> str:
    """The server's own sentence, shortened."""
    error = body.get("error", body) if isinstance(body, dict) else None
    own = error.get("message") if isinstance(error, dict) else error
    kind = (error.get("code") or error.get("type")) if isinstance(error, dict) else None
    words = own if isinstance(own, str) and own.strip() else message
    words = " ".join(words.split())[:_LONGEST_QUOTE]
    return f"{words} ({kind})" if kind and str(kind) not in words else words


def _flat(body: Any) -> str:
    return body if isinstance(body, str) else json.dumps(body, default=str)
