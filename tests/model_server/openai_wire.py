"""OpenAI's Chat Completions protocol: a request in, an answer out.

A checked request becomes what a script sees and blocks to count; a `Draft` becomes JSON or chunks.
"""

import json
from typing import Any

from tests.model_server.caching import Block
from tests.model_server.openai_rules import check as check
from tests.model_server.seen import Seen, SeenCall, SeenResult, SeenTool, SeenTurn
from tests.model_server.steps import Answer, Ending, Failure, Step, Trouble
from tests.model_server.wire import Draft, ErrorReply, Event, pieces

CREATED = 1767225600
KINDS = {
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("permission_error", None),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
    503: ("server_error", None),
}
MESSAGES = {
    404: "The model does not exist or you do not have access to it.",
    429: "Rate limit reached for requests per min (RPM): Limit 50, Used 50. Please try again later.",
    500: "The server had an error while processing your request. Sorry about that!",
    503: "The engine is currently overloaded, please try again later.",
}
NO_QUOTA = "You exceeded your current quota, please check your plan and billing details."


def see(body: dict[str, Any], headers: dict[str, str], number: int) -> Seen:
    """What a script is shown."""
    functions = [tool["function"] for tool in body.get("tools", [])]
    told = [message for message in body["messages"] if message["role"] in ("system", "developer")]
    return Seen(
        number=number,
        protocol="openai",
        model=body["model"],
        system="\n".join(_text_of(message["content"]) for message in told),
        tools={
            function["name"]: SeenTool(function.get("description", ""), function.get("parameters", {}))
            for function in functions
        },
        turns=_turns(body["messages"]),
        body=body,
        headers=headers,
    )


def _text_of(content: str | list[dict[str, Any]] | None) -> str:
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content)
    return content or ""


def _turns(messages: list[dict[str, Any]]) -> tuple[SeenTurn, ...]:
    """The conversation; a user's turn is all that was said between two of the assistant's."""
    turns: list[SeenTurn] = []
    for message in messages:
        text = _text_of(message.get("content"))
        if message["role"] == "assistant":
            calls = tuple(
                SeenCall(call["id"], call["function"]["name"], call["function"]["arguments"])
                for call in message.get("tool_calls", [])
            )
            turns.append(SeenTurn("assistant", text, calls))
        elif message["role"] in ("user", "tool"):
            if not turns or turns[-1].role == "assistant":
                turns.append(SeenTurn("user"))
            before = turns.pop()
            if message["role"] == "tool":
                results = (*before.results, SeenResult(message["tool_call_id"], text))
                turns.append(SeenTurn("user", before.text, results=results))
            else:
                joined = f"{before.text}\n{text}" if before.text else text
                turns.append(SeenTurn("user", joined, results=before.results))
    return tuple(turns)


def blocks(body: dict[str, Any]) -> list[Block]:
    """The prompt as the cache compares it: tools come first, as they do for the model."""
    found = []
    for tool in body.get("tools", []):
        function = tool["function"]
        parts = [function["name"], function.get("description", ""), function.get("parameters", {})]
        found.append(Block(json.dumps(parts, ensure_ascii=False)))
    for message in body["messages"]:
        text = f"\n\n{message['role']}: {_text_of(message.get('content'))}"
        if message["role"] == "tool":
            text = f"\n\n[{message['tool_call_id']}]\n{_text_of(message.get('content'))}"
        for call in message.get("tool_calls", []):
            text += f"[{call['id']}] {call['function']['name']}{call['function']['arguments']}"
        found.append(Block(text))
    return found


def _usage(draft: Draft) -> dict[str, Any]:
    return {
        "prompt_tokens": draft.prompt.total,
        "completion_tokens": draft.output_tokens,
        "total_tokens": draft.prompt.total + draft.output_tokens,
        "prompt_tokens_details": {"cached_tokens": draft.prompt.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def _finish_reason(answer: Answer) -> str:
    if answer.ending == Ending.TRUNCATED:
        return "length"
    return "tool_calls" if answer.calls else "stop"


def _refusal(answer: Answer) -> str | None:
    return (
        (answer.text or "I'm sorry, I can't assist with that.") if answer.ending == Ending.REFUSED else None
    )


def _head(draft: Draft, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{draft.number:04d}",
        "object": kind,
        "created": CREATED,
        "model": draft.model,
        "system_fingerprint": "fp_scripted",
    }


def events(draft: Draft) -> list[Event]:
    """The answer as a stream."""
    answer, refusal = draft.answer, _refusal(draft.answer)
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": None if answer.calls else "", "refusal": None}
    ]
    if refusal:
        deltas += [{"refusal": piece} for piece in pieces(refusal)]
    else:
        deltas += [{"content": piece} for piece in pieces(answer.text)]
    for index, call in enumerate(answer.calls):
        function = {"name": call.name, "arguments": ""}
        start = {"index": index, "id": draft.call_id("call", index), "type": "function", "function": function}
        deltas.append({"tool_calls": [start]})
        for piece in pieces(call.arguments):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    head = {**_head(draft, "chat.completion.chunk"), **({"usage": None} if draft.include_usage else {})}
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None} for delta in deltas
    ]
    choices.append({**choices[0], "delta": {}, "finish_reason": _finish_reason(answer)})
    chunks = [{**head, "choices": [choice]} for choice in choices]
    if draft.include_usage:
        chunks.append({**head, "choices": [], "usage": _usage(draft)})
    return [*(Event(json.dumps(chunk)) for chunk in chunks), Event("[DONE]")]


def error_body(kind: str, code: str | None, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def error_event(kind: str) -> Event:
    """An error in the middle of a stream."""
    return Event(json.dumps(error_body(kind, None, MESSAGES[500])))


def error(status: int, message: str) -> ErrorReply:
    other = ("invalid_request_error" if status < 500 else "server_error", None)
    return ErrorReply(status, error_body(*KINDS.get(status, other), message))


def too_long(tokens: int, window: int) -> ErrorReply:
    """The prompt does not fit the model."""
    text = (
        f"This model's maximum context length is {window} tokens. However, your messages resulted in "
        f"{tokens} tokens. Please reduce the length of the messages."
    )
    return ErrorReply(400, error_body("invalid_request_error", "context_length_exceeded", text))


def failure(step: Step, tokens: int, window: int) -> ErrorReply | None:
    """The error that this step means here, or None when it is an answer."""
    if not isinstance(step, Failure):
        return None
    match step.trouble:
        case Trouble.OVERLOADED:
            return error(503, MESSAGES[503])
        case Trouble.CONTEXT_OVERFLOW:
            return too_long(max(tokens, window + 1), window)
        case Trouble.UNAUTHORIZED:
            return error(401, "Incorrect API key provided.")
        case Trouble.QUOTA_EXCEEDED:
            return ErrorReply(429, error_body("insufficient_quota", "insufficient_quota", NO_QUOTA))
        case Trouble.STATUS:
            made = error(step.status, MESSAGES.get(step.status, "Something went wrong."))
            return ErrorReply(made.status, made.body, step.retry_after_s)
