"""The words that language models are spoken to in, whatever their provider.

A `Request` is what is sent: system text, tools, and turns. A `Reply` is what came back. `Provider` is the
one thing a new provider has to implement; errors say what may be done about them.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Protocol

_BYTES_PER_TOKEN = 4


@dataclass(frozen=True)
class Tool:
    """A function the model may call; `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True)
class ToolCall:
    """One call as the model wrote it: `arguments` is its text, which need not be valid JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class UserTurn:
    """What we say to the model."""

    side: ClassVar = "user"
    text: str


@dataclass(frozen=True)
class AssistantTurn:
    """What the model wrote: words, one tool call, or both."""

    side: ClassVar = "assistant"
    text: str
    call: ToolCall | None = None


@dataclass(frozen=True)
class ToolResultTurn:
    """What came of a tool call."""

    side: ClassVar = "tool"
    call_id: str
    text: str
    is_error: bool = False


Turn = UserTurn | AssistantTurn | ToolResultTurn


@dataclass(frozen=True)
class Request:
    """One question to a model.

    Ordered by how rarely it changes: `tools` and `system` are the same bytes in every request of a run, the
    first turn is the same within one consultation, the rest grows. A provider sets its cache marks
    accordingly: long-lived ones after tools and system, further ones after the first turn and the last.
    """

    system: str
    tools: tuple[Tool, ...]
    turns: tuple[Turn, ...]
    max_output_tokens: int = 4096

    @property
    def size(self) -> int:
        """How many bytes the model is given, with a little for the structure around each part."""
        parts = [self.system]
        parts += [tool.name + tool.description + json.dumps(tool.parameters) for tool in self.tools]
        for turn in self.turns:
            call = turn.call if isinstance(turn, AssistantTurn) else None
            parts.append(turn.text + (call.id + call.name + call.arguments if call else ""))
        structure = 100 * len(self.tools) + 40 * len(self.turns)
        return structure + sum(len(part.encode("utf-8", "replace")) for part in parts)


@dataclass(frozen=True)
class Usage:
    """Tokens of one call. `input_tokens` are those that were neither read from nor written to the cache."""

    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(**{name: count + vars(other)[name] for name, count in vars(self).items()})

    @property
    def all_input_tokens(self) -> int:
        return (
            self.input_tokens + self.cache_read_tokens + self.cache_write_tokens + self.cache_write_1h_tokens
        )


def tokens_of(size: int) -> int:
    """Tokens for a number of bytes, for servers that do not count: four bytes each."""
    return -(-size // _BYTES_PER_TOKEN)


class StopReason(StrEnum):
    """Why the model stopped."""

    TOOL_CALL = "tool_call"
    END = "end"  # it is done, without calling a tool
    TRUNCATED = "truncated"  # it ran into `max_output_tokens`
    REFUSED = "refused"  # it, or a filter, declined


@dataclass(frozen=True)
class Reply:
    """What came back. `model`: the name the server reports."""

    text: str
    calls: tuple[ToolCall, ...]
    stop: StopReason
    usage: Usage
    model: str = ""


class ProviderError(Exception):
    """A call failed. `usage`: what it cost all the same, None where the server reports nothing;
    `is_estimated`: the server did not report it, it is what the provider may charge."""

    def __init__(
        self,
        message: str,
        usage: Usage | None = None,
        is_estimated: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.usage = usage
        self.is_estimated = is_estimated
        self.retry_after_s = retry_after_s


class UnavailableError(ProviderError):
    """It will pass: rate limit, overload, server error, time-out, no network, a reply cut off on its way.
    `retry_after_s`: how long the server asks to wait."""


class RequestTooLongError(ProviderError):
    """The request does not fit the model's context window."""


class RejectedError(ProviderError):
    """It will not pass by itself: wrong key, unknown model, no credit, a request the server does not take, a
    reply that cannot be read."""


class NoAccessError(RejectedError):
    """Nobody is answered there as things are: wrong key, unknown model, no credit, another server in between,
    such as that of a network which wants a login first. A person can put it right."""


class Provider(Protocol):
    """One model behind one provider's protocol."""

    name: str
    model: str

    async def complete(self, request: Request) -> Reply:
        """The model's reply, streamed in and put together. Raises ProviderError; never retries by itself."""
        ...

    async def close(self) -> None: ...
