"""vLLM's tokens in, tokens out: `POST /inference/v1/generate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from trainer_core.gateway.ask import Answer, Ask, Choice, Delta, common, ids, number, refuse, texts
from trainer_core.gateway.dialects.completions import is_ids
from trainer_core.gateway.dialects.openai import DONE, event, usage
from trainer_core.gateway.dialects.openai import error as error

Body = Mapping[str, Any]


def read(body: Body) -> Ask:
    """See `Dialect.read`."""
    prompt, sampling = body.get("token_ids"), body.get("sampling_params", {})
    if not isinstance(prompt, list) or not is_ids(prompt):
        raise refuse("token_ids", "must be a list of token ids, not empty")
    if not isinstance(sampling, dict):
        raise refuse("sampling_params", "must be an object")
    if body.get("features") or body.get("content_parts"):
        raise refuse("features", "images cannot be sampled and trained here; send text alone")
    return replace(
        common({**sampling, "model": body.get("model", ""), "stream": body.get("stream")}),
        prompts=(list(prompt),),
        max_tokens=number(sampling, "max_tokens", int, 1),
        n=number(sampling, "n", int, 1, 128) or 1,
        stop=texts(sampling, "stop"),
        stop_ids=ids(sampling, "stop_token_ids"),
        logprobs=sampling.get("logprobs") is not None,
        top_logprobs=number(sampling, "logprobs", int, 0, 20) or 0,
    )


def write(answer: Answer, ask: Ask, body: Body) -> dict[str, Any]:
    """See `Dialect.write`."""
    choices = [_choice(place, choice, ask) for place, choice in enumerate(answer.choices)]
    whole: dict[str, Any] = {"request_id": answer.id, "model": answer.model, "choices": choices}
    whole["usage"] = usage(answer)
    if body.get("return_token_ids"):
        whole["prompt_token_ids"] = answer.prompts[0]
    return whole


def _choice(place: int, choice: Choice, ask: Ask) -> dict[str, Any]:
    drawn = choice.generation
    made: dict[str, Any] = {
        "index": place,
        "token_ids": drawn.ids,
        "finish_reason": drawn.finish_reason.value,
        "logprobs": None,
    }
    if ask.logprobs:
        tops: Sequence[Sequence[tuple[int, float]]] = drawn.top_logprobs or [()] * len(drawn.ids)
        made["logprobs"] = {
            "content": [
                {
                    "token": f"token_id:{token}",
                    "logprob": logprob,
                    "bytes": None,
                    "top_logprobs": [{"token": f"token_id:{n}", "logprob": p, "bytes": None} for n, p in top],
                }
                for token, logprob, top in zip(drawn.ids, drawn.logprobs, tops, strict=True)
            ]
        }
    return made


class stream:  # noqa: N801  # the dialect's function
    """See `Dialect.stream`; all ids come at the end."""

    def __init__(self, ask: Ask, body: Body, answer_id: str, created: int, model: str) -> None:
        self._ask = ask
        self._body = body

    def open(self) -> bytes:
        return b""

    def delta(self, delta: Delta) -> bytes:
        return b""

    def close(self, answer: Answer) -> bytes:
        return event(write(answer, self._ask, self._body)) + DONE
