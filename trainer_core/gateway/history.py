"""Which recorded answer a request goes on from.

The tokens after an answer are known exactly, so a request whose messages begin with those of an earlier one
and its answer goes on from these tokens, however the client has written the answer back: without its
thoughts, with other white space in its tool arguments, or with its parts in a list.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from trainer_core.gateway.ask import Message


def names_of(messages: Sequence[Message], after: bytes) -> list[bytes]:
    """A name for each beginning of a conversation that ends with one of these messages; they come after what
    `after` names. Beginnings that differ in no more than what clients change when they send an answer back
    (thoughts, ids, white space at the ends of texts and in tool arguments) have the same name."""
    names = []
    for message in messages:
        text = message.get("content") or ""
        if message["role"] == "assistant":
            text = text.rpartition("</think>")[2]  # some clients put thoughts and text together again
        calls = list(map(_essence, message.get("tool_calls") or []))
        after = name_of([message["role"], text.strip(), calls], after)
        names.append(after)
    return names


def name_of(value: Any, after: bytes = b"") -> bytes:
    """Of any JSON value, and of what it comes after."""
    written = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(after + written, digest_size=16).digest()


def _essence(call: Mapping[str, Any]) -> tuple[Any, str]:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    try:
        read = orjson.loads(arguments) if isinstance(arguments, str) else arguments
        return function.get("name"), orjson.dumps(read, option=orjson.OPT_SORT_KEYS).decode()
    except (ValueError, TypeError):  # no JSON, or nested too deeply
        return function.get("name"), str(arguments)
