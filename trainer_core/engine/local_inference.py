"""The inference engine in this process: one thread owns the model, any number of asyncio tasks ask it.

Requests are gathered by the turn of the event loop in which they come, and join the rows being generated
between two tokens. So a short call never waits for a long neighbour to end, and the batch stays full while
agents come and go: with calls of different lengths that beats rounds that run to their end, and it costs one
copy of the cache per join.

A row's tokens depend on its own seed alone, but their log-probabilities are rounded differently beside other
rows (decoding is not batch-invariant, on a CPU no more than on a GPU). With `deterministic` the composition
of every batch is therefore fixed: nothing joins before each open session waits in `generate`; then all that
wait are sorted by their `Request.session` and generated to the end, as many at once as the bounds allow. The
price is that everybody waits for the slowest agent between its calls.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from trainer_core.engine.decoding import Decoder, Row
from trainer_core.engine.protocols import Generation, Request
from trainer_core.types import TrainingError

Key = tuple[int | str, ...]


@dataclass(eq=False)
class _Job:
    """A request and the rows that answer it."""

    request: Request
    rows: list[Row]
    future: Future[list[Generation]] = field(default_factory=Future)

    @property
    def order(self) -> tuple[Any, ...]:
        """Where it stands in a deterministic round; numbers before words."""
        session = tuple((isinstance(part, str), part) for part in self.request.session)
        return session, self.request.seed, tuple(self.request.prompt_ids)


class LocalInference:
    """Fills `InferenceEngine` with a transformers model: the one that is trained, or a copy of it."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        deterministic: bool,
        cache_bytes: int,
        max_length: int | None = None,
        weights: Callable[[], Mapping[str, torch.Tensor]] | None = None,
    ) -> None:
        """
        Args:
            weights: those that `update_weights` copies; None: `model` is the one that is trained.
            deterministic: same seeds, same digits, in whatever order requests come.
            cache_bytes: bound on the keys and values of the rows generated at once; one row always is.
            max_length: prompt and answer together, in tokens; None: what the model's config says.
        """
        self._decoder = Decoder(model, tokenizer, cache_bytes=cache_bytes, max_length=max_length)
        self._model, self._weights = model, weights
        self._deterministic = deterministic
        self._changed = threading.Condition()  # guards all below
        self._waiting: list[_Job] = []  # not yet allowed to start
        self._queue: deque[Row] = deque()  # may join as soon as there is room
        self._jobs: dict[Row, _Job] = {}  # of the rows in the queue or the decoder
        self._sessions: dict[Key, int] = {}  # open, with the number of their requests under way
        self._paused = False
        self._rests = False  # the thread computes nothing
        self._cancelled = False  # a job's caller has gone
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)
        self._thread.start()

    async def generate(self, request: Request) -> list[Generation]:
        """See `InferenceEngine.generate`."""
        job = _Job(request, self._decoder.new_rows(request))
        with self._changed:
            if self._closed:
                raise TrainingError("the inference engine is closed")
            self._waiting.append(job)
            self._count(job, 1)
        # at the end of this turn of the loop, when the callers of the same turn have put theirs beside it
        asyncio.get_running_loop().call_soon(self._wake)
        try:
            return await asyncio.wrap_future(job.future)
        except asyncio.CancelledError:
            self._cancelled = True
            self._wake()
            raise

    @contextmanager
    def session(self, key: Key) -> Iterator[None]:
        """See `InferenceEngine.session`."""
        with self._changed:
            if key in self._sessions:
                raise TrainingError(f"the session {key} is open already")
            self._sessions[key] = sum(job.request.session[: len(key)] == key for job in self._unanswered())
        try:
            yield
        finally:
            with self._changed:
                del self._sessions[key]
                self._changed.notify_all()

    async def pause(self) -> None:
        """See `InferenceEngine.pause`."""
        with self._changed:
            self._paused = True
        await asyncio.to_thread(self._wait_for_rest)

    def _wait_for_rest(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._rests or self._closed or not self._paused)

    async def resume(self) -> None:
        """See `InferenceEngine.resume`."""
        self._paused = False
        self._wake()

    async def update_weights(self, version: int) -> None:
        """See `InferenceEngine.update_weights`; where the weights are the training engine's own, only their
        number changes. Nothing may be being generated."""
        with self._changed, torch.no_grad():
            if self._weights is not None:
                own = self._model.state_dict()
                for name, value in self._weights().items():
                    own[name].copy_(value)
            self._decoder.version = version

    async def close(self) -> None:
        """See `InferenceEngine.close`; whoever still waits gets a TrainingError."""
        self._closed = True
        self._wake()
        await asyncio.to_thread(self._thread.join)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _run(self) -> None:
        """The model thread: join, one token, deliver, until closed."""
        while True:
            with self._changed:
                if not self._has_work():
                    self._rests = True
                    self._changed.notify_all()
                    self._changed.wait_for(self._has_work)
                    self._rests = False
                if self._closed:
                    self._end(self._unanswered(), TrainingError("the engine was closed"))
                    return
                if self._cancelled:
                    self._cancelled = False
                    self._end([job for job in self._unanswered() if job.future.cancelled()])
                if self._may_start():
                    self._start_waiting()
            self._advance()

    def _advance(self) -> None:
        """Let rows join, and one more token for each; an error is the callers', and the thread goes on."""
        decoder = self._decoder
        try:
            ended = [] if self._paused else decoder.join(decoder.take(self._queue))
            ended += decoder.step()
        except BaseException as error:  # noqa: BLE001  # whoever waits would wait for ever
            with self._changed:
                self._end(list(dict.fromkeys(self._jobs.values())), error)
            return
        if ended:
            with self._changed:
                self._deliver(ended)

    def _has_work(self) -> bool:
        if self._closed or self._cancelled or self._decoder.rows:
            return True
        return self._may_start() or bool(self._queue and not self._paused)

    def _may_start(self) -> bool:
        """True if those who wait may join: at once, or at a deterministic engine's next round."""
        if self._paused or not self._waiting or not self._deterministic:
            return bool(self._waiting) and not self._paused
        return not self._queue and not self._decoder.rows and all(self._sessions.values())

    def _start_waiting(self) -> None:
        jobs = sorted(self._waiting, key=lambda job: job.order) if self._deterministic else self._waiting
        for job in jobs:
            self._queue.extend(job.rows)
            self._jobs.update(dict.fromkeys(job.rows, job))
        self._waiting = []

    def _deliver(self, ended: list[Row]) -> None:
        for job in dict.fromkeys(self._jobs.pop(row) for row in ended):
            if all(row.finish is not None for row in job.rows):
                self._count(job, -1)
                if job.future.set_running_or_notify_cancel():
                    job.future.set_result([row.generation() for row in job.rows])

    def _end(self, jobs: list[_Job], error: BaseException | None = None) -> None:
        """Forget jobs; whoever still waits for one gets the error."""
        gone = set(jobs)
        self._waiting = [job for job in self._waiting if job not in gone]
        self._jobs = {row: job for row, job in self._jobs.items() if job not in gone}
        self._queue = deque(row for row in self._queue if row in self._jobs)
        self._decoder.drop(lambda row: row not in self._jobs)
        for job in jobs:
            self._count(job, -1)
            if error is not None and job.future.set_running_or_notify_cancel():
                job.future.set_exception(error)

    def _unanswered(self) -> list[_Job]:
        return list(dict.fromkeys([*self._waiting, *self._jobs.values()]))

    def _count(self, job: _Job, change: int) -> None:
        """Note in the sessions it belongs to that a request has come or gone."""
        for length in range(len(job.request.session) + 1):
            key = job.request.session[:length]
            if key in self._sessions:
                self._sessions[key] += change
