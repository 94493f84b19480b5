"""What OpenAI's Chat Completions API does not take: `check` raises BadRequest.

Only what a text-and-tools client needs is known: text content, function tools, streaming.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from tests.model_server import tool_schema
from tests.model_server.bad_request import Name, Part, parsed, require

REASONING_MODELS = ("o1", "o3", "o4", "gpt-5")
Said = Annotated[str, Field(min_length=1)]
Limit = Annotated[int, Field(ge=1)] | None


class Text(Part):
    type: Literal["text"]
    text: Said


Content = Said | Annotated[list[Text], Field(min_length=1)]


class Function(Part):
    name: Name
    description: Annotated[str, Field(max_length=1024)] = ""
    parameters: dict[str, Any] | None = None


class Tool(Part):
    type: Literal["function"]
    function: Function


class Called(Part):
    name: Name
    arguments: str


class Call(Part):
    id: Said
    type: Literal["function"]
    function: Called


class Told(Part):
    role: Literal["system", "developer", "user"]
    content: Content
    name: str | None = None


class Assistant(Part):
    role: Literal["assistant"]
    content: str | list[Text] | None = None
    name: str | None = None
    refusal: str | None = None
    tool_calls: Annotated[list[Call], Field(min_length=1)] | None = None


class Result(Part):
    role: Literal["tool"]
    content: str | list[Text]
    tool_call_id: str


Message = Annotated[Told | Assistant | Result, Field(discriminator="role")]


class StreamOptions(Part):
    include_usage: bool = False


class Request(Part):
    model: Said
    messages: Annotated[list[Message], Field(min_length=1)]
    stream: Literal[True]
    stream_options: StreamOptions | None = None
    tools: Annotated[list[Tool], Field(min_length=1, max_length=128)] | None = None
    tool_choice: Literal["auto", "none", "required"] | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    max_tokens: Limit = None
    max_completion_tokens: Limit = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    prompt_cache_key: str | None = None
    reasoning_effort: str | None = None


def check(headers: dict[str, str], body: Any) -> None:
    """Raise BadRequest if the real server would refuse this."""
    bearer = headers.get("authorization", "").removeprefix("Bearer ").strip()
    require(bearer, "You didn't provide an API key. You need to provide it in an Authorization header.", 401)
    request = parsed(Request, body)
    if request.model.startswith(REASONING_MODELS):
        require(request.max_tokens is None, "'max_tokens': Use 'max_completion_tokens' instead.")
        require(request.temperature in (None, 1), "'temperature': Only the default (1) value is supported.")
    _check_tools(request)
    _check_order(request)


def _check_tools(request: Request) -> None:
    if request.tools is None:
        extra = request.tool_choice is not None or request.parallel_tool_calls is not None
        require(not extra, "'tool_choice' is only allowed when 'tools' are specified")
        return
    names = [tool.function.name for tool in request.tools]
    require(len(set(names)) == len(names), f"Invalid 'tools': duplicate function names in {names}")
    if isinstance(request.tool_choice, dict):
        wanted = (request.tool_choice.get("function") or {}).get("name")
        require(wanted in names, f"Invalid value for 'tool_choice': no function named '{wanted}'")
    for function in (tool.function for tool in request.tools):
        schema = function.parameters
        if schema is not None:
            fault = tool_schema.objection(schema) or tool_schema.arrays_without_items(schema)
            require(not fault, f"Invalid schema for function '{function.name}': {fault}")


def _check_order(request: Request) -> None:
    waiting: list[str] = []
    for index, message in enumerate(request.messages):
        if isinstance(message, Result):
            known = message.tool_call_id in waiting
            require(known, f"messages[{index}]: role 'tool' must be a response to a preceeding 'tool_calls'")
            waiting.remove(message.tool_call_id)
            continue
        require(not waiting, f"messages[{index}]: tool_calls did not have response messages: {waiting}")
        if isinstance(message, Assistant):
            said = message.content or message.tool_calls or message.refusal
            require(said, f"messages[{index}]: expected a string, got null")
            waiting = [call.id for call in message.tool_calls or ()]
            require(len(set(waiting)) == len(waiting), f"messages[{index}]: duplicate ids of calls")
    require(not waiting, f"tool_calls did not have response messages: {waiting}")
