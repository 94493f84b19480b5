"""An outside model compares the answers of a group with each other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import combinations
from typing import Literal

from pydantic import BaseModel

from trainer_core.judge.judge import Score, with_reference
from trainer_core.outside_model import OutsideModel
from trainer_core.outside_model.client import instructed
from trainer_core.types import Episode, Task

_POINTS = {"first": 1.0, "same": 0.5, "second": 0.0}


class Comparison(BaseModel):
    """Which of two answers is better."""

    reason: str
    better: Literal["first", "second", "same"]


class PairwiseJudge:
    """The reward of an answer is the share of its comparisons that it wins, from 0 to 1; a draw counts half.

    Every two answers are compared in both orders, so that a model which prefers the place and not the answer
    gives both a half. Equal answers draw without a request; an answer alone in its group is compared with the
    task's reference, and gets 0.5 where there is none. A share of wins says nothing about solving the task,
    so `is_success` is always false.
    """

    name = "pairwise"

    def __init__(self, model: OutsideModel, criteria: str) -> None:
        self._model = model
        self._instructions = instructed("compare", criteria=criteria)

    async def score(self, task: Task, episodes: Sequence[Episode]) -> list[Score]:
        texts = [episode.output for episode in episodes]
        if len(texts) == 1:
            share = 0.5 if task.answer is None else await self._first_wins(task, texts[0], task.answer)
            return [Score(share, is_success=False)]
        pairs = list(combinations(dict.fromkeys(texts), 2))
        shares = await asyncio.gather(*(self._first_wins(task, one, other) for one, other in pairs))
        wins = dict(zip(pairs, shares, strict=True))
        wins |= {(other, one): 1.0 - share for (one, other), share in wins.items()}
        return [
            Score((sum(wins.get((text, other), 0.5) for other in texts) - 0.5) / (len(texts) - 1), False)
            for text in texts
        ]

    async def _first_wins(self, task: Task, first: str, second: str) -> float:
        """1 when `first` is better in both orders, 0 when `second` is, else between."""
        if first == second:
            return 0.5  # an answer alone in its group that is the reference
        there, back = await asyncio.gather(
            self._compare(task, first, second), self._compare(task, second, first)
        )
        return (_POINTS[there.better] + 1.0 - _POINTS[back.better]) / 2.0

    async def _compare(self, task: Task, first: str, second: str) -> Comparison:
        data = with_reference({"task": task.messages, "first": first, "second": second}, task.answer)
        return await self._model.ask(self._instructions, data, Comparison)
