"""Anthropic's Messages protocol through its official SDK: Claude, and servers that speak the same.

In: a `Request`. Out: a `Reply`, put together from the event stream. Cache marks go from the longest-lived
to the shortest: one hour after tools and after system, five minutes after the first turn and the last.
"""

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anthropic

from harness.providers import proxies
from harness.providers.chat import (
    AssistantTurn,
    Reply,
    Request,
    StopReason,
    ToolCall,
    ToolResultTurn,
    Turn,
    Usage,
)
from harness.providers.stream import Parts, Place, client_options, put_together
from harness.providers.wire import (
    arguments_object,
    by_side,
    count,
    field,
    functions,
    sendable,
    spoken,
    wire_name,
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
        self._place = Place(self.name, model, base_url, key, proxies.proxy_for(url))
        sent_key = key or "none"  # the SDK wants one; without it, it would look for one in the environment
        # Gateways read either header; naming both keeps those in ANTHROPIC_CUSTOM_HEADERS at home.
        headers = {"Authorization": f"Bearer {sent_key}", "X-Api-Key": sent_key} if base_url else None
        self._client = anthropic.AsyncAnthropic(
            **{"auth_token" if is_token else "api_key": sent_key},  # type: ignore[arg-type]
            base_url=url,
            default_headers=headers,
            **client_options(anthropic, proxies.are_used(url)),
        )

    async def complete(self, request: Request) -> Reply:
        """The model's reply. Raises ProviderError, with what is known of the usage."""
        wire = wire_request(self.model, request)

        def opening() -> Awaitable[Any]:
            return self._client.messages.create(**wire, stream=True)

        return await put_together(anthropic, self._place, opening, _Parts(request), self._now)

    async def close(self) -> None:
        await self._client.close()


@dataclass
class _Block:
    """One content block of a reply while it streams in."""

    kind: str
    id: str
    name: str
    text: str
    given_input: Any


class _Parts(Parts):
    """A reply while it streams in."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._blocks: dict[int, _Block] = {}

    def add(self, event: Any) -> None:
        """One event of the stream; events of other kinds (thinking, pings) change nothing."""
        kind = getattr(event, "type", "")
        if kind == "message_start":
            self.model = field(event.message, "model")
            self._add_usage(getattr(event.message, "usage", None))
        elif kind == "content_block_start":
            block = event.content_block
            id, name, text = (field(block, part) for part in ("id", "name", "text"))
            self._blocks[event.index] = _Block(block.type, id, name, text, getattr(block, "input", None))
        elif kind == "content_block_delta":
            text = field(event.delta, "text") or field(event.delta, "partial_json")
            self.written += len((text or field(event.delta, "thinking")).encode("utf-8", "replace"))
            if event.index in self._blocks:
                self._blocks[event.index].text += text
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

    def reply(self) -> Reply:
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        text = "".join(block.text for block in blocks if block.kind == "text")
        calls = tuple(
            ToolCall(
                block.id or f"call_{len(self.request.turns)}_{number}",
                block.name,
                block.text or json.dumps(block.given_input or {}),
            )
            for number, block in enumerate(block for block in blocks if block.kind == "tool_use")
        )
        stop = _STOPS.get(self.stop or "", StopReason.TOOL_CALL if calls else StopReason.END)
        return Reply(text, calls, stop, self.counted(), self.model)


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
    for side, group in by_side(request.turns):
        content: list[dict[str, Any]] = []
        for position, turn in group:
            content += _blocks(turn)
            if position in marked:
                content[-1]["cache_control"] = _MINUTES
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
