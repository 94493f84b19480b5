"""OpenAI's Responses, without server-side state: every request brings its whole conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer_core.gateway.ask import Answer, Ask, Delta, Message, ToolCall, refuse
from trainer_core.gateway.body import conversing, objects, parameters, plain
from trainer_core.gateway.dialects.chat import read_message
from trainer_core.gateway.dialects.dialect import Dialect, event


class Responses(Dialect):
    """See `Dialect`. A stream has the text as it comes, everything else at the end."""

    _sequence = -1
    _text = _reasoning = ""
    """What deltas have told."""
    _before = 0
    """Items before the text."""

    def read(self) -> Ask:
        body = self.body
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
        choice = body.get("tool_choice")
        named = choice.get("name") if isinstance(choice, dict) else choice
        ask = parameters(body, max_tokens="max_output_tokens")
        return conversing(ask, conversation, [_tool(tool) for tool in objects(body, "tools")], named)

    def _head(self) -> dict[str, Any]:
        return {
            "id": f"resp_{self.id}",
            "object": "response",
            "created_at": self.created,
            "model": self.model,
            "status": "in_progress",
            "output": [],
            "error": None,
            "incomplete_details": None,
            "instructions": self.body.get("instructions"),
            "metadata": {},
            "parallel_tool_calls": True,
            "tool_choice": self.body.get("tool_choice", "auto"),
            "tools": self.body.get("tools", []),
            "temperature": self.body.get("temperature"),
            "top_p": self.body.get("top_p"),
        }

    def write(self, answer: Answer) -> dict[str, Any]:
        choice = answer.choices[0]
        cut = choice.finish == "length"
        said = choice.said
        items = [self._reasoning_item(said.reasoning)] if said.reasoning else []
        if said.content or not (said.tool_calls or said.reasoning):
            items.append(self._message_item("completed", said.content))
        for call in said.tool_calls:
            item = {"type": "function_call", "id": f"fc_{call.id}", "call_id": call.id, "status": "completed"}
            items.append({**item, "name": call.name, "arguments": call.arguments})
        return {
            **self._head(),
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "output": items,
            "usage": {
                "input_tokens": answer.prompt_tokens,
                "output_tokens": answer.completion_tokens,
                "total_tokens": answer.prompt_tokens + answer.completion_tokens,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 0},
            },
            **self.ids(answer),
        }

    def _reasoning_item(self, text: str) -> dict[str, Any]:
        content = [{"type": "reasoning_text", "text": text}]
        return {"type": "reasoning", "id": f"rs_resp_{self.id}", "summary": [], "content": content}

    def _message_item(self, status: str, *texts: str) -> dict[str, Any]:
        content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
        item = {"type": "message", "id": f"item_{self.id}", "role": "assistant"}
        return {**item, "status": status, "content": content}

    def _event(self, kind: str, **data: Any) -> bytes:
        self._sequence += 1
        return event({"type": f"response.{kind}", "sequence_number": self._sequence, **data})

    def _item(self, place: int, item: dict[str, Any]) -> bytes:
        """An item that is not written bit by bit."""
        added = self._event("output_item.added", output_index=place, item=item)
        return added + self._event("output_item.done", output_index=place, item=item)

    def begin(self) -> bytes:
        begun = self._event("created", response=self._head())
        return begun + self._event("in_progress", response=self._head())

    def _place(self) -> dict[str, Any]:
        """Of the text."""
        return {"item_id": f"item_{self.id}", "output_index": self._before, "content_index": 0}

    def delta(self, delta: Delta) -> bytes:
        self._reasoning += delta.reasoning
        if not delta.content:
            return b""
        parts = b""
        if not self._text:
            if self._reasoning:
                parts += self._item(0, self._reasoning_item(self._reasoning))
                self._before = 1
            item = self._message_item("in_progress")
            parts += self._event("output_item.added", output_index=self._before, item=item)
            part = {"type": "output_text", "text": "", "annotations": []}
            parts += self._event("content_part.added", **self._place(), part=part)
        self._text += delta.content
        return parts + self._event("output_text.delta", **self._place(), delta=delta.content, logprobs=[])

    def end(self, answer: Answer) -> bytes:
        whole, parts = self.write(answer), b""
        for place, item in enumerate(whole["output"]):
            if item["type"] == "message" and self._text:
                (part,) = item["content"]
                parts += self._event("output_text.done", **self._place(), text=part["text"], logprobs=[])
                parts += self._event("content_part.done", **self._place(), part=part)
                parts += self._event("output_item.done", output_index=place, item=item)
            elif place >= self._before:
                parts += self._item(place, item)
        return parts + self._event(whole["status"], response=whole)


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    if tool.get("type") != "function":
        raise refuse("tools", f"only functions can be offered, not {tool.get('type')!r}")
    names = ("name", "description", "parameters")
    return {"type": "function", "function": {name: tool[name] for name in names if name in tool}}


def _read_item(item: Mapping[str, Any], place: int, conversation: list[Message]) -> None:
    """Put an item of the input into the conversation; what the assistant thought, said and called in one
    turn becomes one message."""
    kind, where = item.get("type", "message"), f"input[{place}]"
    message: Message
    if kind == "function_call_output":
        output = plain(item.get("output"), f"{where}.output")
        message = {"role": "tool", "content": output, "tool_call_id": str(item.get("call_id"))}
    elif kind == "message":
        message = read_message({"role": item.get("role"), "content": item.get("content")}, place)
    elif kind == "function_call":
        call = ToolCall(str(item.get("call_id")), str(item.get("name")), str(item.get("arguments", "{}")))
        message = {"role": "assistant", "content": "", "tool_calls": [call.message()]}
    elif kind == "reasoning":
        thoughts = [part["text"] for key in ("content", "summary") for part in item.get(key) or []]
        message = {"role": "assistant", "content": "", "reasoning_content": "".join(thoughts)}
    else:
        raise refuse(f"{where}.type", f"{kind!r:.40} is not available here")
    if not conversation or not conversation[-1]["role"] == message["role"] == "assistant":
        conversation.append(message)
        return
    last = conversation[-1]
    for name in ("content", "tool_calls", "reasoning_content"):
        if name in message:
            last[name] = last[name] + message[name] if name in last else message[name]
