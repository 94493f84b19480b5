"""What both protocols need to put a conversation on the wire, and to read what servers send."""

import json
import re
from typing import Any

from harness.providers.chat import Tool, ToolCall

OFFICIAL_URLS = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com/v1"}
"""Each protocol's own server, by the name of its provider."""

_LONGEST_NAME = 64


def arguments_object(call: ToolCall) -> dict[str, Any]:
    """A call's arguments as the object that protocols demand.

    Text that is no JSON object is kept as `{"_malformed": text}`, so that the model can see what it wrote.
    """
    try:
        value = json.loads(call.arguments or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"_malformed": sendable(call.arguments)}


def sendable(text: str) -> str:
    """Text that UTF-8 can carry: lone surrogates (from undecodable log bytes) become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def spoken(text: str) -> str:
    """Text for a place where providers refuse empty words."""
    return sendable(text) if text.strip() else "(nothing)"


def wire_name(name: str) -> str:
    """A tool's name as protocols take it back: models make up `functions.look`, "" and longer ones."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_LONGEST_NAME] or "unnamed"


def functions(tools: tuple[Tool, ...], schema: str) -> list[dict[str, Any]]:
    """The tools as objects, with their JSON schema under the protocol's own key."""
    return [{"name": tool.name, "description": tool.description, schema: tool.parameters} for tool in tools]


def field(source: Any, name: str) -> str:
    """A text that a server sent; "" when it is missing. Raises TypeError for anything else."""
    value = getattr(source, name, None)
    if value is not None and not isinstance(value, str):
        raise TypeError(f"`{name}` is no text but {value!r:.80}")
    return sendable(value or "")


def count(source: Any, name: str) -> int:
    """A number of tokens that a server sent; 0 when it is missing or no number."""
    value = getattr(source, name, None)
    return int(value) if isinstance(value, int | float) and 0 < value < 1e12 else 0
