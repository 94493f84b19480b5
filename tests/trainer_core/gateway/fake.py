"""An engine that says what it is told to, and notes what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from trainer_core.engine.protocols import Generation, Request
from trainer_core.types import FinishReason


class FakeEngine:
    """Answers with the ids that `say` gives for a request and the number of the answer."""

    def __init__(self, say: Callable[[Request, int], Sequence[int]], end_id: int | None = None) -> None:
        self.say = say
        self.end_id = end_id
        self.requests: list[Request] = []
        self.generations: list[Generation] = []
        self.delay_s = 0.0
        self.token_s = 0.0
        self.error: Exception | None = None
        self.cancelled = 0
        self.running = 0

    async def generate(self, request: Request) -> list[Generation]:
        self.requests.append(request)
        self.running += 1
        try:
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            if self.error is not None:
                raise self.error
            return [await self._answer(request, index) for index in range(request.n)]
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1

    async def _answer(self, request: Request, index: int) -> Generation:
        ids = list(self.say(request, index))[: request.max_tokens]
        for number in ids:
            if request.on_token is not None:
                request.on_token(index, number)
            if self.token_s:
                await asyncio.sleep(self.token_s)
        whole = bool(ids) and (ids[-1] == self.end_id or ids[-1] in request.stop_ids)
        finish = FinishReason.STOP if whole else FinishReason.LENGTH
        logprobs = tuple(-0.001 * (place + 1) for place in range(len(ids)))
        made = Generation(tuple(ids), logprobs, finish, 3)
        self.generations.append(made)
        return made

    @contextmanager
    def session(self, key: tuple[int | str, ...]) -> Iterator[None]:
        yield

    async def pause(self) -> None: ...

    async def resume(self) -> None: ...

    async def update_weights(self, version: int) -> None: ...

    async def close(self) -> None: ...


def says(tokenizer: Any, *texts: str) -> Callable[[Request, int], list[int]]:
    """One text after the other, each ended; the last for ever."""
    left = list(texts)

    def say(request: Request, index: int) -> list[int]:
        text = left.pop(0) if len(left) > 1 else left[0]
        return [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id]

    return say
