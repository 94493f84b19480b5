"""Which recorded answer a request goes on from.

An episode's conversations are a tree of messages. The tokens after an answer are known exactly, so a request
whose messages begin with those of an earlier one and its answer goes on from these tokens, however the
client has written the answer back: without its thoughts, with other white space in its tool arguments, or
with its parts in a list.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trainer_core.gateway.ask import Message

if TYPE_CHECKING:
    from trainer_core.gateway.recording import RecordedCall

Key = tuple[Hashable, ...]
_DIGEST = 16


class _Node:
    __slots__ = ("call", "children")

    def __init__(self) -> None:
        self.children: dict[Hashable, _Node] = {}
        self.call: RecordedCall | None = None


class History:
    """The tree of one agent's conversations."""

    def __init__(self) -> None:
        self._root = _Node()

    def find(self, keys: Sequence[Hashable]) -> tuple[int, RecordedCall | None]:
        """The longest beginning of `keys` that ends with a recorded answer: its length, and the call."""
        node: _Node | None = self._root
        found: tuple[int, RecordedCall | None] = 0, None
        for depth, key in enumerate(keys, 1):
            assert node is not None
            node = node.children.get(key)
            if node is None:
                break
            if node.call is not None:
                found = depth, node.call
        return found

    def add(self, keys: Sequence[Hashable], call: RecordedCall) -> None:
        """After these messages, of which the last is the answer, the tokens are those of `call`."""
        node = self._root
        for key in keys:
            node = node.children.setdefault(key, _Node())
        node.call = call


def keys_of(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[Hashable]:
    """What tells conversations apart: the tools, then each message."""
    return [_short(json.dumps(tools, sort_keys=True)) if tools else "", *map(key_of, messages)]


def key_of(message: Message) -> Key:
    """A message without what clients change when they send it back: thoughts, ids, white space at its ends
    and in tool arguments."""
    calls, text = message.get("tool_calls"), message.get("content") or ""
    if message["role"] == "assistant":
        text = text.rpartition("</think>")[2]  # some clients put thoughts and text together again
    key: Key = (message["role"], _short(text.strip()))
    return (*key, *map(_call_key, calls)) if calls else key


def _short(text: str) -> str | bytes:
    """The text, or a digest where that takes less memory."""
    return text if len(text) < _DIGEST else hashlib.blake2b(text.encode(), digest_size=_DIGEST).digest()


def _call_key(call: Mapping[str, Any]) -> Key:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    try:
        read = json.loads(arguments) if isinstance(arguments, str) else arguments
        arguments = json.dumps(read, sort_keys=True)
    except (ValueError, TypeError, RecursionError):
        arguments = str(arguments)
    return function.get("name"), _short(arguments)
