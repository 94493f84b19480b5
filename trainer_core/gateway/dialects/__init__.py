"""The protocols that clients speak. Each reads a body to an `Ask`, and writes an `Answer`, or its parts as
they come, or an error, in the form its SDKs expect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from trainer_core.gateway.ask import Answer, Ask, Delta, GatewayError
from trainer_core.gateway.dialects import chat, completions, messages, responses, tokens

Body = Mapping[str, Any]


class Stream(Protocol):
    """One answer as server-sent events."""

    def open(self) -> bytes:
        """Before anything is drawn."""

    def delta(self, delta: Delta) -> bytes:
        """What has been added."""

    def close(self, answer: Answer) -> bytes:
        """What deltas have left out, and the end."""


class Dialect(Protocol):
    """A module of this package."""

    def read(self, body: Body) -> Ask:
        """What a body asks for.

        Raises:
            GatewayError: it cannot be answered.
        """

    def write(self, answer: Answer, ask: Ask, body: Body) -> dict[str, Any]:
        """The whole answer."""

    def stream(self, ask: Ask, body: Body, answer_id: str, created: int, model: str) -> Stream:
        """A stream that has not begun."""

    def error(self, error: GatewayError) -> dict[str, Any]:
        """The body of an answer that is none."""


DIALECTS: Mapping[str, Dialect] = {
    "/v1/chat/completions": chat,
    "/v1/completions": completions,
    "/v1/responses": responses,
    "/v1/messages": messages,
    "/inference/v1/generate": tokens,
}
"""By the path that clients post to."""
