"""One episode's calls, token for token, while it runs.

A call is kept as what it adds: how many of an earlier call's tokens its prompt begins with, the new ids of
its prompt, and the answer. So thirty turns on a growing conversation cost its length, not thirty times that.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainer_core.engine.protocols import Generation
from trainer_core.gateway.ask import GatewayError, episode_ended
from trainer_core.gateway.keys import Keys
from trainer_core.ids import Ids, shared_beginning
from trainer_core.types import Call, FinishReason, Sampling, StopReason


@dataclass(frozen=True)
class OtherModel:
    """An OpenAI-compatible endpoint that answers for an agent which is not trained."""

    base_url: str
    """With `/v1`."""
    api_key: str = field(repr=False)
    model: str


@dataclass(frozen=True)
class EpisodeRules:
    """What holds for the calls of an episode."""

    sampling: Sampling
    max_tokens: int
    """Of one answer."""
    seed: int
    session: tuple[int | str, ...] = ()
    """Of the engine; an agent's calls ask with its name and their number after it."""
    client_sampling: bool = False
    """What the client asks for wins, as in evaluations; else it has no effect."""
    max_calls: int | None = None
    trainable: frozenset[str] | None = None
    """Agents whose calls are trained; None: all."""
    others: Mapping[str, OtherModel] = field(default_factory=dict)
    """Agents that another model answers."""


@dataclass(frozen=True)
class Recorded:
    """What came of an episode's calls."""

    calls: tuple[Call, ...]
    """In the order they were asked; of trainable agents only."""
    output: str
    """Text of the last answer."""
    stop_reason: StopReason | None
    """CONTEXT, LENGTH or TURNS where that was met, FAILED where the engine failed."""
    error: str | None
    """What the engine failed with."""
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class RecordedCall:
    """One answer, and what its prompt adds to an earlier call's tokens."""

    agent: str
    base: RecordedCall | None
    shared: int
    """Tokens of the base's prompt and answer that this prompt begins with."""
    new_ids: Ids
    """Of the prompt, after these."""
    completion: Ids
    logprobs: np.ndarray[Any, np.dtype[np.float32]]
    finish: FinishReason
    version: int
    started: float
    """Seconds since the episode began."""
    seconds: float

    def prompt(self) -> Ids:
        """[L] of the whole prompt."""
        parts, call, length = [self.new_ids], self, self.shared
        while length and call.base is not None:
            call = call.base
            own = np.concatenate([call.new_ids, call.completion])
            parts.append(own[: max(0, length - call.shared)])
            length = min(length, call.shared)
        return np.concatenate(parts[::-1])

    def tokens(self) -> Ids:
        """[L] of prompt and answer."""
        return np.concatenate([self.prompt(), self.completion])

    def generation(self) -> Generation:
        """The answer as the engine gave it."""
        return Generation(
            tuple(self.completion.tolist()), tuple(self.logprobs.tolist()), self.finish, self.version
        )


