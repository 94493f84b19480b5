"""What is asked of workers, watched: a call without a micro-batch for too long is given up.

A rank that is lost in the middle of a collective keeps all others waiting, and Ray's futures wait for ever.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import IO, Any, NamedTuple

import psutil

from trainer_core.types import TrainingError

_LOOKS = 4
"""In each limit."""
_STARTS_S = 1800.0
"""For all of them to load the model, at the least."""
_LOOK_S = 30.0
"""The longest that a machine is waited for."""
_DUMP_S = 1.0
"""For a process to write its stacks."""


class Place(NamedTuple):
    """Where a worker is (`machine`: Ray's id of it), and the numbers of two files in memory of its process:
    SIGUSR1 has it write its `stacks` into one, the other gets a byte for each micro-batch."""

    machine: str
    host: str
    pid: int
    stacks: int
    steps: int


class Sight(NamedTuple):
    """What is seen of a worker: micro-batches since its start (-1: it or its machine is gone); where asked
    for, the state of its process, such as `stopped`, and its stacks."""

    steps: int
    state: str
    stacks: str


def look_at(place: Place, wants_stacks: bool) -> Sight:
    """Look at a worker of this machine from beside it, also at one that is stuck, or stopped."""
    files = Path(f"/proc/{place.pid}/fd")
    try:
        steps = (files / str(place.steps)).stat().st_size
        if not wants_stacks:
            return Sight(steps, "", "")
        os.kill(place.pid, signal.SIGUSR1)
        time.sleep(_DUMP_S)
        return Sight(steps, psutil.Process(place.pid).status(), (files / str(place.stacks)).read_text())
    except (OSError, psutil.Error):
        return Sight(-1, "gone", "")


def look_on_ray(places: Sequence[Place], wants_stacks: bool) -> list[Sight]:
    """Look at workers, each from its own machine."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    look, sights = ray.remote(num_cpus=0)(look_at), []
    asked = [
        look.options(scheduling_strategy=NodeAffinitySchedulingStrategy(each.machine, soft=False)).remote(
            each, wants_stacks
        )
        for each in places
    ]
    for each in asked:
        try:
            sights.append(ray.get(each, timeout=_LOOK_S))
        except ray.exceptions.RayError:
            sights.append(Sight(-1, "on a machine that does not answer", ""))
    return sights


@contextmanager
def in_words(whose: str) -> Iterator[None]:
    """Tell Ray's errors within in one line; `whose`: such as "a worker".

    Raises:
        TrainingError: it died, or failed.
    """
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("ray."):
            raise
        told = str(getattr(error, "cause", None) or error).strip().splitlines()
        raise TrainingError(
            f"{whose} of verl failed ({type(error).__name__}: {' '.join(told)[:500]}). Start again when the "
            "cause is mended: training goes on from the last checkpoint"
        ) from error


class WatchedGroup:
    """A group of workers; each of its methods waits for the answer of all of them."""

    def __init__(
        self,
        group: Any,
        limit_s: float,
        log: Path,
        look: Callable[[Sequence[Place], bool], list[Sight]] = look_on_ray,
    ) -> None:
        """
        Args:
            group: of `SplitWorker`s or `HybridWorker`s.
            limit_s: seconds without a micro-batch after which a call is given up.
            log: gets the stacks then.
        """
        self.group, self._limit_s, self._log, self._look = group, limit_s, log, look
        self._places: Sequence[Place] = ()
        self._places = self._watched("place", group, (), max(limit_s, _STARTS_S))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self.method(name, self.group)

    def method(self, name: str, of: Any) -> Callable[..., Any]:
        """A method of something else that has the group work."""
        return lambda *arguments: self._watched(name, of, arguments, self._limit_s)

    def _watched(self, name: str, of: Any, arguments: tuple[Any, ...], limit_s: float) -> Any:
        answer: Future[Any] = Future()
        Thread(target=_answer, args=(getattr(of, name), arguments, answer), daemon=True).start()
        seen: list[int] = []
        began = quiet_since = time.monotonic()
        while True:
            if wait([answer], limit_s / _LOOKS).done:
                return answer.result()
            steps = [each.steps for each in self._look(self._places, False)]
            if steps != seen:
                seen, quiet_since = steps, time.monotonic() if seen else began
            if time.monotonic() - quiet_since >= limit_s:
                why = self._why(name, time.monotonic() - began)
                if not answer.done():  # looking takes a while
                    raise TrainingError(why)

    def _why(self, name: str, waited_s: float) -> str:
        sights = self._look(self._places, True)
        with self._log.open("a") as log:
            for rank, (place, sight) in enumerate(zip(self._places, sights, strict=True)):
                log.write(f"\nrank {rank}, process {place.pid} on {place.host}, in {name}: {sight.state}\n")
                log.write(sight.stacks or "it writes no stacks\n")
        seen = [_state(name, sight) for sight in sights]
        ranks = (
            "; ".join(f"rank {rank} {state}" for rank, state in enumerate(seen)) or "no worker has started"
        )
        return (
            f"verl's workers have not answered {name} for {waited_s:.0f} s, and computed no micro-batch for "
            f"trainer_common.worker_timeout = {self._limit_s:g} s: {ranks}. Their stacks are in {self._log}. "
            "Raise worker_timeout if one takes that long; else start again when the cause is mended: "
            "training goes on from the last checkpoint"
        )


def _state(name: str, sight: Sight) -> str:
    if sight.steps < 0 or sight.state == psutil.STATUS_STOPPED:
        return f"is {sight.state}"
    return f"waits in {name}" if f" in {name}\n" in sight.stacks else "has nothing to do"


def _answer(method: Callable[..., Any], arguments: tuple[Any, ...], answer: Future[Any]) -> None:
    try:
        found = method(*arguments)
        answer.set_result(found.get() if type(found).__name__ == "DataProtoFuture" else found)
    except BaseException as error:  # noqa: BLE001  (it is raised where the answer is waited for)
        answer.set_exception(error)


class WatchedWorker:
    """The worker of this process. Nothing can end a call that hangs in it, so that it only writes its stacks,
    each time that the limit has gone by without a micro-batch."""

    def __init__(self, worker: Any, limit_s: float, log: IO[str]) -> None:
        self._worker = worker
        self._wait = lambda: faulthandler.dump_traceback_later(limit_s, repeat=True, file=log)
        worker.on_step = self._wait

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *arguments: self._watched(getattr(self._worker, name), arguments)

    def _watched(self, method: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        self._wait()
        try:
            return method(*arguments)
        finally:
            faulthandler.cancel_dump_traceback_later()
