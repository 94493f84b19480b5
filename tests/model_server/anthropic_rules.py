"""What Anthropic's Messages API does not take: `check` raises BadRequest.

Stricter than the real one in that roles must alternate (it would merge them), and that only what a
text-and-tools client needs is known: text, tool_use and tool_result blocks, custom tools, streaming.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from tests.model_server import tool_schema
from tests.model_server.bad_request import Name, Part, parsed, require

MOST_MARKS = 4


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("text content blocks must be non-empty and contain non-whitespace text")
    return text


Said = Annotated[str, AfterValidator(_said)]


class Mark(Part):
    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] = "5m"


class Text(Part):
    type: Literal["text"]
    text: Said
    cache_control: Mark | None = None


class ToolUse(Part):
    type: Literal["tool_use"]
    id: Name
    name: Name
    input: dict[str, Any]
    cache_control: Mark | None = None


class ToolResult(Part):
    type: Literal["tool_result"]
    tool_use_id: str
    content: str | list[Text] = ""
    is_error: bool = False
    cache_control: Mark | None = None

    @model_validator(mode="after")
    def _errors_say_something(self) -> "ToolResult":
        if self.is_error and not self.content:
            raise ValueError("content cannot be empty if `is_error` is true")
        return self


Block = Annotated[Text | ToolUse | ToolResult, Field(discriminator="type")]


class Message(Part):
    role: Literal["user", "assistant"]
    content: Said | Annotated[list[Block], Field(min_length=1)]

    @property
    def blocks(self) -> list[Text | ToolUse | ToolResult]:
        return [Text(type="text", text=self.content)] if isinstance(self.content, str) else self.content


class Tool(Part):
    name: Name
    input_schema: dict[str, Any]
    description: str = ""
    type: Literal["custom"] = "custom"
    cache_control: Mark | None = None


class Choice(Part):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool = False


class Request(Part):
    model: Annotated[str, Field(min_length=1)]
    max_tokens: Annotated[int, Field(ge=1)]
    messages: Annotated[list[Message], Field(min_length=1)]
    stream: Literal[True]
    system: str | Annotated[list[Text], Field(min_length=1)] | None = None
    tools: list[Tool] = Field(default_factory=list)
    tool_choice: Choice | None = None
    temperature: Annotated[float, Field(ge=0, le=1)] = 1.0
    thinking: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    cache_control: Mark | None = None


def check(headers: dict[str, str], body: Any) -> None:
    """Raise BadRequest if the real server would refuse this."""
    bearer = headers.get("authorization", "").removeprefix("Bearer ").strip()
    require(headers.get("x-api-key") or bearer, "x-api-key header is required", 401)
    require("anthropic-version" in headers, "anthropic-version: header is required")
    request = parsed(Request, body)
    _check_tools(request)
    _check_messages(request)
    _check_marks(request)


def _check_marks(request: Request) -> None:
    found = [mark for mark in _marks(request) if mark is not None]
    require(len(found) <= MOST_MARKS, f"A maximum of {MOST_MARKS} blocks with cache_control may be provided.")
    lifetimes = [mark.ttl for mark in found]
    require(
        lifetimes == sorted(lifetimes),
        "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block",
    )


def _marks(request: Request) -> Iterator[Mark | None]:
    """Every cache_control, in the order of the prompt."""
    holders: list[Any] = [*request.tools, *(request.system if isinstance(request.system, list) else ())]
    for block in (block for message in request.messages for block in message.blocks):
        inner = block.content if isinstance(block, ToolResult) and isinstance(block.content, list) else ()
        holders += [*inner, block]
    return (holder.cache_control for holder in (*holders, request))


def _check_tools(request: Request) -> None:
    names = [tool.name for tool in request.tools]
    require(len(set(names)) == len(names), "tools: Tool names must be unique.")
    for tool in request.tools:
        schema = tool.input_schema
        fault = tool_schema.objection(schema)
        require(not fault, f"{tool.name}: JSON schema is invalid, it must match draft 2020-12. {fault}")
        combined = {"oneOf", "anyOf", "allOf"} & set(schema)
        require(not combined, f"{tool.name}: input_schema does not support {combined} at the top level")
    if choice := request.tool_choice:
        require(names, "tool_choice: tool_choice may only be specified while providing tools.")
        require(choice.type != "tool" or choice.name in names, f"Tool '{choice.name}' not found")


def _check_messages(request: Request) -> None:
    waiting: list[str] = []
    used: list[str] = []
    for index, message in enumerate(request.messages):
        where = f"messages.{index}"
        expected = "assistant" if index % 2 else "user"
        require(message.role == expected, f'{where}: roles must alternate, and the first one is "user"')
        blocks = message.blocks
        wrong = ToolResult if message.role == "assistant" else ToolUse
        require(not any(isinstance(block, wrong) for block in blocks), f"{where}: a block of the other side")
        results = [block.tool_use_id for block in blocks if isinstance(block, ToolResult)]
        known = set(results) <= set(waiting)
        require(known, f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {results}")
        require(len(set(results)) == len(results), f"{where}: each tool_use must have a single result")
        first = all(isinstance(block, ToolResult) for block in blocks[: len(results)])
        require(
            first and set(results) == set(waiting),
            f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after: {waiting}",
        )
        waiting = [block.id for block in blocks if isinstance(block, ToolUse)]
        used += waiting
    require(request.messages[-1].role == "user", "The conversation must end with a user message.")
    require(len(set(used)) == len(used), "`tool_use` ids must be unique")
    require(request.tools or not used, "Requests which have `tool_use` blocks must define tools")
