"""What both providers need to put a conversation on the wire, and to weigh it."""

import json
import re
from collections.abc import Iterator
from typing import Any

from harness.providers.types import AssistantTurn, Request, ToolCall, Turn

MALFORMED = "_malformed"
_BYTES_PER_TOKEN = 4
_LONGEST_NAME = 64


def arguments_object(call: ToolCall) -> dict[str, Any]:
    """A call's arguments as the object that protocols demand.

    Text that is no JSON object is kept as `{"_malformed": text}`, so that the model can see what it wrote.
    """
    try:
        value = json.loads(call.arguments or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {MALFORMED: sendable(call.arguments)}


def sendable(text: str) -> str:
    """Text that UTF-8 can carry: lone surrogates (from undecodable log bytes) become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def wire_name(name: str) -> str:
    """A tool's name as protocols take it back: models make up `functions.look`, "" and longer ones."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:_LONGEST_NAME] or "unnamed"


def words_of(content: Any) -> str:
    """What a server sent as text: text, nothing, or a list of parts of which those that are text count."""
    if isinstance(content, list):
        return "".join(words_of(part) for part in content)
    if isinstance(content, dict):
        return words_of(content.get("text")) if content.get("type", "text") == "text" else ""
    return "" if content is None else sendable(str(content))


def count_of(value: Any) -> int:
    """A number of tokens as servers write it (12, 12.0, "12"); 0 for what says nothing."""
    try:
        return max(0, int(float(value)))
    except (TypeError, ValueError, OverflowError):
        return 0


def spoken(text: str) -> str:
    """Text for a place where providers refuse empty words."""
    return sendable(text) if text.strip() else "(nothing)"


def by_side(turns: tuple[Turn, ...]) -> Iterator[tuple[str, list[tuple[int, Turn]]]]:
    """Turns with their positions, grouped so that the sides ("user", "assistant") alternate."""
    group: list[tuple[int, Turn]] = []
    side = ""
    for position, turn in enumerate(turns):
        next_side = "assistant" if isinstance(turn, AssistantTurn) else "user"
        if group and next_side != side:
            yield side, group
            group = []
        side = next_side
        group.append((position, turn))
    if group:
        yield side, group


def request_bytes(request: Request) -> int:
    """How many bytes the model is given, with a little for the structure around each part."""
    size = len(request.system.encode("utf-8", "replace"))
    for tool in request.tools:
        size += 100 + len(
            (tool.name + tool.description + json.dumps(tool.parameters)).encode("utf-8", "replace")
        )
    for turn in request.turns:
        text = turn.text
        if isinstance(turn, AssistantTurn) and turn.call is not None:
            text += turn.call.id + turn.call.name + turn.call.arguments
        size += 40 + len(text.encode("utf-8", "replace"))
    return size


def estimated_tokens(size: int) -> int:
    """Tokens for a number of bytes, for servers that do not count: four bytes each."""
    return -(-size // _BYTES_PER_TOKEN)
