"""Agents that speak each dialect: how they begin, ask, and put an answer into their next request."""

from __future__ import annotations

import json
import random
from typing import Any, Protocol

History = list[dict[str, Any]]
_SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}}


class Talk(Protocol):
    path: str

    def begin(self, text: str) -> History: ...

    def body(self, history: History) -> dict[str, Any]: ...

    def after(self, history: History, answer: Any, draw: random.Random) -> History: ...


class Chat:
    path = "/v1/chat/completions"

    def begin(self, text: str) -> History:
        return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]

    def body(self, history: History) -> dict[str, Any]:
        tool = {"type": "function", "function": {"name": "search", "parameters": _SCHEMA}}
        return {"model": "m", "messages": history, "tools": [tool]}

    def after(self, history: History, answer: Any, draw: random.Random) -> History:
        message = dict(answer["choices"][0]["message"])
        thought = message.pop("reasoning_content", "") if draw.random() < 0.5 else ""  # as most frameworks do
        if thought and message["content"] and draw.random() < 0.5:
            message["content"] = f"<think>{thought}</think>{message['content']}"
        if draw.random() < 0.3 and message["content"] is None:
            message["content"] = ""
        elif draw.random() < 0.3 and message["content"]:
            message["content"] = [{"type": "text", "text": message["content"]}]
        calls = message.get("tool_calls") or []
        for call in calls:
            if draw.random() < 0.5:  # written anew
                call["function"]["arguments"] = json.dumps(
                    json.loads(call["function"]["arguments"]), indent=1
                )
        results = [
            {"role": "tool", "content": f"found {draw.random()}", "tool_call_id": call["id"]}
            for call in calls
        ]
        return [*history, message, *(results or [{"role": "user", "content": "go on"}])]


class Messages:
    path = "/v1/messages"

    def begin(self, text: str) -> History:
        return [{"role": "user", "content": text}]

    def body(self, history: History) -> dict[str, Any]:
        tool = {"name": "search", "description": "", "input_schema": _SCHEMA}
        return {"model": "m", "max_tokens": 4000, "system": "Be brief.", "messages": history, "tools": [tool]}

    def after(self, history: History, answer: Any, draw: random.Random) -> History:
        blocks = [block for block in answer["content"] if block["type"] != "thinking" or draw.random() < 0.5]
        results = [
            {
                "type": "tool_result",
                "tool_use_id": block["id"],
                "content": [{"type": "text", "text": "found"}],
            }
            for block in blocks
            if block["type"] == "tool_use"
        ]
        said = {"role": "assistant", "content": blocks}
        return [*history, said, {"role": "user", "content": results or "go on"}]


class Responses:
    path = "/v1/responses"

    def begin(self, text: str) -> History:
        return [{"role": "user", "content": text}]

    def body(self, history: History) -> dict[str, Any]:
        tool = {"type": "function", "name": "search", "parameters": _SCHEMA}
        return {"model": "m", "instructions": "Be brief.", "input": history, "tools": [tool]}

    def after(self, history: History, answer: Any, draw: random.Random) -> History:
        items = [item for item in answer["output"] if item["type"] != "reasoning" or draw.random() < 0.5]
        results = [
            {"type": "function_call_output", "call_id": item["call_id"], "output": "found"}
            for item in items
            if item["type"] == "function_call"
        ]
        return [*history, *items, *(results or [{"role": "user", "content": "go on"}])]


DIALECTS: dict[str, type[Talk]] = {"chat": Chat, "messages": Messages, "responses": Responses}
