from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.trainer_core.gateway.fake import FakeEngine
from trainer_core.gateway import EpisodeRules, Gateway, OpenEpisode
from trainer_core.types import Sampling


@pytest.fixture
def serve(tokenizer: Any) -> Iterator[Callable[..., Gateway]]:
    """Start a gateway over an engine; it is stopped at the end of the test."""
    gateways: list[Gateway] = []

    def start(engine: FakeEngine, tokens: Any = None, **settings: Any) -> Gateway:
        given = {"model": "tiny", "max_model_len": 4000} | settings
        gateways.append(Gateway(engine, tokens or tokenizer, **given).__enter__())
        return gateways[-1]

    yield start
    for gateway in gateways:
        gateway.__exit__(None, None, None)


def an_episode(gateway: Gateway, **rules: Any) -> OpenEpisode:
    given: dict[str, Any] = {"sampling": Sampling(0.9), "max_tokens": 200, "seed": 1} | rules
    return gateway.open_episode(EpisodeRules(**given))
