"""What a request is answered with, before and after it is put into a protocol's words.

`Draft` is an answer before, `Event` and `ErrorReply` are after; `Dialect` is what a protocol's module offers.
"""

import re
from dataclasses import dataclass
from typing import Any, Protocol

from tests.model_server.caching import Block, PromptTokens, tokens_in
from tests.model_server.seen import Seen
from tests.model_server.steps import Answer, Step

PIECE = re.compile(r".{1,24}", re.DOTALL)


@dataclass(frozen=True)
class Draft:
    """An answer on its way out. `number` is the request's; `prompt` what it cost to read.

    `include_usage`: whether an OpenAI stream ends with the usage.
    """

    answer: Answer
    number: int
    model: str
    prompt: PromptTokens
    include_usage: bool = False

    @property
    def output_tokens(self) -> int:
        spoken = [self.answer.text, *(call.name + call.arguments for call in self.answer.calls)]
        return max(1, sum(tokens_in(text) for text in spoken))

    def call_id(self, prefix: str, index: int) -> str:
        """The id of a call, the same in every run of a script."""
        return f"{prefix}_{self.number:04d}_{index}"


@dataclass(frozen=True)
class Event:
    """One server-sent event; OpenAI's have no name."""

    data: str
    name: str = ""

    def encode(self) -> bytes:
        head = f"event: {self.name}\n" if self.name else ""
        return f"{head}data: {self.data}\n\n".encode()


@dataclass(frozen=True)
class ErrorReply:
    """An HTTP answer that is an error."""

    status: int
    body: dict[str, Any]
    retry_after_s: float | None = None


class Dialect(Protocol):
    """One protocol; its module is the implementation."""

    def check(self, headers: dict[str, str], body: Any) -> None: ...

    def see(self, body: dict[str, Any], headers: dict[str, str], number: int) -> Seen: ...

    def blocks(self, body: dict[str, Any]) -> list[Block]: ...

    def events(self, draft: Draft) -> list[Event]: ...

    def error(self, status: int, message: str) -> ErrorReply: ...

    def error_event(self, kind: str) -> Event: ...

    def too_long(self, tokens: int, window: int) -> ErrorReply: ...

    def failure(self, step: Step, tokens: int, window: int) -> ErrorReply | None: ...


def pieces(text: str) -> list[str]:
    """A text as a stream brings it."""
    return PIECE.findall(text)
