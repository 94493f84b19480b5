"""Log lines that are JSON: what a logger or a container runtime put into them, as text.

The keys are those of the loggers people use (python-json-logger, structlog, loguru, the Elastic and Google
formats) and of Docker's json-file driver, whose `log` is a line of the program itself.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

LONGEST = 100_000
_MESSAGES = ("message", "msg", "event")
_LEVELS = ("level", "levelname", "severity", "log.level", "lvl")
_LOGGERS = ("logger", "name", "log.logger")
_TRACEBACK = "Traceback (most recent call last)"
_DEPTH = 3


@dataclass(frozen=True)
class JsonRecord:
    """`wrapped`: the message is a line as the program printed it; `rank`: such as "rank 3"; `trace`: lines of
    a traceback in it."""

    message: str
    level: str = ""
    logger: str = ""
    rank: str = ""
    wrapped: bool = False
    trace: tuple[str, ...] = ()


def json_record(text: str) -> JsonRecord | None:
    """The record that a line is, None for any other line, also for JSON that is no log record."""
    if not text.startswith("{") or not text.rstrip().endswith("}") or len(text) > LONGEST:
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if "\\u" in text:  # half of a character, as of an emoji that was cut, is no text
        data = json.loads(json.dumps(data, ensure_ascii=False).encode(errors="replace"))
    if isinstance(data.get("log"), str) and "stream" in data:
        return JsonRecord(data["log"].rstrip("\n"), wrapped=True)
    record = data["record"] if isinstance(data.get("record"), dict) else data  # loguru's
    message, level = _first(record, _MESSAGES), _first(record, _LEVELS)
    if message is None or level is None:
        return None
    trace = next((each for each in _texts(data, _DEPTH) if _TRACEBACK in each), "")
    lines = trace[trace.find(_TRACEBACK) :].splitlines() if trace else ()
    rank = f"rank {data['rank']}" if type(data.get("rank")) is int else ""
    return JsonRecord(message, level, _first(record, _LOGGERS) or "", rank, trace=tuple(lines))


def _first(record: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    values = (record[key] for key in keys if key in record)
    named = (value.get("name") if isinstance(value, dict) else value for value in values)
    return next((value for value in named if isinstance(value, str)), None)


def _texts(value: object, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict) and depth:
        for each in value.values():
            yield from _texts(each, depth - 1)
