"""Texts or token ids to go on from, without a chat template: OpenAI's completions, vLLM's generate."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, TypeGuard

from trainer_core.gateway.ask import Answer, Ask, Choice, Delta, refuse
from trainer_core.gateway.body import SEVERAL, parameters
from trainer_core.gateway.dialects.dialect import DONE, Dialect, event, logprobs, usage

_DEFAULT_TOKENS = 16  # OpenAI's
_MOST_PROMPTS = 128


class Completions(Dialect):
    """OpenAI's completions."""

    def read(self) -> Ask:
        body = self.body
        for key in ("suffix", "echo"):
            if body.get(key):
                raise refuse(key, "is not available here; leave it out")
        prompts = _prompts(body.get("prompt"))
        ask = parameters(body, **SEVERAL, max_tokens="max_tokens", top_logprobs="logprobs")
        if ask.stream and len(prompts) > 1:
            raise refuse("stream", "one prompt at a time can be streamed")
        more = {"max_tokens": ask.max_tokens or _DEFAULT_TOKENS, "logprobs": body.get("logprobs") is not None}
        return ask.model_copy(update={"prompts": prompts, **more})

    def _head(self) -> dict[str, Any]:
        kind = "text_completion"
        return {"id": f"cmpl-{self.id}", "object": kind, "created": self.created, "model": self.model}

    def write(self, answer: Answer) -> dict[str, Any]:
        choices = [self._choice(answer, place, choice) for place, choice in enumerate(answer.choices)]
        return {**self._head(), "choices": choices, "usage": usage(answer)}

    def _choice(self, answer: Answer, place: int, choice: Choice) -> dict[str, Any]:
        made: dict[str, Any] = {
            "index": place,
            "text": choice.said.content,
            "finish_reason": choice.finish.value,
            "logprobs": None,
        }
        drawn = choice.generation
        if self.ask.logprobs:
            entries = self.logprobs(answer, choice)
            made["logprobs"] = {
                "tokens": [entry["token"] for entry in entries],
                "token_logprobs": drawn.logprobs,
                "top_logprobs": [
                    {top["token"]: top["logprob"] for top in entry["top_logprobs"]} for entry in entries
                ],
                "text_offset": list(accumulate((len(entry["token"]) for entry in entries[:-1]), initial=0)),
            }
        if self.body.get("return_token_ids"):
            made |= {"prompt_token_ids": answer.prompts[place // self.ask.n], "token_ids": drawn.ids}
        return made

    def delta(self, delta: Delta) -> bytes:
        choice = {"index": delta.index, "text": delta.content, "finish_reason": None, "logprobs": None}
        return event({**self._head(), "choices": [choice]})

    def end(self, answer: Answer) -> bytes:
        last = self.write(answer)
        for choice in last["choices"]:
            choice["text"] = ""
        if not self.ask.stream_options.get("include_usage"):
            del last["usage"]
        return event(last) + DONE


class Tokens(Dialect):
    """vLLM's tokens in, tokens out: `POST /inference/v1/generate`. In a stream all ids come at the end."""

    def read(self) -> Ask:
        body = self.body
        prompt, sampling = body.get("token_ids"), body.get("sampling_params", {})
        if not _is_ids(prompt):
            raise refuse("token_ids", "must be a list of token ids, not empty")
        if not isinstance(sampling, dict):
            raise refuse("sampling_params", "must be an object")
        if body.get("features") or body.get("content_parts"):
            raise refuse("features", "images cannot be sampled and trained here; send text alone")
        asked = {**sampling, "model": body.get("model"), "stream": body.get("stream")}
        ask = parameters(asked, **SEVERAL, max_tokens="max_tokens", top_logprobs="logprobs")
        return ask.model_copy(update={"prompts": (prompt,), "logprobs": sampling.get("logprobs") is not None})

    def write(self, answer: Answer) -> dict[str, Any]:
        choices = [self._choice(place, choice) for place, choice in enumerate(answer.choices)]
        whole = {"request_id": self.id, "model": self.model, "choices": choices, "usage": usage(answer)}
        return whole | ({"prompt_token_ids": answer.prompts[0]} if self.body.get("return_token_ids") else {})

    def _choice(self, place: int, choice: Choice) -> dict[str, Any]:
        drawn = choice.generation
        entries = logprobs(drawn, lambda number: (f"token_id:{number}", None)) if self.ask.logprobs else None
        return {
            "index": place,
            "token_ids": drawn.ids,
            "finish_reason": drawn.finish_reason.value,
            "logprobs": None if entries is None else {"content": entries},
        }


def _prompts(prompt: Any) -> list[str | Sequence[int]]:
    if isinstance(prompt, str) or _is_ids(prompt):
        return [prompt]
    is_list = isinstance(prompt, list) and 0 < len(prompt) <= _MOST_PROMPTS
    if is_list and (all(isinstance(each, str) for each in prompt) or all(map(_is_ids, prompt))):
        return list(prompt)
    raise refuse(
        "prompt", f"must be a text, a list of token ids, or a list of up to {_MOST_PROMPTS} of these"
    )


def _is_ids(value: Any) -> TypeGuard[list[int]]:
    """True for a list of token ids."""
    return isinstance(value, list) and bool(value) and set(map(type, value)) == {int}
