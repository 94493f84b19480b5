"""What Anthropic's Messages API does not take: `check` raises BadRequest with the words of the real one.

Stricter than the real one in that roles must alternate (it would merge them), and that only what a
text-and-tools client needs is known: text, tool_use and tool_result blocks, custom tools.
"""

from collections.abc import Iterator
from typing import Any

from tests.model_server import tool_schema
from tests.model_server.bad_request import (
    NAME,
    BadRequest,
    list_of,
    number_within,
    object_with,
    require,
    whole_number,
)

MOST_MARKS = 4
OPTIONAL = (
    *("system", "tools", "tool_choice", "stream", "temperature", "top_p", "top_k", "stop_sequences"),
    *("metadata", "thinking", "output_config", "service_tier", "cache_control"),
)
TOOL_OPTIONAL = ("type", "description", "cache_control", "strict", "eager_input_streaming", "input_examples")
Found = tuple[str, dict[str, Any]]


def check(headers: dict[str, str], body: Any) -> None:
    """Raise BadRequest if the real server would refuse this."""
    bearer = headers.get("authorization", "").removeprefix("Bearer ").strip()
    require(headers.get("x-api-key") or bearer, "x-api-key header is required", 401)
    require("anthropic-version" in headers, "anthropic-version: header is required")
    request = object_with(body, ("model", "max_tokens", "messages"), OPTIONAL, "")
    require(isinstance(request["model"], str) and request["model"], "model: Input should be a valid string")
    require(
        whole_number(request["max_tokens"]) and request["max_tokens"] >= 1,
        "max_tokens: Input should be greater than or equal to 1",
    )
    require(number_within(request.get("temperature", 1), 0, 1), "temperature: range: 0..1")
    _check_tools(request)
    _check_system(request.get("system"))
    _check_messages(request)
    _check_marks(request)


def marks(request: dict[str, Any]) -> Iterator[Found]:
    """Every cache_control with its place, in the order of the prompt."""
    for index, tool in enumerate(request.get("tools", [])):
        yield from _mark(tool, f"tools.{index}")
    if isinstance(request.get("system"), list):
        for index, block in enumerate(request["system"]):
            yield from _mark(block, f"system.{index}")
    for number, message in enumerate(request["messages"]):
        if isinstance(message["content"], list):
            for index, block in enumerate(message["content"]):
                place = f"messages.{number}.content.{index}"
                if isinstance(block.get("content"), list):
                    for inner, part in enumerate(block["content"]):
                        yield from _mark(part, f"{place}.content.{inner}")
                yield from _mark(block, place)
    yield from _mark(request, "")


def _mark(holder: dict[str, Any], where: str) -> Iterator[Found]:
    if holder.get("cache_control") is not None:
        yield f"{where}.cache_control".lstrip("."), holder["cache_control"]


def _check_marks(request: dict[str, Any]) -> None:
    found = list(marks(request))
    for where, mark in found:
        object_with(mark, ("type",), ("ttl",), where)
        require(mark["type"] == "ephemeral", f"{where}.type: Input should be 'ephemeral'")
        require(mark.get("ttl", "5m") in ("5m", "1h"), f"{where}.ttl: Input should be '5m' or '1h'")
    require(
        len(found) <= MOST_MARKS,
        f"A maximum of {MOST_MARKS} blocks with cache_control may be provided. Found {len(found)}.",
    )
    short = False
    for where, mark in found:
        long = mark.get("ttl") == "1h"
        require(
            not (long and short),
            f"{where}.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control "
            "block. Note that blocks are processed in the following order: `tools`, `system`, `messages`.",
        )
        short = short or not long


def _check_tools(request: dict[str, Any]) -> None:
    tools = request.get("tools", [])
    require(isinstance(tools, list), "tools: Input should be a valid list")
    for index, tool in enumerate(tools):
        where = f"tools.{index}"
        object_with(tool, ("name", "input_schema"), TOOL_OPTIONAL, where)
        require(tool.get("type", "custom") == "custom", f"{where}.type: Input should be 'custom'")
        _check_name(tool["name"], f"{where}.custom.name")
        require(
            isinstance(tool.get("description", ""), str), f"{where}.description: should be a valid string"
        )
        schema = tool["input_schema"]
        if fault := tool_schema.objection(schema):
            raise BadRequest(
                f"{where}.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft "
                f"2020-12 (https://json-schema.org/draft/2020-12). {fault}"
            )
        require(
            not {"oneOf", "anyOf", "allOf"} & set(schema),
            f"{where}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top "
            "level",
        )
        if tool.get("strict"):
            fault = next(tool_schema.objects_left_open(schema), None)
            require(not fault or "additionalProperties" not in fault, f"{where}.custom: {fault}")
    names = [tool["name"] for tool in tools]
    require(len(set(names)) == len(names), "tools: Tool names must be unique.")
    _check_choice(request.get("tool_choice"), names)


def _check_choice(choice: Any, names: list[str]) -> None:
    if choice is None:
        return
    require(names, "tool_choice: tool_choice may only be specified while providing tools.")
    object_with(choice, ("type",), ("name", "disable_parallel_tool_use"), "tool_choice")
    require(choice["type"] in ("auto", "any", "tool", "none"), "tool_choice.type: unknown")
    if choice["type"] == "tool":
        require(choice.get("name") in names, f"Tool '{choice.get('name')}' not found in provided tools")


