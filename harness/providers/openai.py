"""OpenAI's chat completions protocol through its official SDK: OpenAI, and every server that speaks the same
(vLLM, Ollama, llama.cpp, gateways).

In: a `Request`. Out: a `Reply`, put together from the chunks, whatever liberties the server takes with them.
"""

import hashlib
import json
import re
import time
from collections.abc import Callable
from typing import Any

import openai

from harness.providers.chat import (
    AssistantTurn,
    Reply,
    Request,
    StopReason,
    ToolResultTurn,
    Turn,
    Usage,
)
from harness.providers.stream import PartialCall, Parts, Place, client_options, put_together
from harness.providers.wire import (
    OFFICIAL_URLS,
    arguments_object,
    by_side,
    count,
    field,
    functions,
    sendable,
    spoken,
    wire_name,
)

_STOPS = {"length": StopReason.TRUNCATED, "content_filter": StopReason.REFUSED}
_WITHOUT_PARALLEL_SWITCH = re.compile(r"o\d")


class OpenAIProvider:
    """One model on OpenAI's server, or on another one that speaks its protocol."""

    name = "openai"

    def __init__(
        self,
        model: str,
        key: str | None,
        base_url: str | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`key` None: the server needs none."""
        self.model = model
        self._now = now
        self._is_official = base_url is None
        self._place = Place(self.name, model, base_url, key)
        sent_key = key or "none"  # the SDK wants one; without it, it would take OPENAI_API_KEY
        self._client = openai.AsyncOpenAI(
            api_key=sent_key,
            # Named so that an Authorization in OPENAI_CUSTOM_HEADERS goes to no other server.
            default_headers={"Authorization": f"Bearer {sent_key}"} if base_url else None,
            **client_options(openai, base_url or OFFICIAL_URLS[self.name]),
        )
        if base_url is not None:  # what the SDK took from the environment is OpenAI's business alone
            self._client.organization = self._client.project = None

    async def complete(self, request: Request) -> Reply:
        """The model's reply. Raises ProviderError, with what is known of the usage."""
        wire = wire_request(self.model, request, self._is_official)
        create = self._client.chat.completions.create
        return await put_together(
            openai, self._place, lambda: create(**wire, stream=True), _Parts(request, _STOPS), self._now
        )

    async def close(self) -> None:
        await self._client.close()


class _Parts(Parts):
    """A reply while it streams in."""

    def add(self, event: Any) -> None:
        """One chunk."""
        self.model = field(event, "model") or self.model
        if getattr(event, "usage", None):
            self.usage = _usage(event.usage)
        for choice in (getattr(event, "choices", None) or [])[:1]:
            self.stop = field(choice, "finish_reason") or self.stop
            if getattr(choice, "delta", None):
                self._add_delta(choice.delta)

    def _add_delta(self, delta: Any) -> None:
        content = getattr(delta, "content", None)
        refusal = field(delta, "refusal")
        thought = getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None) or ""
        self.text += field(delta, "content")
        self.refusal += refusal
        self.count(f"{content or ''}{refusal}{thought}")
        for fragment in getattr(delta, "tool_calls", None) or []:
            self._add_call(fragment)

    def _add_call(self, fragment: Any) -> None:
        """One fragment. Servers may send a call whole, leave out its index or id, or repeat either."""
        function = getattr(fragment, "function", None)
        index, id, name = getattr(fragment, "index", None), field(fragment, "id"), field(function, "name")
        arguments = getattr(function, "arguments", None) or ""
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        call = self._continued(index, id, name)
        if call is None:
            call = PartialCall(index)
            self.calls.append(call)
        call.id, call.name = call.id or id, call.name or name
        call.arguments += arguments
        self.count(name + arguments)

    def _continued(self, index: int | None, id: str, name: str) -> PartialCall | None:
        """The call that a fragment goes on with; None for the first fragment of a new one."""
        if not self.calls:
            return None
        if index is None:
            last = self.calls[-1]
            return last if (id == last.id if id else not name) else None
        same = next((call for call in reversed(self.calls) if call.index == index), None)
        return None if same is None or (id and same.id and id != same.id) else same


def _usage(usage: Any) -> Usage:
    """Token counts; the protocol's prompt tokens include those that the cache gave or took."""
    details = getattr(usage, "prompt_tokens_details", None)
    read, written = count(details, "cached_tokens"), count(details, "cache_write_tokens")
    return Usage(
        input_tokens=max(0, count(usage, "prompt_tokens") - read - written),
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=count(usage, "completion_tokens"),
    )


def wire_request(model: str, request: Request, is_official: bool) -> dict[str, Any]:
    """The request in the protocol's own form; `is_official`: for OpenAI's own server."""
    tools = functions(request.tools, "parameters")
    wire: dict[str, Any] = {
        "model": model,
        "messages": _messages(request),
        "stream_options": {"include_usage": True},
        "max_completion_tokens" if is_official else "max_tokens": request.max_output_tokens,
    }
    if tools:
        wire["tools"] = [{"type": "function", "function": tool} for tool in tools]
        if not (is_official and _WITHOUT_PARALLEL_SWITCH.match(model)):
            wire["parallel_tool_calls"] = False
    if is_official:
        head = json.dumps([request.system, tools]).encode()
        wire["prompt_cache_key"] = hashlib.sha256(head).hexdigest()[:32]
    return wire


def _messages(request: Request) -> list[dict[str, Any]]:
    """System text and turns; neighbouring user turns are one message, as many chat templates demand."""
    messages: list[dict[str, Any]] = []
    if request.system.strip():
        messages.append({"role": "system", "content": sendable(request.system)})
    for side, group in by_side(request.turns):
        for _, turn in group:
            message = _message(turn)
            last = messages[-1] if messages else {}
            if side == "user" and message["role"] == last.get("role") == "user":
                last["content"] += "\n\n" + message["content"]
            else:
                messages.append(message)
    return messages


def _message(turn: Turn) -> dict[str, Any]:
    if isinstance(turn, ToolResultTurn):
        text = f"Error: {turn.text}" if turn.is_error else turn.text
        return {"role": "tool", "tool_call_id": turn.call_id, "content": sendable(text)}
    if not isinstance(turn, AssistantTurn):
        return {"role": "user", "content": spoken(turn.text)}
    if turn.call is None:
        return {"role": "assistant", "content": spoken(turn.text)}
    arguments = json.dumps(arguments_object(turn.call), ensure_ascii=False)
    function = {"name": wire_name(turn.call.name), "arguments": sendable(arguments)}
    call = {"id": turn.call.id, "type": "function", "function": function}
    words = sendable(turn.text) if turn.text.strip() else None
    return {"role": "assistant", "content": words, "tool_calls": [call]}
