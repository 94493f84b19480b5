"""Actions as tools: the JSON schema a model is told, and the action that its call means."""

import difflib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from harness.agent.actions import (
    Action,
    Check,
    Diagnose,
    EditConfig,
    Filled,
    Finish,
    Launch,
    MetricsSummary,
    Note,
    PatchCode,
    ReadBlueprint,
    ReadConfig,
    ReadFile,
    ReadPane,
    RenderConfig,
    SearchLog,
    SetEnvironment,
    Stop,
    Wait,
    WriteReportSection,
)
from harness.providers.chat import Tool, ToolCall
from harness.redaction import MASK

OFFERED: tuple[type[Action], ...] = (
    ReadBlueprint,
    ReadConfig,
    ReadFile,
    ReadPane,
    SearchLog,
    MetricsSummary,
    RenderConfig,
    EditConfig,
    SetEnvironment,
    PatchCode,
    Check,
    Launch,
    Wait,
    Stop,
    Diagnose,
    Note,
    WriteReportSection,
    Finish,
)
"""What a language model is offered, always all of it and in this order: the bytes of the tools never
change. The other actions are code's own business."""


class CallError(Exception):
    """The call means no action; the message tells the model what to write instead."""


@lru_cache(maxsize=1)
def tools() -> tuple[Tool, ...]:
    """Every offered action as a tool, in a fixed order and with the same bytes each time."""
    return tools_of(OFFERED)


def tools_of(actions: Sequence[type[Action]]) -> tuple[Tool, ...]:
    """These actions as tools, in their order."""
    return tuple(_tool(name_of(action), action) for action in actions)


def name_of(action: type[Action]) -> str:
    """What an action's tool is called."""
    return str(action.model_fields["kind"].default)


def action_of(
    call: ToolCall,
    filled: Mapping[str, Mapping[str, Any]],
    offered: Sequence[type[Action]] = OFFERED,
) -> Action:
    """The action out of `offered` that a call asks for. `filled`: by tool, the arguments that code fills in.
    Raises CallError."""
    by_name = {name_of(action): action for action in offered}
    action = by_name.get(call.name)
    if action is None:
        close = difflib.get_close_matches(call.name, by_name, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise CallError(f"There is no tool {call.name[:80]!r}.{hint} The tools are: {', '.join(by_name)}.")
    try:
        given = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError) as error:
        raise CallError(
            f"The arguments of {call.name} are not valid JSON: {error}. Call it again."
        ) from error
    if not isinstance(given, dict):
        raise CallError(f"The arguments of {call.name} must be a JSON object. Call it again.")
    _refuse_unusable_text(call.name, given)
    hidden = _filled_fields(action) & set(given)
    if hidden:
        raise CallError(f"{call.name} has no argument {', '.join(sorted(hidden))}. Leave it out.")
    try:
        return action.model_validate({**given, **filled.get(call.name, {})})
    except ValidationError as error:
        raise CallError(f"{call.name} was called wrongly: {_explain(error)}. Call it again.") from error


def _refuse_unusable_text(name: str, given: Mapping[str, Any]) -> None:
    """A mask is never carried out as if it were what it hides, and half characters cannot be written."""
    text = json.dumps(given, ensure_ascii=False)
    if MASK in text:
        raise CallError(
            f"The arguments of {name} contain {MASK}: that is a mask that stands for a secret, not a value. "
            "Leave out what it stands in, or name the variable that holds it. Call it again."
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise CallError(
            f"The arguments of {name} contain half of a character (a lone surrogate). Call it again in plain "
            "text."
        ) from None


def _filled_fields(action: type[Action]) -> frozenset[str]:
    """Names of the arguments that code fills in."""
    return frozenset(
        name
        for name, field in action.model_fields.items()
        if any(isinstance(mark, Filled) for mark in field.metadata)
    )


def _explain(error: ValidationError) -> str:
    problems = [
        f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    return "; ".join(problems[:5])[:1000]


def _tool(name: str, action: type[Action]) -> Tool:
    schema = action.model_json_schema()
    hidden = {"kind", *_filled_fields(action)}
    properties = {
        key: _plain(value, schema.get("$defs", {}))
        for key, value in schema["properties"].items()
        if key not in hidden
    }
    parameters: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    required = [key for key in schema.get("required", []) if key not in hidden]
    if required:
        parameters["required"] = required
    return Tool(name, " ".join((action.__doc__ or "").split()), parameters)


def _plain(node: Any, definitions: Mapping[str, Any]) -> Any:
    """A schema without titles and references, which some servers do not understand."""
    if isinstance(node, list):
        return [_plain(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _plain(definitions[node["$ref"].rpartition("/")[2]], definitions)
    return {
        key: _plain(value, definitions)
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str))
    }
