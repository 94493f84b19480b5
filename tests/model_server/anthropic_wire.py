"""Anthropic's Messages protocol: a request in, an answer out.

A checked request becomes what a script sees and blocks to count; a `Draft` becomes JSON or events.
"""

import json
from collections.abc import Iterator
from typing import Any

from tests.model_server.anthropic_rules import check as check
from tests.model_server.caching import FIVE_MINUTES_S, ONE_HOUR_S, Block
from tests.model_server.seen import Seen, SeenCall, SeenResult, SeenTool, SeenTurn
from tests.model_server.steps import Ending, Failure, Step, Trouble
from tests.model_server.wire import Draft, ErrorReply, Event, pieces

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
MESSAGES = {
    429: "This request would exceed your organization's rate limit of 50 requests per minute.",
    500: "Internal server error",
    529: "Overloaded",
}
NO_CREDIT = (
    "Your credit balance is too low to access the Anthropic API. "
    "Please go to Plans & Billing to upgrade or purchase credits."
)


def see(body: dict[str, Any], headers: dict[str, str], number: int) -> Seen:
    """What a script is shown."""
    return Seen(
        number=number,
        protocol="anthropic",
        model=body["model"],
        system=_text_of(body.get("system") or ""),
        tools={
            tool["name"]: SeenTool(tool.get("description", ""), tool["input_schema"])
            for tool in body.get("tools", [])
        },
        turns=tuple(_turn(message) for message in body["messages"]),
        body=body,
        headers=headers,
    )


