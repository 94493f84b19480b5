"""Anthropic's Messages protocol through its official SDK: Claude, and servers that speak the same.

In: a `Request`. Out: a `Reply`, put together from the event stream. Cache marks go from the longest-lived
to the shortest: one hour after tools and after system, five minutes after the pinned turns and the last turn.
"""

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import anthropic

from harness.providers import failures, proxies
from harness.providers.streaming import client_options, put_together
from harness.providers.turns import (
    arguments_object,
    by_side,
    count_of,
    estimated_tokens,
    request_bytes,
    sendable,
    spoken,
    wire_name,
    words_of,
)
from harness.providers.types import (
    AssistantTurn,
    Reply,
    Request,
    StopReason,
    ToolCall,
    ToolResultTurn,
    Turn,
    Usage,
)

OFFICIAL_URL = "https://api.anthropic.com"

_HOUR = {"type": "ephemeral", "ttl": "1h"}
_MINUTES = {"type": "ephemeral"}
_STOPS = {
    "max_tokens": StopReason.TRUNCATED,
    "model_context_window_exceeded": StopReason.TRUNCATED,
    "refusal": StopReason.REFUSED,
}


class AnthropicProvider:
    """One model on Anthropic's server, or on another one that speaks its protocol."""

    name = "anthropic"

    def __init__(
        self,
        model: str,
        key: str | None,
        base_url: str | None = None,
        is_token: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`key` None: the server needs none. `is_token`: the key is an OAuth-style token."""
        self.model = model
        self._now = now
        url = base_url or OFFICIAL_URL
        self._place = failures.Place(self.name, model, base_url, key, proxies.proxy_for(url))
        sent_key = key or "none"  # the SDK wants one; without it, it would look for one in the environment
        self._client = anthropic.AsyncAnthropic(
            **{"auth_token" if is_token else "api_key": sent_key},  # type: ignore[arg-type]
            base_url=url,
            # Gateways read either header; naming both keeps those in ANTHROPIC_CUSTOM_HEADERS at home.
            default_headers={"Authorization": f"Bearer {sent_key}", "X-Api-Key": sent_key}
            if base_url
            else None,
            **client_options(anthropic, proxies.are_used(url)),
        )

    async def complete(self, request: Request) -> Reply:
        """The model's reply. Raises ProviderError, with what is known of the usage."""
        wire = wire_request(self.model, request)

        def opening() -> Awaitable[Any]:
            return self._client.messages.create(**wire, stream=True)

        return await put_together(anthropic, self._place, opening, _Parts(request), request, self._now)

    async def close(self) -> None:
        await self._client.close()


@dataclass
class _Block:
    """One content block of a reply while it streams in."""

    kind: str
    id: str = ""
    name: str = ""
    text: str = ""
    given_input: Any = None


class _Parts:
    """A reply while it streams in."""

    def __init__(self, request: Request) -> None:
        self.has_begun = False
        self._request = request
        self._blocks: dict[int, _Block] = {}
        self._stop: str | None = None
        self._model = ""
        self._usage = Usage()
        self._written = 0

    @property
    def is_complete(self) -> bool:
        return self._stop is not None

    def add(self, event: Any) -> None:
        """One event of the stream; events of other kinds (thinking, pings) change nothing."""
        self.has_begun = True
        kind = getattr(event, "type", "")
        if kind == "message_start":
            self._model = words_of(getattr(event.message, "model", None))
            self._add_usage(getattr(event.message, "usage", None))
        elif kind == "content_block_start":
            block = event.content_block
            self._blocks[event.index] = _Block(
                block.type,
                words_of(getattr(block, "id", None)),
                words_of(getattr(block, "name", None)),
                words_of(getattr(block, "text", None)),
                getattr(block, "input", None),
            )
        elif kind == "content_block_delta":
            self._add_text(event.index, event.delta)
        elif kind == "message_delta":
            self._stop = words_of(getattr(event.delta, "stop_reason", None)) or self._stop
            self._add_usage(getattr(event, "usage", None))

    def _add_text(self, index: int, delta: Any) -> None:
        said = words_of(getattr(delta, "text", None) or getattr(delta, "partial_json", None))
        thought = words_of(getattr(delta, "thinking", None))
        self._written += len((said or thought).encode("utf-8", "replace"))
        if index in self._blocks:
            self._blocks[index].text += said

    def _add_usage(self, usage: Any) -> None:
        """Counts are cumulative: later ones replace earlier ones, a count that is missing or 0 does not."""

        def count(name: str, source: Any = usage) -> int:
            return count_of(getattr(source, name, None))

        split = getattr(usage, "cache_creation", None)
        old = self._usage
        short = count("ephemeral_5m_input_tokens", split) or old.cache_write_tokens
        # What no lifetime is told of counts as the dearer kind.
        long = max(old.cache_write_1h_tokens, count("cache_creation_input_tokens") - short)
        self._usage = Usage(
            count("input_tokens") or old.input_tokens,
            count("cache_read_input_tokens") or old.cache_read_tokens,
            short,
            long,
            count("output_tokens") or old.output_tokens,
        )

    def known_usage(self) -> Usage | None:
        """What a reply that broke off has used; None when it had not begun."""
        return self._counted() if self.has_begun else None

    def _counted(self) -> Usage:
        usage = self._usage
        if not usage.all_input_tokens:
            usage = replace(usage, input_tokens=estimated_tokens(request_bytes(self._request)))
        if not usage.output_tokens or not self.is_complete:
            seen = estimated_tokens(self._written)
            usage = replace(usage, output_tokens=max(usage.output_tokens, seen))
        return usage

    def reply(self) -> Reply:
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        text = "".join(block.text for block in blocks if block.kind == "text")
        calls = tuple(
            ToolCall(
                block.id or f"call_{len(self._request.turns)}_{number}",
                block.name,
                block.text or json.dumps(block.given_input or {}),
            )
            for number, block in enumerate(block for block in blocks if block.kind == "tool_use")
        )
        stop = _STOPS.get(self._stop or "", StopReason.TOOL_CALL if calls else StopReason.END)
        return Reply(text, calls, stop, self._counted(), self._model)


def wire_request(model: str, request: Request) -> dict[str, Any]:
    """The request in the protocol's own form."""
    wire: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_output_tokens,
        "messages": _messages(request),
    }
    if request.system.strip():
        text = {"type": "text", "text": sendable(request.system), "cache_control": _HOUR}
        wire["system"] = [text]
    if request.tools:
        tools = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in request.tools
        ]
        wire["tools"] = [*tools[:-1], tools[-1] | {"cache_control": _HOUR}]
        wire["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
    return wire


def _messages(request: Request) -> list[dict[str, Any]]:
    """Turns as messages whose sides alternate, with the two short-lived cache marks."""
    marked = {request.pinned - 1, len(request.turns) - 1}
    messages = []
    for side, group in by_side(request.turns):
        content: list[dict[str, Any]] = []
        for position, turn in group:
            blocks = _blocks(turn)
            if position in marked:
                blocks[-1] = blocks[-1] | {"cache_control": _MINUTES}
            content += blocks
        messages.append({"role": side, "content": content})
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
