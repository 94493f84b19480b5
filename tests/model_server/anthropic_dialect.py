"""Anthropic's Messages protocol: a request in, an answer out. Stricter than the real one in that roles must
alternate; only text, tool_use and tool_result blocks, custom tools and streaming are known."""

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from tests.model_server.caching import FIVE_MINUTES_S, ONE_HOUR_S
from tests.model_server.prompt import Draft, Event, Name, Part, Prompt, Shape, Tool, parsed, pieces, require
from tests.model_server.steps import Ending, Failure, Trouble
from tests.model_server.transport import Delivery, refusal

MOST_MARKS = 4
KINDS = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error"}
KINDS |= {429: "rate_limit_error", 504: "timeout_error", 529: "overloaded_error"}
MESSAGES = {
    429: "This request would exceed your organization's rate limit of 50 requests per minute.",
    500: "Internal server error",
}
TROUBLES = {
    Trouble.OVERLOADED: (529, "Overloaded"),
    Trouble.CONTEXT_OVERFLOW: (400, "prompt is too long: 200001 tokens > 200000 maximum"),
    Trouble.UNAUTHORIZED: (401, "invalid x-api-key"),
    Trouble.QUOTA_EXCEEDED: (400, "Your credit balance is too low to access the Anthropic API."),
}


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("text content blocks must be non-empty and contain non-whitespace text")
    return text


class Mark(Shape):
    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] = "5m"


class Markable(Shape):
    cache_control: Mark | None = None

    @property
    def keep_s(self) -> float | None:
        mark = self.cache_control
        return mark and (ONE_HOUR_S if mark.ttl == "1h" else FIVE_MINUTES_S)


class Text(Markable):
    type: Literal["text"]
    text: Annotated[str, AfterValidator(_said)]


class ToolUse(Markable):
    type: Literal["tool_use"]
    id: Name
    name: Name
    input: dict[str, Any]


class ToolResult(Markable):
    type: Literal["tool_result"]
    tool_use_id: str
    content: str = ""
    is_error: bool = False


Block = Annotated[Text | ToolUse | ToolResult, Field(discriminator="type")]


class Message(Shape):
    role: Literal["user", "assistant"]
    content: Annotated[list[Block], Field(min_length=1)]


class Offered(Markable):
    name: Name
    input_schema: dict[str, Any]
    description: str = ""


class Choice(Shape):
    type: Literal["auto"]
    disable_parallel_tool_use: bool = False


class Request(Shape):
    model: Annotated[str, Field(min_length=1)]
    max_tokens: Annotated[int, Field(ge=1)]
    messages: Annotated[list[Message], Field(min_length=1)]
    stream: Literal[True]
    system: Annotated[list[Text], Field(min_length=1)] | None = None
    tools: tuple[Offered, ...] = Field((), strict=False)
    tool_choice: Choice | None = None


def read(headers: dict[str, str], body: Any) -> Prompt:
    """The prompt in a request, which needs no key. Raises BadRequest if the real server would refuse it."""
    require("anthropic-version" in headers, "anthropic-version: header is required")
    request = parsed(Request, body)
    require(request.tools or not request.tool_choice, "tool_choice may only be specified with tools.")
    tools = [Tool(each.name, each.description, each.input_schema, each.keep_s) for each in request.tools]
    parts = [Part("system", each.text, keep_s=each.keep_s) for each in request.system or ()]
    # Another tool choice makes other messages for the cache.
    settings = json.dumps({"tool_choice": body["tool_choice"]}) if request.tool_choice else ""
    for index, message in enumerate(request.messages):
        expected = "assistant" if index % 2 else "user"
        require(message.role == expected, f'messages.{index}: roles must alternate, the first one is "user"')
        parts += _parts(message, settings if index == 0 else "")
    require(len(request.messages) % 2, "The conversation must end with a user message.")
    marks = [each.keep_s for each in (*tools, *parts) if each.keep_s is not None]
    require(len(marks) <= MOST_MARKS, f"A maximum of {MOST_MARKS} blocks with cache_control may be provided.")
    is_falling = marks == sorted(marks, reverse=True)
    require(is_falling, "ttl='1h' must not come after a ttl='5m' cache_control block")
    return Prompt(request.model, tuple(tools), tuple(parts))


