"""What the server may answer: one `Step` per request, said in no protocol's words."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
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
Script = Sequence[Step] | Callable[[Seen], Step]  # a function is given what was seen


def as_call(name: str, /, **arguments: Any) -> Call:
    """A well-formed call, to be put into `several`."""
    return Call(name, json.dumps(arguments))


say = Answer


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


def truncate(after_text: str, *calls: Call) -> Answer:
    """The model runs into the output limit while talking or within a call's arguments."""
    return Answer(after_text, calls, Ending.TRUNCATED)


def truncate_call(name: str, arguments_so_far: str) -> Answer:
    return truncate("", Call(name, arguments_so_far))


def status(code: int, retry_after: float | None = None) -> Failure:
    """An error answer with this HTTP status; `retry_after` in seconds."""
    return Failure(Trouble.STATUS, code, retry_after)


server_error = partial(status, 500)
overloaded = partial(Failure, Trouble.OVERLOADED)  # Anthropic: 529; OpenAI: 503
context_overflow = partial(Failure, Trouble.CONTEXT_OVERFLOW)
unauthorized = partial(Failure, Trouble.UNAUTHORIZED)
quota_exceeded = partial(Failure, Trouble.QUOTA_EXCEEDED)  # 400; OpenAI: 429 with `insufficient_quota`
error_in_stream = partial(Broken, 3, "overloaded_error")
cut_off = Broken


def hang(seconds: float) -> Broken:
    return Broken(seconds=seconds)
