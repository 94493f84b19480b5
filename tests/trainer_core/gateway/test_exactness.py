"""What is recorded is what the engine saw and drew, in every dialect and template, wherever conversations
branch."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import httpx
import pytest

from tests.trainer_core.gateway.conftest import an_episode
from tests.trainer_core.gateway.dialects import DIALECTS, Talk
from tests.trainer_core.gateway.fake import FakeEngine
from tests.trainer_core.gateway.families import FAMILIES, family
from trainer_core.engine.protocols import Request
from trainer_core.gateway import Gateway
from trainer_core.timeline import merge
from trainer_core.types import Call, Episode, Task

Serve = Callable[..., Gateway]
WORDS = ["the", "answer", "is", "three,", "«ünïcode»", "☃", "\n\n", "", "{x:", "1}", "12"]


class Talker:
    """Says random things, in tokens that nobody would get by encoding their text."""

    def __init__(self, tokenizer: Any, seed: int) -> None:
        self._tokenizer = tokenizer
        self._random = random.Random(seed)

    def say(self, request: Request, index: int) -> list[int]:
        draw = self._random
        text = " ".join(draw.choices(WORDS, k=draw.randint(0, 8)))
        if draw.random() < 0.3:
            text = f"<think>\n{' '.join(draw.choices(WORDS, k=5))}\n</think>\n\n{text}"
        for number in range(draw.choice([0, 0, 1, 2])):
            call = {"name": "search", "arguments": {"query": draw.choice(WORDS), "page": number}}
            text += f"\n<tool_call>\n{json.dumps(call)}\n</tool_call>"
        cut = [0, *sorted(draw.sample(range(len(text)), min(len(text), 6))), len(text)]
        pieces = [text[start:end] for start, end in pairwise(cut)]
        ids = [
            number for piece in pieces for number in self._tokenizer.encode(piece, add_special_tokens=False)
        ]
        return ids if draw.random() < 0.1 else [*ids, self._tokenizer.eos_token_id]


def converse(talk: Talk, post: Callable[[str, dict[str, Any]], Any], draw: random.Random, calls: int) -> None:
    """Random turns: on from an answer, back to an earlier one, or from the beginning."""
    places = [talk.begin(draw.choice(WORDS))]
    for _ in range(calls):
        before = places[-1] if draw.random() < 0.7 else draw.choice(places)
        answer = post(talk.path, talk.body(before))
        after = talk.after(before, answer, draw)
        places.append(after if draw.random() < 0.9 else talk.begin(draw.choice(WORDS)))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_token_is_recorded_as_it_was_drawn(serve: Serve, name: str, dialect: str) -> None:
    tokenizer = family(name)
    engine = FakeEngine(Talker(tokenizer, 7).say, end_id=tokenizer.eos_token_id)
    gateway = serve(engine, tokenizer, model="m", max_model_len=100_000)
    episode = an_episode(gateway, max_tokens=4000)
    draw = random.Random(f"{name}/{dialect}")
    headers = {"authorization": f"Bearer {episode.key()}"}
    with httpx.Client(base_url=gateway.base_url, headers=headers) as client:

        def post(path: str, body: dict[str, Any]) -> Any:
            answer = client.post(path, json=body)
            assert answer.status_code == 200, answer.text
            return answer.json()

        for _ in range(4):
            converse(DIALECTS[dialect](), post, draw, calls=8)
    recorded = episode.close()
    check(engine, recorded.calls)
    assert recorded.metrics["gateway/continued"] > 10
    assert recorded.metrics.get("gateway/not_continued", 0) == 0


def check(engine: FakeEngine, calls: tuple[Call, ...]) -> None:
    """The records are the engine's own, and merging leaves none of its tokens out."""
    seen = sorted(
        (tuple(request.prompt_ids), made.ids)
        for request, made in zip(engine.requests, engine.generations, strict=True)
    )
    assert sorted((call.prompt_ids, call.completion_ids) for call in calls) == seen
    sampled = sum(len(made.ids) for made in engine.generations)
    episode = Episode(Task("t", "q"), 0, calls, reward=1.0)
    merged = merge([episode])
    assert sum(int(sequence.trained.sum()) for sequence in merged.sequences) == sampled
    assert merged.metrics["timeline/trained_token_recall"] == 1.0


def test_parallel_calls_and_agents(serve: Serve) -> None:
    tokenizer = family("qwen3")
    engine = FakeEngine(
        lambda request, index: [*request.prompt_ids[:3], tokenizer.eos_token_id], tokenizer.eos_token_id
    )
    engine.delay_s = 0.01
    gateway = serve(engine, tokenizer, model="m", max_model_len=100_000)
    episode = an_episode(gateway, trainable=frozenset({"planner"}))
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}

    def post(agent: str) -> str:
        headers = {"authorization": f"Bearer {episode.key(agent)}"}
        answer = httpx.post(f"{gateway.base_url}/v1/chat/completions", json=body, headers=headers)
        return str(answer.json()["choices"][0]["finish_reason"])

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(post, ["planner", "critic"] * 16)) == {"stop"}
    seeds = [request.seed for request in engine.requests]
    assert len(set(seeds)) == 32, "the same prompt asked again is drawn anew"
    recorded = episode.close()
    assert [call.agent for call in recorded.calls] == ["planner"] * 16
