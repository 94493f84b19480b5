"""The inference engine on somebody else's vLLM, over its `/v1/completions`, with token ids both ways."""

from __future__ import annotations

from typing import Any

import httpx

from trainer_core.engine.protocols import Generation, Request
from trainer_core.engine.vllm.requests import Unordered, ranked, sampling_of, tell
from trainer_core.types import FinishReason, TrainingError


class CompletionsInference(Unordered):
    """Fills `InferenceEngine`; who runs the server changes its weights."""

    def __init__(self, address: str, model: str) -> None:
        """`address`: without /v1. `model`: the name to send."""
        self._route, self._model = f"{address}/v1/completions", model

    async def generate(self, request: Request) -> list[Generation]:
        """See `InferenceEngine.generate`; tokens are told when the answer is whole.

        Raises:
            TrainingError: the server does not answer, refuses, or does not give token ids.
        """
        try:
            async with httpx.AsyncClient(timeout=None, trust_env=False, verify=False) as client:
                reply = await client.post(self._route, json=self._body(request))
        except httpx.TransportError as error:
            raise TrainingError(f"{self._route} does not answer: {error!r}") from error
        if not reply.is_success:
            raise TrainingError(f"{self._route} answers {reply.status_code}: {reply.text[:500]}")
        try:
            choices = sorted(reply.json()["choices"], key=lambda choice: choice["index"])
            made = [_generation(choice, with_tops=request.top_logprobs > 0) for choice in choices]
        except (KeyError, TypeError, ValueError) as error:
            raise TrainingError(
                f"{self._route} gives no token ids and log-probabilities ({error!r}); it has to be a vLLM "
                "that knows return_token_ids, 0.10.2 or newer"
            ) from error
        tell(request, made)
        return made

    def _body(self, request: Request) -> dict[str, Any]:
        return {
            "model": self._model,
            "prompt": list(request.prompt_ids),
            **sampling_of(request),
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
        }

    async def pause(self) -> None:
        """Done by who runs the server."""

    async def resume(self) -> None:
        """Done by who runs the server."""

    async def update_weights(self, version: int) -> None:
        """Done by who runs the server."""

    async def close(self) -> None:
        """There is nothing to give back."""


def _generation(choice: dict[str, Any], *, with_tops: bool) -> Generation:
    told, ids = choice["logprobs"], tuple(choice["token_ids"])
    logprobs = tuple(float(each) for each in told["token_logprobs"])
    if len(ids) != len(logprobs):
        raise ValueError(f"{len(logprobs)} log-probabilities for {len(ids)} tokens")
    tops = tuple(ranked(each.items()) for each in told["top_logprobs"]) if with_tops else ()
    return Generation(ids, logprobs, FinishReason(choice["finish_reason"] or "abort"), 0, tops)