def _check_name(name: Any, where: str) -> None:
    require(
        isinstance(name, str) and NAME.fullmatch(name),
        f"{where}: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'",
    )


def _check_system(system: Any) -> None:
    if system is None or isinstance(system, str):
        return
    for index, block in enumerate(list_of(system, "system")):
        _check_text(block, f"system.{index}", "system")


def _check_text(block: Any, where: str, subject: str) -> None:
    object_with(block, ("type", "text"), ("cache_control", "citations"), where)
    require(block["type"] == "text", f"{where}: Input tag '{block['type']}' is not known to this server")
    require(isinstance(block["text"], str), f"{where}.text: Input should be a valid string")
    require(block["text"], f"{subject}: text content blocks must be non-empty")
    require(block["text"].strip(), f"{subject}: text content blocks must contain non-whitespace text")


def _check_messages(request: dict[str, Any]) -> None:
    messages = request["messages"]
    require(isinstance(messages, list), "messages: Input should be a valid list")
    require(messages, "messages: at least one message is required")
    seen_ids: set[str] = set()
    asked: set[str] = set()
    role = "assistant"
    for index, message in enumerate(messages):
        where = f"messages.{index}"
        object_with(message, ("role", "content"), (), where)
        expected = "user" if role == "assistant" else "assistant"
        role = message["role"]
        require(role in ("user", "assistant"), f"{where}.role: Input should be 'user' or 'assistant'")
        require(
            role == expected,
            'messages: first message must use the "user" role'
            if index == 0
            else f'messages: roles must alternate between "user" and "assistant", but found multiple '
            f'"{role}" roles in a row ({where})',
        )
        blocks = _blocks_of(message, where)
        asked = _check_turn(blocks, where, index, role, asked, seen_ids)
    require(
        role == "user",
        "This model does not support assistant message prefill. The conversation must end with a user "
        "message.",
    )
    require(
        request.get("tools") or not seen_ids,
        "Requests which have `tool_use` or `tool_result` blocks in their messages must define tools",
    )


def _blocks_of(message: dict[str, Any], where: str) -> list[Any]:
    content = message["content"]
    if isinstance(content, str):
        require(content, f"{where}: all messages must have non-empty content")
        return [{"type": "text", "text": content}]
    require(isinstance(content, list), f"{where}.content: Input should be a valid string or list")
    require(content, f"{where}: all messages must have non-empty content")
    return list(content)


def _check_turn(
    blocks: list[Any], where: str, index: int, role: str, asked: set[str], seen_ids: set[str]
) -> set[str]:
    """Check one message against the calls that wait for results; return those that wait after it."""
    calls: set[str] = set()
    answered: set[str] = set()
    words_came = False
    for number, block in enumerate(blocks):
        place = f"{where}.content.{number}"
        require(isinstance(block, dict) and "type" in block, f"{place}.type: Field required")
        kind = block["type"]
        if kind == "tool_use" and role == "assistant":
            _check_call(block, place, seen_ids)
            calls.add(block["id"])
        elif kind == "tool_result" and role == "user":
            _check_result(block, place, asked, answered)
            require(not words_came, _unanswered(index, sorted(asked - answered)))
            answered.add(block["tool_use_id"])
        else:
            _check_text(block, place, "messages")
            words_came = True
    missing = sorted(asked - answered)
    require(not missing, _unanswered(index, missing))
    return calls


def _unanswered(index: int, missing: list[str]) -> str:
    return (
        f"messages.{index - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the "
        "next message."
    )


def _check_call(block: dict[str, Any], where: str, seen_ids: set[str]) -> None:
    object_with(block, ("type", "id", "name", "input"), ("cache_control", "caller"), where)
    _check_name(block["name"], f"{where}.tool_use.name")
    require(
        isinstance(block["id"], str) and NAME.fullmatch(block["id"]),
        f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    )
    require(isinstance(block["input"], dict), f"{where}.tool_use.input: Input should be a valid dictionary")
    require(block["id"] not in seen_ids, f"{where}: `tool_use` ids must be unique")
    seen_ids.add(block["id"])


def _check_result(block: dict[str, Any], where: str, asked: set[str], answered: set[str]) -> None:
    object_with(block, ("type", "tool_use_id"), ("content", "is_error", "cache_control"), where)
    call_id = block["tool_use_id"]
    require(
        call_id in asked,
        f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. Each `tool_result` "
        "block must have a corresponding `tool_use` block in the previous message.",
    )
    require(
        call_id not in answered,
        f"{where}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: "
        f"{call_id}",
    )
    content = block.get("content", "")
    if isinstance(content, list):
        for number, part in enumerate(content):
            _check_text(part, f"{where}.tool_result.content.{number}", "messages")
    else:
        require(
            isinstance(content, str), f"{where}.tool_result.content: Input should be a valid string or list"
        )
    is_error = block.get("is_error", False)
    require(isinstance(is_error, bool), f"{where}.tool_result.is_error: Input should be a valid boolean")
    require(content or not is_error, f"{where}.tool_result: content cannot be empty if `is_error` is true")
