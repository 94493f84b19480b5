"""What the OpenAI dialects share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from trainer_core.gateway.ask import Answer, Choice, GatewayError

_TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


def error(failed: GatewayError) -> dict[str, Any]:
    """The body that OpenAI's SDKs turn into their exceptions."""
    kind = _TYPES.get(failed.status, "invalid_request_error" if failed.status < 500 else "server_error")
    return {"error": {"message": str(failed), "type": kind, "param": failed.param, "code": failed.code}}


def event(data: Any, name: str = "") -> bytes:
    """A server-sent event."""
    return (f"event: {name}\n" if name else "").encode() + b"data: " + orjson.dumps(data) + b"\n\n"


DONE = b"data: [DONE]\n\n"


def usage(answer: Answer) -> dict[str, int]:
    """Tokens read and written."""
    read, written = answer.prompt_tokens, answer.completion_tokens
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def finish(choice: Choice) -> str:
    """`tool_calls` where the model ended by asking for some."""
    if choice.finish == "stop" and choice.said.tool_calls:
        return "tool_calls"
    return choice.finish.value if choice.finish != "abort" else "stop"


def logprobs(choice: Choice, answer: Answer, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One entry a token; `return_tokens_as_token_ids` names tokens by id, as vLLM does."""

    by_id = body.get("return_tokens_as_token_ids")

    def entry(number: int, logprob: float) -> dict[str, Any]:
        text, written = answer.text_of(number)
        token = f"token_id:{number}" if by_id else text
        return {"token": token, "logprob": logprob, "bytes": written}

    drawn = choice.generation
    tops: Sequence[Sequence[tuple[int, float]]] = drawn.top_logprobs or [()] * len(drawn.ids)
    return [
        entry(number, logprob) | {"top_logprobs": [entry(*each) for each in top]}
        for number, logprob, top in zip(drawn.ids, drawn.logprobs, tops, strict=True)
    ]
