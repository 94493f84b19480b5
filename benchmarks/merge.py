"""Merging the calls of agents: sequences, tokens and speed on nine synthetic traces.

The traces are of the kinds on which public trainers were compared before: a head of 3,200 tokens, 800 more
each turn, of which the answer is 300; `limit` is tokens of all calls / tokens of their prefix tree, which
sequences reach where no history forks. Ids are lists of integers, distinct objects in every call, as JSON
gives them; the speed is calls' tokens per second from those lists to sequences, best of three.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from _claim import Row, parser, publish

from trainer_core.timeline import merge
from trainer_core.types import Call, Episode, Task

HEAD, TURN, ANSWER = 3200, 800, 300
VOCABULARY = 100_000
_PAIR = VOCABULARY
"""Id of the token that stands for any two in a re-tokenised history; its text is that of ids 0 and 1."""

Ids = list[int]


class Trace:
    """Calls being recorded, with random tokens."""

    def __init__(self) -> None:
        self.calls: list[tuple[Ids, Ids]] = []
        self._random = random.Random(0)

    def tokens(self, number: int) -> Ids:
        return [self._random.randrange(VOCABULARY) for _ in range(number)]

    def call(self, history: Ids, answer: Ids | None = None) -> Ids:
        """Record a call; returns its answer."""
        answer = answer or self.tokens(ANSWER)
        self.calls.append((history, answer))
        return answer

    def talk(self, history: Ids, turns: int) -> Ids:
        """Append-only turns; returns the history after them."""
        for _ in range(turns):
            history = history + self.call(history) + self.tokens(TURN - ANSWER)
        return history

    def sometimes(self, turns: int) -> set[int]:
        """A fifth of the turns."""
        return set(self._random.sample(range(1, turns), turns // 5))


def linear(trace: Trace, turns: int) -> None:
    """One conversation that only grows."""
    trace.talk(trace.tokens(HEAD), turns)


def drift(trace: Trace) -> None:
    """The answers of a fifth of the turns come back with one pair of tokens made into one."""
    history = trace.tokens(HEAD)
    drifting = trace.sometimes(30)
    for turn in range(30):
        answer = trace.tokens(ANSWER)
        answer[100:102] = [0, 1]
        trace.call(history, answer)
        back = [*answer[:100], _PAIR, *answer[102:]] if turn in drifting else answer
        history = history + back + trace.tokens(TURN - ANSWER)


def retries(trace: Trace) -> None:
    """In a fifth of the turns an answer is tried again, with a remark that is gone afterwards."""
    history = trace.tokens(HEAD)
    retried = trace.sometimes(30)
    for turn in range(30):
        answer = trace.call(history)
        if turn in retried:
            answer = trace.call(history + answer + trace.tokens(200))
        history = history + answer + trace.tokens(TURN - ANSWER)


def compaction(trace: Trace) -> None:
    """After every ten turns the history becomes a summary behind the same head."""
    head = trace.tokens(HEAD)
    for _ in range(3):
        trace.talk(head + trace.tokens(TURN), 10)


def thinking(trace: Trace) -> None:
    """Two thirds of each answer are reasoning, which the history leaves out."""
    history = trace.tokens(HEAD)
    for _ in range(30):
        history = history + trace.call(history)[200:] + trace.tokens(TURN - ANSWER)


def interleaved(trace: Trace) -> None:
    """Three agents take turns."""
    histories = [trace.tokens(HEAD) for _ in range(3)]
    for turn in range(30):
        histories[turn % 3] = trace.talk(histories[turn % 3], 1)


def fan_out(trace: Trace) -> None:
    """Four times an agent sends out five others that start from its history, for five turns each."""
    history = trace.tokens(HEAD)
    for _ in range(4):
        history = trace.talk(history, 2)
        for _ in range(5):
            trace.talk(history + trace.tokens(TURN), 5)


def wide(trace: Trace) -> None:
    """300 calls with the same 60 messages before them."""
    history = trace.tokens(60 * 85)
    for _ in range(300):
        trace.call(history)


TRACES: dict[str, tuple[Callable[[Trace], None], bool]] = {
    "linear, 30 turns": (partial(linear, turns=30), True),
    "linear, 100 turns": (partial(linear, turns=100), True),
    "20 % of turns drift": (drift, False),
    "20 % of turns retried": (retries, False),
    "compaction every 10": (compaction, False),
    "reasoning left out": (thinking, False),
    "3 agents interleaved": (interleaved, True),
    "fan-out 4 × 5": (fan_out, False),
    "300 calls, one history": (wide, False),
}
"""What is recorded, and whether sequences can be as short as the tree."""


def pieces(ids: Any) -> list[str]:
    """The text of each token: a character for each but the pair."""
    return [chr(0x10000 + token) if token != _PAIR else "\U00010000\U00010001" for token in ids]


def main() -> None:
    """Measure and print."""
    options = parser(__doc__, "without the 100 turns").parse_args()
    rows, raw = [], {}
    for name, (record, reaches_limit) in TRACES.items():
        if options.quick and "100" in name:
            continue
        trace = Trace()
        record(trace)
        as_json = json.dumps(trace.calls)
        tokens = sum(len(prompt) + len(answer) for prompt, answer in trace.calls)
        best = float("inf")
        for _ in range(3):
            calls = tuple(
                Call(prompt, answer, (-0.5,) * len(answer)) for prompt, answer in json.loads(as_json)
            )
            episode = Episode(Task("t", ""), 0, calls, reward=1.0)
            start = time.perf_counter()
            merged = merge([episode])
            best = min(best, time.perf_counter() - start)
        by_text = merge([episode], pieces=pieces).metrics
        found = merged.metrics
        speed = tokens / best / 1e6
        rows.append(
            Row(
                name,
                f"{tokens:,} → {sum(len(one.ids) for one in merged.sequences):,} tokens, "
                f"{len(merged.sequences)} seq., {found['timeline/merge_compression']:.2f}× of "
                f"{found['timeline/merge_limit']:.2f}×, recall {found['timeline/trained_token_recall']:.3f}, "
                f"{speed:.0f} Mtokens/s",
                ("at the limit, " if reaches_limit else "") + "recall 1.000, ≥ 20 Mtokens/s",
                f"{by_text['timeline/merge_compression']:.2f}×, {by_text['timeline/off_context']:.0%} "
                "off context",
            )
        )
        raw[name] = {"tokens": tokens, "Mtokens/s": speed, "by id": found, "by text": by_text}
    publish("Merging (peer: our own comparison by text)", rows, options, raw)


if __name__ == "__main__":
    main()
