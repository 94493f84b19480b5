"""Anthropic's Messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trainer_core.gateway.ask import (
    Answer,
    Ask,
    Choice,
    Delta,
    GatewayError,
    Message,
    common,
    number,
    objects,
    plain,
    refuse,
    texts,
    with_tools,
)
from trainer_core.gateway.dialects.openai import event

Body = Mapping[str, Any]
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


def error(failed: GatewayError) -> dict[str, Any]:
    """The body that Anthropic's SDKs turn into their exceptions."""
    kind = _TYPES.get(failed.status, "api_error" if failed.status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": str(failed), "code": failed.code}}


def read(body: Body) -> Ask:
    """See `Dialect.read`."""
    conversation: list[Message] = []
    if system := plain(body.get("system"), "system"):
        conversation.append({"role": "system", "content": system})
    given = objects(body, "messages")
    if not given:
        raise refuse("messages", "there must be at least one")
    for place, message in enumerate(given):
        conversation += _read_message(message, f"messages[{place}]")
    ask = replace(
        common(body),
        messages=conversation,
        max_tokens=number(body, "max_tokens", int, 1),
        stop=texts(body, "stop_sequences"),
    )
    choice = body.get("tool_choice") or {"type": "auto"}
    kind = str(choice.get("type"))
    named = {"any": "required", "tool": choice.get("name")}.get(kind, kind)
    return with_tools(ask, [_tool(tool) for tool in objects(body, "tools")], named)


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    if "input_schema" not in tool:
        raise refuse("tools", f"only tools with an input_schema can be offered, not {tool.get('type')!r}")
    function = {"name": tool.get("name"), "description": tool.get("description", "")}
    return {"type": "function", "function": {**function, "parameters": tool["input_schema"]}}


def _read_message(message: Mapping[str, Any], where: str) -> list[Message]:
    """A message in OpenAI's form; results of tools become messages of their own."""
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant", "system"):
        raise refuse(f"{where}.role", f"must be user or assistant, not {role!r:.40}")
    if not isinstance(content, list):
        return [{"role": role, "content": plain(content, f"{where}.content")}]
    said: Message = {"role": role, "content": ""}
    made: list[Message] = []
    texts_found, calls = [], []
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "tool_use":
            calls.append(_call(block))
        elif kind == "tool_result":
            result = plain(block.get("content"), f"{where}.content")
            made.append({"role": "tool", "content": result, "tool_call_id": str(block.get("tool_use_id"))})
        elif kind == "thinking":
            said["reasoning_content"] = said.get("reasoning_content", "") + str(block.get("thinking", ""))
        elif kind != "redacted_thinking":
            texts_found.append(plain([block], f"{where}.content"))
    said["content"] = "".join(texts_found)
    if calls:
        said["tool_calls"] = calls
    return [*made, said] if texts_found or calls or not made else made


def _call(block: Mapping[str, Any]) -> dict[str, Any]:
    arguments = json.dumps(block.get("input") or {}, ensure_ascii=False)
    function = {"name": str(block.get("name")), "arguments": arguments}
    return {"id": str(block.get("id")), "type": "function", "function": function}


def write(answer: Answer, ask: Ask, body: Body) -> dict[str, Any]:
    """See `Dialect.write`."""
    choice = answer.choices[0]
    whole = _head(answer.id, answer.model) | {
        "content": _blocks(choice),
        "stop_reason": _stop_reason(choice),
        "usage": _usage(answer),
    }
    if body.get("return_token_ids"):
        whole |= {"prompt_token_ids": answer.prompts[0], "token_ids": choice.generation.ids}
    return whole


def _head(answer_id: str, model: str) -> dict[str, Any]:
    return {
        "id": f"msg_{answer_id}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _usage(answer: Answer) -> dict[str, int]:
    return {"input_tokens": answer.prompt_tokens, "output_tokens": answer.completion_tokens}


def _blocks(choice: Choice) -> list[dict[str, Any]]:
    said = choice.said
    blocks: list[dict[str, Any]] = []
    if said.reasoning:
        blocks.append({"type": "thinking", "thinking": said.reasoning, "signature": ""})
    if said.content or not (said.tool_calls or said.reasoning):
        blocks.append({"type": "text", "text": said.content})
    for call in said.tool_calls:
        read = json.loads(call.arguments)
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": read})
    return blocks


def _stop_reason(choice: Choice) -> str:
    if choice.finish == "length":
        return "max_tokens"
    return "tool_use" if choice.said.tool_calls else "end_turn"


class stream:  # noqa: N801  # the dialect's function
    """See `Dialect.stream`: one block after the other, thoughts, text, tool calls."""

    def __init__(self, ask: Ask, body: Body, answer_id: str, created: int, model: str) -> None:
        self._message = _head(answer_id, model)
        self._kind = ""
        self._place = -1

    def _event(self, kind: str, **data: Any) -> bytes:
        return event({"type": kind, **data}, kind)

    def open(self) -> bytes:
        usage = {"input_tokens": 0, "output_tokens": 0}
        return self._event("message_start", message={**self._message, "usage": usage})

    def delta(self, delta: Delta) -> bytes:
        parts = b""
        if delta.reasoning:
            parts += self._in("thinking", {"type": "thinking", "thinking": "", "signature": ""})
            parts += self._add({"type": "thinking_delta", "thinking": delta.reasoning})
        if delta.content:
            parts += self._in("text", {"type": "text", "text": ""})
            parts += self._add({"type": "text_delta", "text": delta.content})
        return parts

    def _in(self, kind: str, block: dict[str, Any]) -> bytes:
        """Begin a block of this kind, unless that is the one being written."""
        if kind == self._kind:
            return b""
        ended = self._end()
        self._kind, self._place = kind, self._place + 1
        return ended + self._event("content_block_start", index=self._place, content_block=block)

    def _add(self, delta: dict[str, Any]) -> bytes:
        return self._event("content_block_delta", index=self._place, delta=delta)

    def _end(self) -> bytes:
        return self._event("content_block_stop", index=self._place) if self._kind else b""

    def close(self, answer: Answer) -> bytes:
        choice = answer.choices[0]
        parts = []
        for call in choice.said.tool_calls:
            block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
            parts.append(self._in(call.id, block))
            parts.append(self._add({"type": "input_json_delta", "partial_json": call.arguments}))
        if self._place < 0:
            parts.append(self._in("text", {"type": "text", "text": ""}))
        parts.append(self._end())
        delta = {"stop_reason": _stop_reason(choice), "stop_sequence": None}
        parts.append(self._event("message_delta", delta=delta, usage=_usage(answer)))
        return b"".join([*parts, self._event("message_stop")])