class OpenEpisode:
    """An episode that runs: its keys, its calls so far, and what is being generated for it."""

    def __init__(
        self,
        rules: EpisodeRules,
        issued: Keys[tuple[OpenEpisode, str]],
        decode: Callable[[Sequence[int]], str],
    ) -> None:
        self.rules = rules
        self.calls = 0
        """That were answered."""
        self.tokens = 0
        self.in_flight = 0
        self.last_activity = time.monotonic()
        """`time.monotonic` when a call last came or was answered."""
        self.counts: Counter[str] = Counter()
        self.is_closed = False
        self.answered: dict[bytes, list[RecordedCall]] = {}
        """By request, in case it comes again."""
        self.after: defaultdict[str, dict[bytes, RecordedCall]] = defaultdict(dict)
        """By agent and the name of the conversation that an answer ended, see `history`."""
        self._began = time.monotonic()
        self._issued = issued
        self._decode = decode
        self._keys: dict[str, str] = {}
        self._recorded: list[RecordedCall] = []
        self._last: dict[str, RecordedCall] = {}
        self._asked: Counter[bytes] = Counter()
        self._numbers: Counter[str] = Counter()
        self._cancels: set[Callable[[], None]] = set()
        self._stop: StopReason | None = None
        self._error: str | None = None
        self._lock = threading.Lock()

    def key(self, agent: str = "") -> str:
        """The api_key with which `agent` calls the model in this episode."""
        with self._lock:
            if agent not in self._keys:
                self._keys[agent] = self._issued.issue((self, agent))
            return self._keys[agent]

    @contextlib.contextmanager
    def asking(self, *, is_repeated: bool) -> Iterator[float]:
        """While a request is answered, by the task that enters; the end of the episode cancels that. Returns
        the seconds since the episode began. A request that is repeated gets what there is, and is no further
        call.

        Raises:
            GatewayError: the episode is over, or has made all its calls.
        """
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None

        def cancel() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(task.cancel)

        with self._lock:
            if self.is_closed:
                raise episode_ended()
            most = self.rules.max_calls
            if not is_repeated and most is not None and self.calls + self.in_flight >= most:
                self._stop = StopReason.TURNS
                message = f"this episode has made all its {most} calls"
                raise GatewayError(400, message, code="max_calls_reached")
            self.in_flight += 1
            self._cancels.add(cancel)
            began = self.last_activity = time.monotonic()
        try:
            yield began - self._began
        finally:
            with self._lock:
                self.in_flight -= 1
                self._cancels.discard(cancel)
                self.last_activity = time.monotonic()

    def stopped(self, reason: StopReason, error: str | None = None) -> None:
        """Note why the episode cannot go on as it would."""
        self._stop, self._error = reason, error or self._error

    def place(self, agent: str, prompt: Ids) -> tuple[int, int]:
        """A call's number among its agent's, and its seed: the same for the same prompt, however calls that
        are made at the same time overtake each other."""
        asked = hashlib.blake2b(
            f"{self.rules.seed}/{agent}/".encode() + prompt.tobytes(), digest_size=8
        ).digest()
        number, again = self._numbers[agent], self._asked[asked]
        self._numbers[agent] += 1
        self._asked[asked] += 1
        drawn = hashlib.blake2b(asked + str(again).encode(), digest_size=8).digest()
        return number, int.from_bytes(drawn, "big") >> 1

    def record(
        self,
        agent: str,
        base: RecordedCall | None,
        prompt: Sequence[int],
        generations: Sequence[Generation],
        started: float,
    ) -> list[RecordedCall]:
        """Keep the answers to one prompt. `base`: the call it goes on from, if that is known."""
        ids = np.asarray(prompt, np.int32)
        base = base or self._last.get(agent)
        shared = 0 if base is None else shared_beginning(base.tokens(), ids)
        base, new_ids = (base, ids[shared:].copy()) if shared else (None, ids)
        seconds = time.monotonic() - self._began - started
        made = []
        for each in generations:
            completion, logprobs = np.asarray(each.ids, np.int32), np.asarray(each.logprobs, np.float32)
            drawn = (completion, logprobs, each.finish_reason, each.weight_version)
            made.append(RecordedCall(agent, base, shared, new_ids, *drawn, started, seconds))
        with self._lock:
            if self.is_closed:
                raise episode_ended()
            self.calls += 1
            self._recorded += made
            self._last[agent] = made[-1]
            self.tokens += sum(len(each.completion) for each in made)
            self._stop = StopReason.LENGTH if made[-1].finish is FinishReason.LENGTH else None
        return made

    def close(self) -> Recorded:
        """End the episode: its keys are revoked, and what is in flight is cancelled. Any thread may."""
        with self._lock:
            self.is_closed = True
            cancels, self._cancels = self._cancels, set()
            for key in self._keys.values():
                self._issued.revoke(key)
        for cancel in cancels:
            cancel()
        trainable = self.rules.trainable
        whole: dict[RecordedCall, tuple[int, ...]] = {}
        calls = []
        for each in self._recorded:
            before = () if each.base is None else whole[each.base][: each.shared]
            prompt = before + tuple(each.new_ids.tolist())
            completion = tuple(each.completion.tolist())
            whole[each] = prompt + completion
            if trainable is None or each.agent in trainable:
                drawn = each.generation()
                how = (drawn.finish_reason, drawn.weight_version, each.agent, each.started, each.seconds)
                calls.append(Call(prompt, completion, drawn.logprobs, *how))
        counts = {f"gateway/{name}": float(count) for name, count in sorted(self.counts.items())}
        output = self._decode(self._recorded[-1].completion.tolist()) if self._recorded else ""
        return Recorded(tuple(calls), output, self._stop, self._error, counts)
