"""Whole replies of the model in each protocol: what they say, and the server-sent events they become."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import orjson

from trainer_core.gateway.dialects.dialect import DONE, event

Body = Mapping[str, Any]


def as_events(path: str, reply: Body, request: Body) -> bytes:
    """A whole reply as the stream that its protocol has for it. `path`: one of `STREAMS`."""
    return b"".join(STREAMS[path](reply, request))


def text_of(path: str, reply: Body) -> str:
    """What a reply says, its first choice where there are several: texts, then tool calls as JSON, one a
    line; thoughts are left out."""
    if path == "/v1/messages":
        return _lines(reply["content"], ("name", "input"))
    if path == "/v1/responses":
        parts = [part for item in reply["output"] for part in item.get("content") or [item]]
        return _lines(parts, ("name", "arguments"))
    choice = reply["choices"][0]
    if path == "/v1/completions":
        return str(choice["text"])
    message = choice["message"]
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    return _lines([{"text": message.get("content")}, *calls], ("name", "arguments"))


def _lines(parts: list[dict[str, Any]], call: tuple[str, str]) -> str:
    lines = []
    for part in parts:
        if call[0] in part:
            lines.append(orjson.dumps({name: part[name] for name in call}).decode())
        elif part.get("type", "text") in ("text", "output_text") and part.get("text"):
            lines.append(part["text"])
    return "\n".join(lines)


def _chat(reply: Body, request: Body) -> Iterator[bytes]:
    head = {name: reply[name] for name in ("id", "created", "model") if name in reply}
    head["object"] = "chat.completion.chunk"

    def chunk(choice: Body, **delta: Any) -> bytes:
        made = {"index": choice["index"], "delta": delta, "finish_reason": None}
        return event({**head, "choices": [made]})

    for choice in reply["choices"]:
        message = {name: part for name, part in choice["message"].items() if part is not None}
        yield chunk(choice, role=message.pop("role", "assistant"), content="")
        calls = message.pop("tool_calls", ())
        if message:
            yield chunk(choice, **message)
        for number, call in enumerate(calls):
            yield chunk(choice, tool_calls=[{"index": number, **call}])
        ended = {name: part for name, part in choice.items() if name != "message"}
        yield event({**head, "choices": [{**ended, "delta": {}}]})
    more = {name: part for name, part in reply.items() if name not in ("choices", *head)}
    if not (request.get("stream_options") or {}).get("include_usage"):
        more.pop("usage", None)
    if more:
        yield event({**head, "choices": [], **more})
    yield DONE


def _completions(reply: Body, request: Body) -> Iterator[bytes]:
    is_told = (request.get("stream_options") or {}).get("include_usage")
    yield event({name: part for name, part in reply.items() if name != "usage" or is_told})
    yield DONE


def _messages(reply: Body, request: Body) -> Iterator[bytes]:
    begun: Body = {"content": [], "stop_reason": None, "stop_sequence": None}
    usage = {**reply["usage"], "output_tokens": 0}
    yield event({"type": "message_start", "message": {**reply, **begun, "usage": usage}})
    for place, block in enumerate(reply["content"]):
        empty, deltas = _block(block)
        yield event({"type": "content_block_start", "index": place, "content_block": empty})
        for delta in deltas:
            yield event({"type": "content_block_delta", "index": place, "delta": delta})
        yield event({"type": "content_block_stop", "index": place})
    ended = {name: reply.get(name) for name in ("stop_reason", "stop_sequence")}
    yield event({"type": "message_delta", "delta": ended, "usage": reply["usage"]})
    yield event({"type": "message_stop"})


def _block(block: Body) -> tuple[Body, list[dict[str, str]]]:
    """A block as it begins, and what is added to it."""
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]
    if block["type"] == "tool_use":
        written = orjson.dumps(block["input"]).decode()
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": written}]
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
        if block.get("signature"):
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {**block, "thinking": "", "signature": ""}, deltas
    return block, []


def _responses(reply: Body, request: Body) -> Iterator[bytes]:
    begun: Body = {**reply, "status": "in_progress", "output": [], "incomplete_details": None, "usage": None}
    parts: list[tuple[str, Body]] = [("created", {"response": begun}), ("in_progress", {"response": begun})]
    for place, item in enumerate(reply["output"]):
        parts += _item(item, place)
    parts.append((str(reply["status"]), {"response": reply}))
    for number, (kind, data) in enumerate(parts):
        yield event({"type": f"response.{kind}", "sequence_number": number, **data})


def _item(item: Body, place: int) -> Iterator[tuple[str, Body]]:
    at = {"item_id": item["id"], "output_index": place}
    if item["type"] == "message":
        empty = {**item, "status": "in_progress", "content": []}
        yield "output_item.added", {"output_index": place, "item": empty}
        for number, part in enumerate(item["content"]):
            here = {**at, "content_index": number}
            yield "content_part.added", {**here, "part": {**part, "text": ""}}
            yield "output_text.delta", {**here, "delta": part["text"], "logprobs": []}
            yield "output_text.done", {**here, "text": part["text"], "logprobs": []}
            yield "content_part.done", {**here, "part": part}
    elif item["type"] == "function_call":
        empty = {**item, "status": "in_progress", "arguments": ""}
        yield "output_item.added", {"output_index": place, "item": empty}
        yield "function_call_arguments.delta", {**at, "delta": item["arguments"]}
        named = {"name": item["name"], "arguments": item["arguments"]}
        yield "function_call_arguments.done", {**at, **named}
    else:
        yield "output_item.added", {"output_index": place, "item": item}
    yield "output_item.done", {"output_index": place, "item": item}


STREAMS: Mapping[str, Callable[[Body, Body], Iterator[bytes]]] = MappingProxyType(
    {
        "/v1/chat/completions": _chat,
        "/v1/completions": _completions,
        "/v1/messages": _messages,
        "/v1/responses": _responses,
    }
)
"""From a reply and its request to events, by the path that is posted to."""
