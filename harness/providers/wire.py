"""What both protocols need to put a conversation on the wire, and to read what servers send."""

import json
import re
from itertools import groupby
from typing import Any

from harness.providers.chat import AssistantTurn, Tool, ToolCall, Turn

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


def by_side(turns: tuple[Turn, ...]) -> list[tuple[str, list[tuple[int, Turn]]]]:
    """Turns with their positions, grouped so that the sides ("user", "assistant") alternate."""

    def side(item: tuple[int, Turn]) -> str:
        return "assistant" if isinstance(item[1], AssistantTurn) else "user"

    return [(name, list(group)) for name, group in groupby(enumerate(turns), side)]


def words_of(content: Any) -> str:
    """What a server sent as text: text, nothing, or a list of parts of which those that are text count."""
    if isinstance(content, list):
        return "".join(words_of(part) for part in content)
    if isinstance(content, dict):
        return words_of(content.get("text")) if content.get("type", "text") == "text" else ""
    return "" if content is None else sendable(str(content))


def field(source: Any, name: str) -> str:
    """A field of what a server sent, as text; "" when it is missing."""
    return words_of(getattr(source, name, None))


def count(source: Any, name: str) -> int:
    """A number of tokens as servers write it (12, 12.0, "12"); 0 when it is missing or no number."""
    try:
        return max(0, int(float(getattr(source, name, None) or 0)))
    except (TypeError, ValueError, OverflowError):
        return 0
