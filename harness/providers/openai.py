"""OpenAI's chat completions protocol through its official SDK: OpenAI, and every server that speaks the same
(vLLM, Ollama, llama.cpp, gateways).

In: a `Request`. Out: a `Reply`, put together from the chunks, whatever liberties the server takes with them.
"""

import hashlib
import json
import re
from collections.abc import Awaitable
from typing import Any, ClassVar

import openai

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

_WITHOUT_PARALLEL_SWITCH = re.compile(r"o\d")


class _Parts(Parts):
    """A reply while it streams in."""

    stops: ClassVar = {
        "length": StopReason.TRUNCATED,
        "content_filter": StopReason.REFUSED,
    }

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
        thought = field(delta, "reasoning_content") or field(delta, "reasoning")
        self.text += field(delta, "content")
        self.refusal += field(delta, "refusal")
        self.count(f"{field(delta, 'content')}{field(delta, 'refusal')}{thought}")
        for fragment in getattr(delta, "tool_calls", None) or []:
            function = getattr(fragment, "function", None)
            name, arguments = field(function, "name"), field(function, "arguments")
            call = self._continued(getattr(fragment, "index", None), field(fragment, "id"), name)
            call.name = call.name or name
            call.arguments += arguments
            self.count(name + arguments)

    def _continued(self, index: int | None, id: str, name: str) -> PartialCall:
        """The call that a fragment goes on with. Servers may send a call whole, leave out its index or id, or
        repeat either: a new id begins a new call, and so does a name without index and id."""
        same = [call for call in self.calls if index is None or call.index == index]
        is_new = not same or (id and id != same[-1].id) or (index is None and name and not id)
        if is_new:
            self.calls.append(PartialCall(index, id))
        return self.calls[-1] if is_new else same[-1]


class OpenAIProvider(StreamedProvider):
    """One model on OpenAI's server, or on another one that speaks its protocol."""

    name = "openai"
    sdk = openai
    parts = _Parts

    def _connect(self, key: str | None, is_token: bool) -> openai.AsyncOpenAI:
        # Named so that an Authorization in OPENAI_CUSTOM_HEADERS goes to no other server.
        named = {"Authorization": f"Bearer {key}" if key else openai.Omit()}
        self._headers = named if self._base_url else None
        # The SDK wants some key; without one, it would take OPENAI_API_KEY.
        client = openai.AsyncOpenAI(api_key=key or "none", **self._options())
        if self._base_url is not None:  # what the SDK took from the environment is OpenAI's business alone
            client.organization = client.project = None
        return client

    def _open(self, request: Request) -> Awaitable[Any]:
        wire = wire_request(self.model, request, is_official=self._base_url is None)
        return self._client.chat.completions.create(**wire, stream=True, extra_headers=self._headers)


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
    for message in map(_message, request.turns):
        if messages and message["role"] == messages[-1]["role"] == "user":
            messages[-1]["content"] += "\n\n" + message["content"]
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