def _parts(message: Message, settings: str) -> Iterator[Part]:
    header = f"{settings}\n\n{message.role}: "
    for block in message.content:
        wrong = ToolResult if message.role == "assistant" else ToolUse
        require(not isinstance(block, wrong), "a block of the other side")
        if isinstance(block, Text):
            yield Part(message.role, block.text, header, keep_s=block.keep_s)
        elif isinstance(block, ToolUse):
            text = json.dumps(block.input, ensure_ascii=False)
            yield Part(message.role, text, header, block.id, block.name, block.keep_s)
        else:
            require(block.content or not block.is_error, "content cannot be empty if `is_error` is true")
            yield Part(message.role, block.content, header, block.tool_use_id, keep_s=block.keep_s)
        header = ""


def _usage(draft: Draft, output_tokens: int) -> dict[str, Any]:
    tokens = draft.tokens
    written = tokens.cache_write_5m + tokens.cache_write_1h
    cached = {"cache_read_input_tokens": tokens.cache_read, "cache_creation_input_tokens": written}
    return {"input_tokens": tokens.uncached, **cached, "output_tokens": output_tokens}


def events(draft: Draft) -> list[Event]:
    """The answer as a stream."""
    answer, tokens = draft.answer, draft.tokens
    message = {"id": f"msg_{draft.number:04d}", "type": "message", "role": "assistant", "content": []}
    message |= {"model": draft.prompt.model, "stop_reason": None, "stop_sequence": None}
    written = {"5m": tokens.cache_write_5m, "1h": tokens.cache_write_1h}
    split = {f"ephemeral_{ttl}_input_tokens": count for ttl, count in written.items()}
    usage = {**_usage(draft, 1), "cache_creation": split, "service_tier": "standard"}
    told: list[dict[str, Any]] = [{"type": "message_start", "message": {**message, "usage": usage}}]
    contents: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if answer.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(answer.text)]
        contents.append(({"type": "text", "text": ""}, deltas))
    for index, call in enumerate(answer.calls):
        spoken = ["", *pieces(call.arguments)]
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in spoken]
        start = {"type": "tool_use", "id": draft.call_id("toolu", index), "name": call.name, "input": {}}
        contents.append((start, deltas))
    for index, (start, deltas) in enumerate(contents):
        told.append({"type": "content_block_start", "index": index, "content_block": start})
        told += [{"type": "ping"}] if index == 0 else []
        told += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        told.append({"type": "content_block_stop", "index": index})
    natural = "tool_use" if answer.calls else "end_turn"
    reason = {Ending.REFUSED: "refusal", Ending.TRUNCATED: "max_tokens"}.get(answer.ending, natural)
    ending = {"stop_reason": reason, "stop_sequence": None}
    told.append({"type": "message_delta", "delta": ending, "usage": _usage(draft, draft.output_tokens)})
    return [Event(json.dumps(one), one["type"]) for one in (*told, {"type": "message_stop"})]


def error_event(kind: str) -> Event:
    """An error in the middle of a stream."""
    return Event(json.dumps({"type": "error", "error": {"type": kind, "message": kind}}), "error")


def error(status: int, message: str, retry_after_s: float | None = None) -> Delivery:
    kind = KINDS.get(status, "invalid_request_error" if status < 500 else "api_error")
    return refusal(status, {"type": "error", "error": {"type": kind, "message": message}}, retry_after_s)


def failure(step: Failure) -> Delivery:
    """The error that this step means here."""
    usual = step.status, MESSAGES.get(step.status, "Something went wrong")
    return error(*TROUBLES.get(step.trouble, usual), step.retry_after_s)
