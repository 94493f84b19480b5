"""What the server may answer: one `Step` per request, said in no protocol's words.

A `Script` is a list of steps or a function from what was seen to a step.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tests.model_server.seen import Seen


@dataclass(frozen=True)
class Call:
    """A tool call; `arguments` is its text, which need not be valid JSON."""

    name: str
    arguments: str


class Ending(Enum):
    """Why the answer ends where it does."""

    NATURAL = "natural"
    TRUNCATED = "truncated"
    REFUSED = "refused"


@dataclass(frozen=True)
class Answer:
    """The model speaks: first the text, then the calls."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    ending: Ending = Ending.NATURAL


class Trouble(Enum):
    """Why a request fails; each protocol has its own status and words for it."""

    STATUS = "status"
    OVERLOADED = "overloaded"
    CONTEXT_OVERFLOW = "context overflow"
    UNAUTHORIZED = "unauthorized"
    QUOTA_EXCEEDED = "quota exceeded"


@dataclass(frozen=True)
class Failure:
    """The request is answered with an error. `status` is used for `Trouble.STATUS` only."""

    trouble: Trouble
    status: int = 0
    retry_after_s: float | None = None


@dataclass(frozen=True)
class Broken:
    """The answer begins and breaks after so many events: with an error event of a `kind`, or by a closed
    connection. `seconds`: nothing at all is said so long, or until the test releases the server."""

    after_events: int = 0
    kind: str = ""
    seconds: float = 0.0


Step = Answer | Failure | Broken
Script = Sequence[Step] | Callable[[Seen], Step]


def as_call(name: str, /, **arguments: Any) -> Call:
    """A well-formed call, to be put into `several`."""
    return Call(name, json.dumps(arguments))


def say(text: str) -> Answer:
    return Answer(text)


def call(name: str, /, **arguments: Any) -> Answer:
    return Answer(calls=(as_call(name, **arguments),))


def say_and_call(text: str, name: str, /, **arguments: Any) -> Answer:
    return Answer(text, (as_call(name, **arguments),))


def several(*calls: Call) -> Answer:
    """Parallel calls."""
    return Answer(calls=calls)


def raw_call(name: str, arguments_text: str) -> Answer:
    """A call whose arguments are this text, JSON or not."""
    return Answer(calls=(Call(name, arguments_text),))


def refuse(text: str = "") -> Answer:
    """The model declines. Anthropic: stop reason `refusal`; OpenAI: `message.refusal`."""
    return Answer(text, ending=Ending.REFUSED)


def truncate(after_text: str) -> Answer:
    """The model runs into the output limit while talking."""
    return Answer(after_text, ending=Ending.TRUNCATED)


def truncate_call(name: str, arguments_so_far: str) -> Answer:
    """The model runs into the output limit within a call's arguments."""
    return Answer(calls=(Call(name, arguments_so_far),), ending=Ending.TRUNCATED)


def status(code: int, retry_after: float | None = None) -> Failure:
    """An error answer with this HTTP status; `retry_after` in seconds."""
    return Failure(Trouble.STATUS, code, retry_after)


def server_error() -> Failure:
    return status(500)


def overloaded() -> Failure:
    """Anthropic: 529; OpenAI: 503."""
    return Failure(Trouble.OVERLOADED)


def context_overflow() -> Failure:
    """The prompt is too long for the model."""
    return Failure(Trouble.CONTEXT_OVERFLOW)


def unauthorized() -> Failure:
    """The key is wrong."""
    return Failure(Trouble.UNAUTHORIZED)


def quota_exceeded() -> Failure:
    """No credit is left. Anthropic: 400; OpenAI: 429 with code `insufficient_quota`."""
    return Failure(Trouble.QUOTA_EXCEEDED)


def error_in_stream() -> Broken:
    return Broken(3, kind="overloaded_error")


def cut_off(after_events: int) -> Broken:
    return Broken(after_events)


def hang(seconds: float) -> Broken:
    return Broken(seconds=seconds)
