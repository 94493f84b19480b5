"""From a request's body, whatever its dialect, to an `Ask`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from trainer_core.gateway.ask import Ask, Message, refuse

_ALIKE = ("model", "stream", "stream_options", "temperature", "top_p", "top_k", "seed")
SEVERAL = {"n": "n", "stop": "stop", "stop_ids": "stop_token_ids"}
"""What those dialects know that give several choices."""


def objects(body: Mapping[str, Any], key: str, least: int = 0) -> list[dict[str, Any]]:
    """A list of JSON objects; empty where there is none."""
    value = [] if body.get(key) is None else body[key]
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise refuse(key, "must be a list of objects")
    if len(value) < least:
        raise refuse(key, "there must be at least one")
    return value


def plain(content: Any, where: str) -> str:
    """The text of a message's content, which may come in parts.

    Raises:
        GatewayError: a part is an image, a sound or a file: such cannot be trained.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise refuse(where, "must be a text or a list of parts")
    found: list[Any] = [
        part.get("text", part.get("refusal")) if isinstance(part, dict) else part for part in content
    ]
    for part, text in zip(content, found, strict=True):
        if not isinstance(text, str):
            kind = f"a part of type {part.get('type') if isinstance(part, dict) else 'text'!r}"
            raise refuse(where, f"{kind} is not text; only text can be sampled and trained here")
    return "".join(found)


def parameters(body: Mapping[str, Any], **names: str) -> Ask:
    """What all dialects call alike, and the fields that `names` has, by the name each has in the body.

    Raises:
        GatewayError: a value is of the wrong type or out of range.
    """
    keys = dict(zip(_ALIKE, _ALIKE, strict=True)) | names
    try:
        return Ask(**{field: body[key] for field, key in keys.items() if body.get(key) is not None})
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        raise refuse(keys[str(wrong["loc"][0])], f"{wrong['msg']}, not {wrong['input']!r:.40}") from None


def conversing(ask: Ask, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], choice: Any) -> Ask:
    """`ask` with a conversation and the tools that the answer may call. `choice`: auto | none | required, or
    the name of the one to call; nothing forces the model to call it, which `unmet` says."""
    names = [tool["function"].get("name") for tool in tools]
    if not all(isinstance(name, str) and name for name in names):
        raise refuse("tools", "every function needs a name")
    unmet = ask.unmet if choice in (None, "auto", "none") else (*ask.unmet, "tool_choice")
    if choice == "none":
        tools = ()
    elif choice not in (None, "auto", "required"):
        tools = [tool for tool, name in zip(tools, names, strict=True) if name == choice]
        if not tools:
            raise refuse("tool_choice", f"there is no tool called {choice!r}")
    return ask.model_copy(update={"messages": messages, "tools": tools, "unmet": unmet})
