"""Anthropic's Messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from trainer_core.gateway.ask import Answer, Ask, Choice, Delta, GatewayError, Message, ToolCall, refuse
from trainer_core.gateway.body import conversing, objects, parameters, plain
from trainer_core.gateway.dialects.dialect import Dialect, event

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


class Messages(Dialect):
    """See `Dialect`. A stream is one block after the other: thoughts, text, tool calls."""

    _writing = ""
    """Which block of a stream is being written."""
    _place = -1
    """Its number."""

    @staticmethod
    def error(failed: GatewayError) -> dict[str, Any]:
        kind = _TYPES.get(failed.status, "api_error" if failed.status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": str(failed), "code": failed.code}}

    def read(self) -> Ask:
        body = self.body
        conversation: list[Message] = []
        if system := plain(body.get("system"), "system"):
            conversation.append({"role": "system", "content": system})
        for place, message in enumerate(objects(body, "messages", 1)):
            conversation += _read_message(message, f"messages[{place}]")
        ask = parameters(body, max_tokens="max_tokens", stop="stop_sequences")
        choice = body.get("tool_choice") or {"type": "auto"}
        kind = str(choice.get("type"))
        named = {"any": "required", "tool": choice.get("name")}.get(kind, kind)
        return conversing(ask, conversation, [_tool(tool) for tool in objects(body, "tools")], named)

    def _head(self) -> dict[str, Any]:
        message = {"id": f"msg_{self.id}", "type": "message", "role": "assistant", "model": self.model}
        usage = {"input_tokens": 0, "output_tokens": 0}
        return {**message, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}

    def write(self, answer: Answer) -> dict[str, Any]:
        said = answer.choices[0].said
        blocks: list[dict[str, Any]] = []
        if said.reasoning:
            blocks.append({"type": "thinking", "thinking": said.reasoning, "signature": ""})
        if said.content or not (said.tool_calls or said.reasoning):
            blocks.append({"type": "text", "text": said.content})
        for call in said.tool_calls:
            blocks.append({**_tool_use(call), "input": json.loads(call.arguments)})
        ended = {**_stop(answer.choices[0]), "usage": _usage(answer)}
        return {**self._head(), "content": blocks, **ended, **self.ids(answer)}

    def begin(self) -> bytes:
        return event({"type": "message_start", "message": self._head()})

    def delta(self, delta: Delta) -> bytes:
        parts = b""
        if delta.reasoning:
            block = {"type": "thinking", "thinking": "", "signature": ""}
            parts += self._write("thinking", block, {"type": "thinking_delta", "thinking": delta.reasoning})
        if delta.content:
            block = {"type": "text", "text": ""}
            parts += self._write("text", block, {"type": "text_delta", "text": delta.content})
        return parts

    def _write(self, name: str, block: dict[str, Any], delta: dict[str, Any] | None) -> bytes:
        """Begin the block of this name, unless that is the one being written, and add to it."""
        parts = b""
        if name != self._writing:
            parts += self._stop()
            self._writing, self._place = name, self._place + 1
            parts += event({"type": "content_block_start", "index": self._place, "content_block": block})
        if delta is None:
            return parts
        return parts + event({"type": "content_block_delta", "index": self._place, "delta": delta})

    def _stop(self) -> bytes:
        return event({"type": "content_block_stop", "index": self._place}) if self._writing else b""

    def end(self, answer: Answer) -> bytes:
        parts = b""
        for call in answer.choices[0].said.tool_calls:
            delta = {"type": "input_json_delta", "partial_json": call.arguments}
            parts += self._write(call.id, _tool_use(call), delta)
        if not self._writing:
            parts += self._write("text", {"type": "text", "text": ""}, None)
        last = {"type": "message_delta", "delta": _stop(answer.choices[0]), "usage": _usage(answer)}
        return parts + self._stop() + event(last) + event({"type": "message_stop"})


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    if "input_schema" not in tool:
        raise refuse("tools", f"only tools with an input_schema can be offered, not {tool.get('type')!r}")
    function = {"name": tool.get("name"), "description": tool.get("description", "")}
    return {"type": "function", "function": {**function, "parameters": tool["input_schema"]}}


def _tool_use(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}


def _usage(answer: Answer) -> dict[str, int]:
    return {"input_tokens": answer.prompt_tokens, "output_tokens": answer.completion_tokens}


def _stop(choice: Choice) -> dict[str, str | None]:
    said = choice.said
    if said.cut_at is not None:
        return {"stop_reason": "stop_sequence", "stop_sequence": said.cut_at}
    ended = "tool_use" if said.tool_calls else "end_turn"
    return {"stop_reason": "max_tokens" if choice.finish == "length" else ended, "stop_sequence": None}


def _read_message(message: Mapping[str, Any], where: str) -> list[Message]:
    """A message in OpenAI's form; results of tools become messages of their own."""
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant", "system"):
        raise refuse(f"{where}.role", f"must be user or assistant, not {role!r:.40}")
    if not isinstance(content, list):
        return [{"role": role, "content": plain(content, f"{where}.content")}]
    said: Message = {"role": role, "content": ""}
    results: list[Message] = []
    has_text = False
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "tool_use":
            arguments = json.dumps(block.get("input") or {}, ensure_ascii=False)
            call = ToolCall(str(block.get("id")), str(block.get("name")), arguments)
            said.setdefault("tool_calls", []).append(call.message())
        elif kind == "tool_result":
            result = plain(block.get("content"), f"{where}.content")
            results.append({"role": "tool", "content": result, "tool_call_id": str(block.get("tool_use_id"))})
        elif kind == "thinking":
            said["reasoning_content"] = said.get("reasoning_content", "") + str(block.get("thinking", ""))
        elif kind != "redacted_thinking":
            said["content"] += plain([block], f"{where}.content")
            has_text = True
    return [*results, said] if has_text or "tool_calls" in said or not results else results
