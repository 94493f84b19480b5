"""What vLLM's routes have in common: how sampling is asked for, and what is made of an answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from trainer_core.engine.protocols import Generation, Request


class Unordered:
    """An engine that computes requests as they come."""

    @contextmanager
    def session(self, key: tuple[int | str, ...]) -> Iterator[None]:
        """See `InferenceEngine.session`; vLLM takes no notice."""
        yield


def sampling_of(request: Request) -> dict[str, Any]:
    """The sampling of a request by vLLM's names."""
    sampling = request.sampling
    return {
        "n": request.n,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": max(sampling.top_k, 0),
        "seed": request.seed,
        "max_tokens": request.max_tokens,
        "logprobs": request.top_logprobs,
        "stop": list(request.stop_texts),
        "stop_token_ids": list(request.stop_ids),
    }


def tell(request: Request, made: Sequence[Generation]) -> None:
    """Tell the caller all tokens, where it wants them one by one."""
    if request.on_token is not None:
        for index, each in enumerate(made):
            for number in each.ids:
                request.on_token(index, number)


def ranked(alternatives: Iterable[tuple[Any, float]]) -> tuple[tuple[int, float], ...]:
    """Tokens, as ids or as `token_id:ID`, with their log-probabilities: the likeliest first."""
    numbered = ((int(str(token).removeprefix("token_id:")), logprob) for token, logprob in alternatives)
    return tuple(sorted(numbered, key=lambda top: -top[1]))
