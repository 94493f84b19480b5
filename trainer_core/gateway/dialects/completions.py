"""OpenAI's completions: texts or token ids to go on from, without a chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from trainer_core.gateway.ask import Answer, Ask, Choice, Delta, common, ids, number, refuse, texts
from trainer_core.gateway.dialects.openai import DONE, event, logprobs, usage
from trainer_core.gateway.dialects.openai import error as error

Body = Mapping[str, Any]
_DEFAULT_TOKENS = 16  # OpenAI's
_MOST_PROMPTS = 128


def read(body: Body) -> Ask:
    """See `Dialect.read`."""
    for key in ("suffix", "echo"):
        if body.get(key):
            raise refuse(key, "is not available here; leave it out")
    top = number(body, "logprobs", int, 0, 20)
    prompts = _prompts(body.get("prompt"))
    if body.get("stream") is True and len(prompts) > 1:
        raise refuse("stream", "one prompt at a time can be streamed")
    return replace(
        common(body),
        prompts=prompts,
        max_tokens=number(body, "max_tokens", int, 1) or _DEFAULT_TOKENS,
        n=number(body, "n", int, 1, 128) or 1,
        stop=texts(body, "stop"),
        stop_ids=ids(body, "stop_token_ids"),
        logprobs=top is not None,
        top_logprobs=top or 0,
    )


def _prompts(prompt: Any) -> list[str | Sequence[int]]:
    if isinstance(prompt, str) or is_ids(prompt):
        return [prompt]
    is_list = isinstance(prompt, list) and 0 < len(prompt) <= _MOST_PROMPTS
    if is_list and (all(isinstance(each, str) for each in prompt) or all(map(is_ids, prompt))):
        return list(prompt)
    raise refuse(
        "prompt", f"must be a text, a list of token ids, or a list of up to {_MOST_PROMPTS} of these"
    )


def is_ids(value: Any) -> bool:
    """True for a list of token ids."""
    return isinstance(value, list) and bool(value) and set(map(type, value)) == {int}


def write(answer: Answer, ask: Ask, body: Body) -> dict[str, Any]:
    """See `Dialect.write`."""
    head = _head(answer.id, answer.created, answer.model)
    choices = [_choice(answer, choice, place, ask, body) for place, choice in enumerate(answer.choices)]
    return {**head, "choices": choices, "usage": usage(answer)}


def _head(answer_id: str, created: int, model: str) -> dict[str, Any]:
    return {"id": f"cmpl-{answer_id}", "object": "text_completion", "created": created, "model": model}


def _choice(answer: Answer, choice: Choice, place: int, ask: Ask, body: Body) -> dict[str, Any]:
    made: dict[str, Any] = {
        "index": place,
        "text": choice.said.content,
        "finish_reason": choice.finish.value,
        "logprobs": None,
    }
    if ask.logprobs:
        entries = logprobs(choice, answer, body)
        made["logprobs"] = {
            "tokens": [entry["token"] for entry in entries],
            "token_logprobs": choice.generation.logprobs,
            "top_logprobs": [
                {top["token"]: top["logprob"] for top in entry["top_logprobs"]} for entry in entries
            ],
            "text_offset": list(accumulate((len(entry["token"]) for entry in entries[:-1]), initial=0)),
        }
    if body.get("return_token_ids"):
        made["prompt_token_ids"] = answer.prompts[place // ask.n]
        made["token_ids"] = choice.generation.ids
    return made


class stream:  # noqa: N801  # the dialect's function
    """See `Dialect.stream`."""

    def __init__(self, ask: Ask, body: Body, answer_id: str, created: int, model: str) -> None:
        self._ask = ask
        self._body = body
        self._head = _head(answer_id, created, model)

    def open(self) -> bytes:
        return b""

    def delta(self, delta: Delta) -> bytes:
        choice = {"index": delta.index, "text": delta.content, "finish_reason": None, "logprobs": None}
        return event({**self._head, "choices": [choice]})

    def close(self, answer: Answer) -> bytes:
        choices = [
            _choice(answer, choice, place, self._ask, self._body) | {"text": ""}
            for place, choice in enumerate(answer.choices)
        ]
        last: dict[str, Any] = {**self._head, "choices": choices}
        if (self._body.get("stream_options") or {}).get("include_usage"):
            last["usage"] = usage(answer)
        return event(last) + DONE
