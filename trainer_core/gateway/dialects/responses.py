"""OpenAI's Responses, without server-side state: every request brings its whole conversation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trainer_core.gateway.ask import (
    Answer,
    Ask,
    Choice,
    Delta,
    Message,
    common,
    number,
    objects,
    plain,
    refuse,
    with_tools,
)
from trainer_core.gateway.dialects.chat import read_message
from trainer_core.gateway.dialects.openai import error as error
from trainer_core.gateway.dialects.openai import event

Body = Mapping[str, Any]


def read(body: Body) -> Ask:
    """See `Dialect.read`."""
    for key in ("previous_response_id", "conversation"):
        if body.get(key):
            raise refuse(key, "nothing is stored here; send the whole conversation in `input`")
    conversation: list[Message] = []
    if instructions := plain(body.get("instructions"), "instructions"):
        conversation.append({"role": "system", "content": instructions})
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else objects(body, "input")
    for place, item in enumerate(items):
        _read_item(item, place, conversation)
    if not conversation:
        raise refuse("input", "must be a text or a list of items, not empty")
    ask = replace(
        common(body),
        messages=conversation,
        max_tokens=number(body, "max_output_tokens", int, 1),
    )
    choice = body.get("tool_choice")
    named = choice.get("name") if isinstance(choice, dict) else choice
    return with_tools(ask, [_tool(tool) for tool in objects(body, "tools")], named)


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    if tool.get("type") != "function":
        raise refuse("tools", f"only functions can be offered, not {tool.get('type')!r}")
    names = ("name", "description", "parameters")
    return {"type": "function", "function": {name: tool[name] for name in names if name in tool}}


def _read_item(item: Mapping[str, Any], place: int, conversation: list[Message]) -> None:
    """Put an item of the input into the conversation; what the assistant thought, said and called in one
    turn becomes one message."""
    kind, where = item.get("type", "message"), f"input[{place}]"
    if kind == "function_call_output":
        output = plain(item.get("output"), f"{where}.output")
        conversation.append({"role": "tool", "content": output, "tool_call_id": str(item.get("call_id"))})
        return
    if kind == "message":
        message = read_message({"role": item.get("role"), "content": item.get("content")}, place)
    elif kind == "function_call":
        function = {"name": str(item.get("name")), "arguments": str(item.get("arguments", "{}"))}
        call = {"id": str(item.get("call_id")), "type": "function", "function": function}
        message = {"role": "assistant", "content": "", "tool_calls": [call]}
    elif kind == "reasoning":
        message = {"role": "assistant", "content": "", "reasoning_content": _reasoning(item)}
    else:
        raise refuse(f"{where}.type", f"{kind!r:.40} is not available here")
    last = conversation[-1] if conversation else None
    if message["role"] == "assistant" and last is not None and last["role"] == "assistant":
        last["content"] += message["content"]
        if "tool_calls" in message:
            last.setdefault("tool_calls", []).extend(message["tool_calls"])
        if "reasoning_content" in message:
            last["reasoning_content"] = last.get("reasoning_content", "") + message["reasoning_content"]
        return
    conversation.append(message)


def _reasoning(item: Mapping[str, Any]) -> str:
    return "".join(part["text"] for key in ("content", "summary") for part in item.get(key) or [])


def write(answer: Answer, ask: Ask, body: Body) -> dict[str, Any]:
    """See `Dialect.write`."""
    choice = answer.choices[0]
    cut = choice.finish == "length"
    whole = _head(answer.id, answer.created, answer.model, body) | {
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "output": _items(choice, answer.id),
        "usage": {
            "input_tokens": answer.prompt_tokens,
            "output_tokens": answer.completion_tokens,
            "total_tokens": answer.prompt_tokens + answer.completion_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }
    if body.get("return_token_ids"):
        whole |= {"prompt_token_ids": answer.prompts[0], "token_ids": choice.generation.ids}
    return whole


def _head(answer_id: str, created: int, model: str, body: Body) -> dict[str, Any]:
    return {
        "id": f"resp_{answer_id}",
        "object": "response",
        "created_at": created,
        "model": model,
        "status": "in_progress",
        "output": [],
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "parallel_tool_calls": True,
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools", []),
        "temperature": body.get("temperature"),
        "top_p": body.get("top_p"),
    }


def _items(choice: Choice, answer_id: str) -> list[dict[str, Any]]:
    said = choice.said
    items: list[dict[str, Any]] = []
    if said.reasoning:
        items.append(_reasoning_item(f"resp_{answer_id}", said.reasoning))
    if said.content or not (said.tool_calls or said.reasoning):
        items.append(_message_item(answer_id, said.content))
    for call in said.tool_calls:
        item = {"type": "function_call", "id": f"fc_{call.id}", "call_id": call.id, "status": "completed"}
        items.append({**item, "name": call.name, "arguments": call.arguments})
    return items


def _reasoning_item(response_id: str, text: str) -> dict[str, Any]:
    content = [{"type": "reasoning_text", "text": text}]
    return {"type": "reasoning", "id": f"rs_{response_id}", "summary": [], "content": content}


def _message_item(answer_id: str, text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {
        "type": "message",
        "id": f"item_{answer_id}",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }


class stream:  # noqa: N801  # the dialect's function
    """See `Dialect.stream`: the text as it comes, everything else at the end."""

    def __init__(self, ask: Ask, body: Body, answer_id: str, created: int, model: str) -> None:
        self._ask = ask
        self._body = body
        self._head = _head(answer_id, created, model, body)
        self._item = f"item_{answer_id}"
        self._sequence = -1
        self._text = self._reasoning = ""
        self._before = 0
        """Items before the message."""

    def _event(self, kind: str, **data: Any) -> bytes:
        self._sequence += 1
        return event({"type": kind, "sequence_number": self._sequence, **data}, kind)

    def open(self) -> bytes:
        begun = self._event("response.created", response=self._head)
        return begun + self._event("response.in_progress", response=self._head)

    def _place(self) -> dict[str, Any]:
        return {"item_id": self._item, "output_index": self._before, "content_index": 0}

    def _whole(self, place: int, item: dict[str, Any]) -> bytes:
        """An item that is not written bit by bit."""
        added = self._event("response.output_item.added", output_index=place, item=item)
        return added + self._event("response.output_item.done", output_index=place, item=item)

    def delta(self, delta: Delta) -> bytes:
        self._reasoning += delta.reasoning
        if not delta.content:
            return b""
        parts = b""
        if not self._text:
            if self._reasoning:
                parts += self._whole(0, _reasoning_item(self._head["id"], self._reasoning))
                self._before = 1
            item = {**_message_item("", ""), "id": self._item, "status": "in_progress", "content": []}
            parts += self._event("response.output_item.added", output_index=self._before, item=item)
            part = {"type": "output_text", "text": "", "annotations": []}
            parts += self._event("response.content_part.added", **self._place(), part=part)
        self._text += delta.content
        return parts + self._event(
            "response.output_text.delta", **self._place(), delta=delta.content, logprobs=[]
        )

    def close(self, answer: Answer) -> bytes:
        whole = write(answer, self._ask, self._body)
        parts = []
        for place, item in enumerate(whole["output"]):
            if item["id"] == self._item and self._text:
                part = item["content"][0]
                text = part["text"]
                parts.append(
                    self._event("response.output_text.done", **self._place(), text=text, logprobs=[])
                )
                parts.append(self._event("response.content_part.done", **self._place(), part=part))
                parts.append(self._event("response.output_item.done", output_index=place, item=item))
            elif place >= self._before:
                parts.append(self._whole(place, item))
        ended = "response.incomplete" if whole["status"] == "incomplete" else "response.completed"
        return b"".join([*parts, self._event(ended, response=whole)])