def _text_of(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def _turn(message: dict[str, Any]) -> SeenTurn:
    content = message["content"]
    blocks = content if isinstance(content, list) else []
    return SeenTurn(
        role=message["role"],
        text=_text_of(content),
        calls=tuple(
            SeenCall(block["id"], block["name"], json.dumps(block["input"]))
            for block in blocks
            if block["type"] == "tool_use"
        ),
        results=tuple(
            SeenResult(block["tool_use_id"], _text_of(block.get("content", "")), block.get("is_error", False))
            for block in blocks
            if block["type"] == "tool_result"
        ),
    )


def blocks(body: dict[str, Any]) -> list[Block]:
    """The prompt as the cache compares it; another tool choice or thinking makes other messages."""
    found = [Block(_tool_text(tool), _keep_s(tool)) for tool in body.get("tools", [])]
    found += [Block(text, keep_s) for text, keep_s in _parts(body.get("system") or [])]
    settings = {key: body[key] for key in ("tool_choice", "thinking") if body.get(key)}
    prefix = json.dumps(settings) if settings else ""
    for message in body["messages"]:
        prefix += f"\n\n{message['role']}: "
        for text, keep_s in _parts(message["content"]):
            found.append(Block(prefix + text, keep_s))
            prefix = ""
    if automatic := _keep_s(body):
        found[-1] = Block(found[-1].text, found[-1].keep_s or automatic)
    return found


def _tool_text(tool: dict[str, Any]) -> str:
    return json.dumps([tool["name"], tool.get("description", ""), tool["input_schema"]], ensure_ascii=False)


def _keep_s(holder: dict[str, Any]) -> float | None:
    mark = holder.get("cache_control")
    if mark is None:
        return None
    return ONE_HOUR_S if mark.get("ttl") == "1h" else FIVE_MINUTES_S


def _parts(content: str | list[dict[str, Any]]) -> Iterator[tuple[str, float | None]]:
    if isinstance(content, str):
        yield content, None
        return
    for block in content:
        keep_s = _keep_s(block)
        if block["type"] == "tool_use":
            yield f"[{block['id']}] {block['name']}{json.dumps(block['input'], ensure_ascii=False)}", keep_s
        elif block["type"] == "tool_result":
            inner = block.get("content", "")
            inner_marks = [_keep_s(part) for part in inner] if isinstance(inner, list) else []
            failed = " failed" if block.get("is_error") else ""
            text = f"[{block['tool_use_id']}{failed}]\n{_text_of(inner)}"
            yield text, keep_s or next(filter(None, reversed(inner_marks)), None)
        else:
            yield block["text"], keep_s


def _usage(draft: Draft) -> dict[str, Any]:
    prompt = draft.prompt
    return {
        "input_tokens": prompt.uncached,
        "cache_read_input_tokens": prompt.cache_read,
        "cache_creation_input_tokens": prompt.cache_write_5m + prompt.cache_write_1h,
        "cache_creation": {
            "ephemeral_5m_input_tokens": prompt.cache_write_5m,
            "ephemeral_1h_input_tokens": prompt.cache_write_1h,
        },
        "service_tier": "standard",
    }


def _message(draft: Draft) -> dict[str, Any]:
    return {
        "id": f"msg_{draft.number:04d}",
        "type": "message",
        "role": "assistant",
        "model": draft.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _ending(draft: Draft) -> dict[str, Any]:
    answer = draft.answer
    if answer.ending == Ending.REFUSED:
        details = {"type": "refusal", "category": None, "explanation": None}
        return {"stop_reason": "refusal", "stop_sequence": None, "stop_details": details}
    natural = "tool_use" if answer.calls else "end_turn"
    reason = "max_tokens" if answer.ending == Ending.TRUNCATED else natural
    return {"stop_reason": reason, "stop_sequence": None}


def events(draft: Draft) -> list[Event]:
    """The answer as a stream."""
    told: list[dict[str, Any]] = [
        {
            "type": "message_start",
            "message": {**_message(draft), "usage": {**_usage(draft), "output_tokens": 1}},
        }
    ]
    answer = draft.answer
    contents: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if answer.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(answer.text)]
        contents.append(({"type": "text", "text": ""}, deltas))
    for index, call in enumerate(answer.calls):
        deltas = [
            {"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(call.arguments)]
        ]
        start = {"type": "tool_use", "id": draft.call_id("toolu", index), "name": call.name, "input": {}}
        contents.append((start, deltas))
    for index, (start, deltas) in enumerate(contents):
        told.append({"type": "content_block_start", "index": index, "content_block": start})
        told += [{"type": "ping"}] if index == 0 else []
        told += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        told.append({"type": "content_block_stop", "index": index})
    usage = {**_usage(draft), "output_tokens": draft.output_tokens}
    del usage["cache_creation"], usage["service_tier"]
    told += [{"type": "message_delta", "delta": _ending(draft), "usage": usage}, {"type": "message_stop"}]
    return [Event(json.dumps(one), one["type"]) for one in told]


def error_body(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def error_event(kind: str) -> Event:
    """An error in the middle of a stream."""
    status = _status_of(kind)
    return Event(json.dumps(error_body(kind, MESSAGES.get(status, kind))), "error")


def _status_of(kind: str) -> int:
    return next((status for status, name in KINDS.items() if name == kind), 500)


def error(status: int, message: str) -> ErrorReply:
    kind = KINDS.get(status, "invalid_request_error" if status < 500 else "api_error")
    return ErrorReply(status, error_body(kind, message))


def too_long(tokens: int, window: int) -> ErrorReply:
    """The prompt does not fit the model."""
    return error(400, f"prompt is too long: {tokens} tokens > {window} maximum")


def failure(step: Step, tokens: int, window: int) -> ErrorReply | None:
    """The error that this step means here, or None when it is an answer."""
    if not isinstance(step, Failure):
        return None
    match step.trouble:
        case Trouble.OVERLOADED:
            return error(529, "Overloaded")
        case Trouble.CONTEXT_OVERFLOW:
            return too_long(max(tokens, window + 1), window)
        case Trouble.UNAUTHORIZED:
            return error(401, "invalid x-api-key")
        case Trouble.QUOTA_EXCEEDED:
            return error(400, NO_CREDIT)
        case Trouble.STATUS:
            made = error(step.status, MESSAGES.get(step.status, "Something went wrong"))
            return ErrorReply(made.status, made.body, step.retry_after_s)
