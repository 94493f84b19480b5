"""What the dialects have in common; where they differ, it is OpenAI's words."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from trainer_core.engine.protocols import Generation
from trainer_core.gateway.ask import Answer, Ask, Choice, Delta, GatewayError

DONE = b"data: [DONE]\n\n"
_TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


class Dialect:
    """One request in a protocol's words, and what it is answered with: whole, or as server-sent events."""

    def __init__(self, body: Mapping[str, Any], model: str) -> None:
        """
        Raises:
            GatewayError: it cannot be answered.
        """
        self.body = body
        self.ask = self.read()
        self.model = model
        self.id = uuid.uuid4().hex
        self.created = int(time.time())

    def read(self) -> Ask:
        """What the body asks for.

        Raises:
            GatewayError: it cannot be answered.
        """
        raise NotImplementedError

    def write(self, answer: Answer) -> dict[str, Any]:
        """The whole answer."""
        raise NotImplementedError

    def begin(self) -> bytes:
        """The events before anything is drawn."""
        return b""

    def delta(self, delta: Delta) -> bytes:
        """What has been added."""
        return b""

    def end(self, answer: Answer) -> bytes:
        """What deltas have left out, and the end."""
        return event(self.write(answer)) + DONE

    @staticmethod
    def error(failed: GatewayError) -> dict[str, Any]:
        """The body of an answer that is none, which SDKs turn into their exceptions."""
        kind = _TYPES.get(failed.status, "invalid_request_error" if failed.status < 500 else "server_error")
        return {"error": {"message": str(failed), "type": kind, "param": failed.param, "code": failed.code}}

    def ids(self, answer: Answer) -> dict[str, Any]:
        """The ids of prompt and answer, where there is one answer and its ids are asked for."""
        if not self.body.get("return_token_ids"):
            return {}
        return {"prompt_token_ids": answer.prompts[0], "token_ids": answer.choices[0].generation.ids}

    def logprobs(self, answer: Answer, choice: Choice) -> list[dict[str, Any]]:
        """One entry a token; `return_tokens_as_token_ids` names them by their id, as vLLM does."""
        text_of = answer.text_of
        if self.body.get("return_tokens_as_token_ids"):
            return logprobs(choice.generation, lambda number: (f"token_id:{number}", text_of(number)[1]))
        return logprobs(choice.generation, text_of)


def event(data: Mapping[str, Any]) -> bytes:
    """A server-sent event, with a name if the data has a type."""
    name = f"event: {data['type']}\n".encode() if "type" in data else b""
    return name + b"data: " + orjson.dumps(data) + b"\n\n"


def usage(answer: Answer) -> dict[str, int]:
    """Tokens read and written."""
    read, written = answer.prompt_tokens, answer.completion_tokens
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def logprobs(
    drawn: Generation, text_of: Callable[[int], tuple[str, Sequence[int] | None]]
) -> list[dict[str, Any]]:
    """One entry a token. `text_of`: what a token is called, and its bytes."""

    def entries(ids: Sequence[int], values: Sequence[float]) -> list[dict[str, Any]]:
        named = zip(map(text_of, ids), values, strict=True)
        return [{"token": token, "logprob": value, "bytes": written} for (token, written), value in named]

    made = entries(drawn.ids, drawn.logprobs)
    for entry, top in zip(made, drawn.top_logprobs or [()] * len(made), strict=True):
        entry["top_logprobs"] = entries(*zip(*top, strict=True)) if top else []
    return made
