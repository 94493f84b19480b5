"""What the engine asks a vLLM's `/v1/completions`, and what it makes of the answers."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from trainer_core.engine.protocols import Request
from trainer_core.engine.vllm.completions import CompletionsInference
from trainer_core.types import FinishReason, Sampling, TrainingError

REQUEST = Request(
    [5, 6], Sampling(0.7, 0.9, -1), 8, stop_ids=(1,), n=2, seed=3, top_logprobs=2, stop_texts=("x",)
)


def choice(index: int, **more: Any) -> dict[str, Any]:
    tops = [{"token_id:9": -2.0, "token_id:7": -0.5}]
    told = {"token_logprobs": [-0.5], "top_logprobs": tops}
    return {"index": index, "token_ids": [7 + index], "logprobs": told, "finish_reason": "length", **more}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was posted, and first what is answered."""
    log: list[Any] = [httpx.Response(200, json={"choices": [choice(1), choice(0)]})]

    async def post(_: httpx.AsyncClient, url: str, json: dict[str, Any]) -> httpx.Response:
        log.append((url, json))
        if isinstance(log[0], Exception):
            raise log[0]
        assert isinstance(log[0], httpx.Response)
        return log[0]

    monkeypatch.setattr(httpx.AsyncClient, "post", post)
    return log


async def test_token_ids_go_both_ways(asked: list[Any]) -> None:
    first, second = await CompletionsInference("http://v", "m").generate(REQUEST)
    url, body = asked[1]
    assert (url, body["prompt"], body["n"], body["top_k"]) == ("http://v/v1/completions", [5, 6], 2, 0)
    assert (body["stop"], body["stop_token_ids"], body["return_token_ids"]) == (["x"], [1], True)
    assert (first.ids, second.ids, first.logprobs) == ((7,), (8,), (-0.5,))
    assert first.finish_reason is FinishReason.LENGTH
    assert first.top_logprobs == (((7, -0.5), (9, -2.0)),)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (httpx.Response(400, text="too long"), "answers 400: too long"),
        (httpx.Response(200, json={"choices": [choice(0, token_ids=None)]}), "return_token_ids"),
        (
            httpx.Response(200, json={"choices": [choice(0, token_ids=[1, 2])]}),
            "1 log-probabilities for 2 tokens",
        ),
        (httpx.ConnectError("refused"), "does not answer"),
    ],
)
async def test_what_is_no_answer_says_so(asked: list[Any], answer: Any, told: str) -> None:
    asked[0] = answer
    with pytest.raises(TrainingError, match=told):
        await CompletionsInference("http://v", "m").generate(REQUEST)
