"""Typed actions as tools: the JSON schema a model is shown, and the action that its call means."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.providers.chat import Tool, ToolCall
from harness.redaction import MASK
from harness.wording import did_you_mean


class Action(BaseModel):
    """One step that a policy or a model asks for; `kind` names it in the journal and is the tool's name.

    Docstring and field descriptions are contract, tool schema and documentation at once. `doing`: the same
    for a person who waits.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    doing: ClassVar[str] = ""
    kind: ClassVar[str]

    def __init_subclass__(cls, kind: str, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        cls.kind = kind


class Filled:
    """Marks an argument that code fills in and no model is asked for."""


class CallError(Exception):
    """The call means no action; the message says what to write instead."""


def tools_of(actions: Sequence[type[Action]]) -> tuple[Tool, ...]:
    """These actions as tools, in their order, with the same bytes each time."""
    return tuple(map(_tool, actions))


def action_of(
    call: ToolCall,
    offered: Sequence[type[Action]],
    filled: Mapping[str, Mapping[str, Any]] | None = None,
    elsewhere: Sequence[type[Action]] = (),
) -> Action:
    """The action out of `offered` that a call asks for. `filled`: by tool, the arguments that code fills in;
    `elsewhere`: tools of other questions. Raises CallError."""
    by_name = {action.kind: action for action in offered}
    action = by_name.get(call.name)
    if action is None and any(call.name == other.kind for other in elsewhere):
        here = ", ".join(by_name)
        raise CallError(
            f"{call.name} is no tool of this question, which it cannot help. The tools are: {here}."
        )
    if action is None:
        hint = did_you_mean(call.name, by_name, " Did you mean {}?")
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
        return action.model_validate({**given, **(filled or {}).get(call.name, {})})
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
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise CallError(
            f"The arguments of {name} contain half of a character (a lone surrogate). Call it again in plain "
            "text."
        )


def _filled_fields(action: type[Action]) -> frozenset[str]:
    """Names of the arguments that code fills in."""
    return frozenset(
        name
        for name, field in action.model_fields.items()
        if any(isinstance(mark, Filled) for mark in field.metadata)
    )


def _explain(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)[:5]
    places = (".".join(map(str, problem["loc"])) or "arguments" for problem in found)
    return "; ".join(f"{place}: {each['msg']}" for place, each in zip(places, found, strict=True))[:1000]


@cache
def _tool(action: type[Action]) -> Tool:
    schema = action.model_json_schema()
    hidden = _filled_fields(action)
    properties = {
        key: _plain(value, schema.get("$defs", {}))
        for key, value in schema["properties"].items()
        if key not in hidden
    }
    parameters: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    required = [key for key in schema.get("required", []) if key not in hidden]
    if required:
        parameters["required"] = required
    return Tool(action.kind, " ".join((action.__doc__ or "").split()), parameters)


def _plain(node: Any, definitions: Mapping[str, Any]) -> Any:
    """A schema without titles, references and discriminators, which some servers do not understand."""
    if isinstance(node, list):
        return [_plain(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("default", "") is None and len(node.get("anyOf", ())) == 2:  # it is left out, never null
        kind = next(each for each in node["anyOf"] if each != {"type": "null"})
        about = {key: value for key, value in node.items() if key not in ("anyOf", "default")}
        return _plain({**kind, **about}, definitions)
    if "$ref" in node:
        about = {key: value for key, value in node.items() if key != "$ref"}
        return _plain({**definitions[node["$ref"].rpartition("/")[2]], **about}, definitions)
    return {
        "anyOf" if key == "oneOf" else key: _plain(value, definitions)
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str)) and key != "discriminator"
    }
