"""OpenAI's Chat Completions protocol: a request in, an answer out. Only text content, function tools and
streaming are known."""

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from tests.model_server.prompt import Draft, Event, Name, Part, Prompt, Shape, Tool, parsed, pieces, require
from tests.model_server.steps import Ending, Failure, Trouble
from tests.model_server.transport import Delivery, refusal

CREATED = 1767225600
REASONING_MODELS = ("o1", "o3", "o4", "gpt-5")
INVALID = "invalid_request_error"
KINDS = {401: (INVALID, "invalid_api_key"), 404: (INVALID, "model_not_found")}
KINDS |= {429: ("requests", "rate_limit_exceeded")}
MESSAGES = {
    404: "The model does not exist or you do not have access to it.",
    429: "Rate limit reached for requests per min (RPM): Limit 50, Used 50. Please try again later.",
    500: "The server had an error while processing your request. Sorry about that!",
}
TROUBLES = {
    Trouble.OVERLOADED: (503, "The engine is currently overloaded, please try again later."),
    Trouble.CONTEXT_OVERFLOW: (400, "This model's maximum context length is 200000 tokens."),
    Trouble.UNAUTHORIZED: (401, "Incorrect API key provided."),
    Trouble.QUOTA_EXCEEDED: (429, "You exceeded your current quota, please check your plan."),
}
CODES = {
    Trouble.CONTEXT_OVERFLOW: (INVALID, "context_length_exceeded"),
    Trouble.QUOTA_EXCEEDED: ("insufficient_quota", "insufficient_quota"),
}
Said = Annotated[str, Field(min_length=1)]
Limit = Annotated[int, Field(ge=1)] | None


class Function(Shape):
    name: Name
    description: Annotated[str, Field(max_length=1024)] = ""
    parameters: dict[str, Any]


class Offered(Shape):
    type: Literal["function"]
    function: Function


class Called(Shape):
    name: Name
    arguments: str


class Call(Shape):
    id: Said
    type: Literal["function"]
    function: Called


class Told(Shape):
    role: Literal["system", "user"]
    content: Said


class Assistant(Shape):
    role: Literal["assistant"]
    content: str | None = None
    tool_calls: Annotated[list[Call], Field(min_length=1)] | None = None


class Result(Shape):
    role: Literal["tool"]
    content: str
    tool_call_id: str


class StreamOptions(Shape):
    include_usage: bool = False


class Request(Shape):
    model: Said
    messages: Annotated[
        list[Annotated[Told | Assistant | Result, Field(discriminator="role")]], Field(min_length=1)
    ]
    stream: Literal[True]
    stream_options: StreamOptions = StreamOptions()
    tools: Annotated[list[Offered], Field(min_length=1, max_length=128)] | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: Limit = None
    max_completion_tokens: Limit = None
    prompt_cache_key: str | None = None


def read(headers: dict[str, str], body: Any) -> Prompt:
    """The prompt in a request, which needs no key. Raises BadRequest if the real server would refuse it."""
    request = parsed(Request, body)
    if request.model.startswith(REASONING_MODELS):
        require(request.max_tokens is None, "'max_tokens': Use 'max_completion_tokens' instead.")
    needless = request.parallel_tool_calls is not None and request.tools is None
    require(not needless, "'parallel_tool_calls' is only allowed when 'tools' are specified")
    functions = [tool.function for tool in request.tools or ()]
    tools = tuple(Tool(each.name, each.description, each.parameters) for each in functions)
    parts = tuple(part for message in request.messages for part in _parts(message))
    return Prompt(request.model, tools, parts, request.stream_options.include_usage)


def _parts(message: Told | Assistant | Result) -> Iterator[Part]:
    if isinstance(message, Result):
        yield Part("user", message.content, "\n\n", message.tool_call_id)
        return
    header = f"\n\n{message.role}: "
    calls = message.tool_calls or [] if isinstance(message, Assistant) else []
    require(message.content or calls, "messages: expected a string, got null")
    if message.content:
        yield Part(message.role, message.content, header)
        header = ""
    for call in calls:
        yield Part(message.role, call.function.arguments, header, call.id, call.function.name)
        header = ""


def events(draft: Draft) -> list[Event]:
    """The answer as a stream."""
    answer, counts = draft.answer, draft.prompt.counts
    spoken, words = "content", answer.text
    if answer.ending == Ending.REFUSED:
        spoken, words = "refusal", answer.text or "I'm sorry, I can't assist with that."
    opening = {"role": "assistant", "content": None if answer.calls else "", "refusal": None}
    deltas: list[dict[str, Any]] = [opening, *({spoken: piece} for piece in pieces(words))]
    for index, call in enumerate(answer.calls):
        function = {"name": call.name, "arguments": ""}
        start = {"index": index, "id": draft.call_id("call", index), "type": "function", "function": function}
        deltas.append({"tool_calls": [start]})
        for piece in pieces(call.arguments):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    head = {"id": f"chatcmpl-{draft.number:04d}", "object": "chat.completion.chunk", "created": CREATED}
    head |= {"model": draft.prompt.model, **({"usage": None} if counts else {})}
    base = {"index": 0, "logprobs": None, "finish_reason": None}
    choices: list[dict[str, Any]] = [{**base, "delta": delta} for delta in deltas]
    natural = "tool_calls" if answer.calls else "stop"
    finish = "length" if answer.ending == Ending.TRUNCATED else natural
    choices.append({**base, "delta": {}, "finish_reason": finish})
    chunks = [{**head, "choices": [choice]} for choice in choices]
    if counts:
        usage = {"prompt_tokens": draft.tokens.total, "completion_tokens": draft.output_tokens}
        usage |= {"prompt_tokens_details": {"cached_tokens": draft.tokens.cache_read}}
        chunks.append({**head, "choices": [], "usage": usage})
    return [*(Event(json.dumps(chunk)) for chunk in chunks), Event("[DONE]")]


def _body(kind: str, code: str | None, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def error_event(kind: str) -> Event:
    """An error in the middle of a stream."""
    return Event(json.dumps(_body(kind, None, MESSAGES[500])))


def error(status: int, message: str, retry_after_s: float | None = None, codes: Any = None) -> Delivery:
    other = (INVALID if status < 500 else "server_error", None)
    return refusal(status, _body(*(codes or KINDS.get(status, other)), message), retry_after_s)


def failure(step: Failure) -> Delivery:
    """The error that this step means here."""
    usual = step.status, MESSAGES.get(step.status, "Something went wrong.")
    return error(*TROUBLES.get(step.trouble, usual), step.retry_after_s, CODES.get(step.trouble))
