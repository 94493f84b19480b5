"""Anthropic's Messages protocol through its official SDK: Claude, and servers that speak the same.

In: a `Request`. Out: a `Reply`, put together from the event stream. Cache marks go from the longest-lived
to the shortest: one hour after tools and after system, five minutes after the first turn and the last.
"""

import json
from collections.abc import Awaitable
from itertools import groupby
from typing import Any, ClassVar

import anthropic

from harness.providers.chat import (
    AssistantTurn,
    Request,
    StopReason,
    ToolResultTurn,
    Turn,
    Usage,
)
from harness.providers.stream import (
    PartialCall,
    Parts,
    StreamedProvider,
    arguments_object,
    count,
    field,
    functions,
    sendable,
    spoken,
    wire_name,
)

_HOUR = {"type": "ephemeral", "ttl": "1h"}
_MINUTES = {"type": "ephemeral"}
_NO_KEY = dict.fromkeys(("Authorization", "X-Api-Key"), anthropic.Omit())


class _Parts(Parts):
    """A reply while it streams in."""

    stops: ClassVar = {
        "max_tokens": StopReason.TRUNCATED,
        "model_context_window_exceeded": StopReason.TRUNCATED,
        "refusal": StopReason.REFUSED,
    }

    def add(self, event: Any) -> None:
        """One event of the stream; events of other kinds (thinking, pings) change nothing."""
        kind = getattr(event, "type", "")
        if kind == "message_start":
            self.model = field(event.message, "model")
            self._add_usage(getattr(event.message, "usage", None))
        elif kind == "content_block_start":
            block = event.content_block
            if block.type == "tool_use":
                whole = getattr(block, "input", None)
                written = json.dumps(whole) if whole else ""
                self.calls.append(PartialCall(event.index, field(block, "id"), field(block, "name"), written))
            elif block.type == "text":
                self.text += field(block, "text")
        elif kind == "content_block_delta":
            words, arguments = field(event.delta, "text"), field(event.delta, "partial_json")
            self.count(words or arguments or field(event.delta, "thinking"))
            self.text += words
            for call in self.calls[-1:] if arguments else ():
                call.arguments += arguments
        elif kind == "message_delta":
            self.stop = field(event.delta, "stop_reason") or self.stop
            self._add_usage(getattr(event, "usage", None))

    def _add_usage(self, usage: Any) -> None:
        """Counts are cumulative: later ones replace earlier ones, a count that is missing or 0 does not."""
        old = self.usage
        split = getattr(usage, "cache_creation", None)
        short = count(split, "ephemeral_5m_input_tokens") or old.cache_write_tokens
        # Without a lifetime it counts as the dearer kind.
        long = max(old.cache_write_1h_tokens, count(usage, "cache_creation_input_tokens") - short)
        self.usage = Usage(
            count(usage, "input_tokens") or old.input_tokens,
            count(usage, "cache_read_input_tokens") or old.cache_read_tokens,
            short,
            long,
            count(usage, "output_tokens") or old.output_tokens,
        )


class AnthropicProvider(StreamedProvider):
    """One model on Anthropic's server, or on another one that speaks its protocol."""

    name = "anthropic"
    sdk = anthropic
    parts = _Parts

    def _connect(self, key: str | None, is_token: bool) -> anthropic.AsyncAnthropic:
        # Gateways read either header; naming both keeps those in ANTHROPIC_CUSTOM_HEADERS at home.
        sent: Any = {"Authorization": f"Bearer {key}", "X-Api-Key": key} if key else _NO_KEY
        headers = sent if self._base_url else None
        # The SDK wants some key; without one, it would look for one in the environment.
        credentials: dict[str, Any] = {"auth_token" if is_token else "api_key": key or "none"}
        return anthropic.AsyncAnthropic(**credentials, default_headers=headers, **self._options())

    def _open(self, request: Request) -> Awaitable[Any]:
        return self._client.messages.create(**wire_request(self.model, request), stream=True)


def wire_request(model: str, request: Request) -> dict[str, Any]:
    """The request in the protocol's own form."""
    wire: dict[str, Any] = {"model": model, "max_tokens": request.max_output_tokens}
    wire["messages"] = _messages(request)
    if request.system.strip():
        wire["system"] = [{"type": "text", "text": sendable(request.system), "cache_control": _HOUR}]
    if request.tools:
        wire["tools"] = functions(request.tools, "input_schema")
        wire["tools"][-1]["cache_control"] = _HOUR
        wire["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
    return wire


def _messages(request: Request) -> list[dict[str, Any]]:
    """Turns as messages whose sides alternate, with the two short-lived cache marks."""
    marked = {0, len(request.turns) - 1}
    messages = []
    is_theirs = [isinstance(turn, AssistantTurn) for turn in request.turns]
    for role, group in groupby(range(len(request.turns)), lambda position: is_theirs[position]):
        content: list[dict[str, Any]] = []
        for position in group:
            content += _blocks(request.turns[position])
            if position in marked:
                content[-1]["cache_control"] = _MINUTES
        messages.append({"role": "assistant" if role else "user", "content": content})
    return messages


def _blocks(turn: Turn) -> list[dict[str, Any]]:
    if isinstance(turn, ToolResultTurn):
        text = sendable(turn.text)
        result = {"type": "tool_result", "tool_use_id": turn.call_id, "content": text}
        return [result | {"is_error": True} if turn.is_error else result]
    call = turn.call if isinstance(turn, AssistantTurn) else None
    if call is None:
        return [{"type": "text", "text": spoken(turn.text)}]
    use = {"type": "tool_use", "id": call.id, "name": wire_name(call.name), "input": arguments_object(call)}
    return [{"type": "text", "text": sendable(turn.text)}, use] if turn.text.strip() else [use]
