"""Threads that play episodes: a bounded number at a time, each tried again a few times where it fails."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, ParamSpec, TypeVar

from trainer_core.types import Task

_log = logging.getLogger(__name__)
_TRIES = 4
P = ParamSpec("P")
T = TypeVar("T")


class PeriodicDrainThreadPoolExecutor(Generic[T]):
    """Jobs are begun as soon as a thread is free, whatever the others do. Who submits waits while as many
    jobs as there may be are queued or run."""

    def __init__(
        self,
        workers: int,
        max_parallel: int | None = None,
        auto_retry: bool = True,
        block_first_run: bool = False,
        *,
        retry_pause_s: float = 1.0,
    ) -> None:
        """
        Args:
            workers: so many jobs are queued or run at most, and so many results are returned together.
            max_parallel: so many run at the same time; None: `workers`.
            auto_retry: try a job that raises up to three more times.
            block_first_run: wait for the first job, and raise what it raises.
            retry_pause_s: seconds before the second try; twice as many before each later one.
        """
        self._workers, self._tries = workers, _TRIES if auto_retry else 1
        self._pause_s, self._is_first = retry_pause_s, block_first_run
        self._pool = ThreadPoolExecutor(min(max_parallel or workers, workers))
        self._free = threading.Semaphore(workers)
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._results: list[T] = []
        self._errors: list[BaseException] = []
        """Of the jobs that failed since the last that did not."""
        self._told = ""

    def submit_with_periodic_drain(
        self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> tuple[Future[T], list[T]]:
        """Run `fn(*args, **kwargs)`. Return its future, and the results of earlier jobs once there are
        `workers` of them, in the order in which they were done; else no results. A job that fails for good
        has no result; its future tells why.

        Raises:
            Exception: what the last job raised, if `workers` of them in a row have failed for good.
        """
        future = self.submit(fn, *args, **kwargs)
        return future, self._take(self._workers)

    def submit(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """The same without results."""
        self._free.acquire()
        try:
            if len(self._errors) >= self._workers:
                raise self._errors[-1]
            future = self._pool.submit(self._try, lambda: fn(*args, **kwargs))
        except BaseException:
            self._free.release()
            raise
        future.add_done_callback(self._done)
        if self._is_first:
            self._is_first = False
            future.result()
        return future

    def drain(self) -> list[T]:
        """Wait for all jobs, and return the results that were not returned yet. No job can be submitted any
        more."""
        self._pool.shutdown()
        return self._take(0)

    def shutdown(self, wait: bool = True) -> None:
        """Begin no job any more: those that are queued are dropped, those that run are not tried again."""
        self._closing.set()
        self._pool.shutdown(wait=wait, cancel_futures=True)

    def _try(self, job: Callable[[], T]) -> T:
        for attempt in range(1, self._tries):
            try:
                return job()
            except Exception as error:
                pause = self._pause_s * 2.0 ** (attempt - 1) * random.uniform(0.5, 1.5)
                self._tell(error, f"tried again in {pause:.1f} s")
                if self._closing.wait(pause):
                    raise
        return job()

    def _done(self, future: Future[T]) -> None:
        if not future.cancelled():
            error = future.exception()
            if error is not None:
                self._tell(error, "given up")
            with self._lock:
                if error is None:
                    self._errors.clear()
                    self._results.append(future.result())
                else:
                    self._errors = [*self._errors, error][-self._workers :]
        self._free.release()

    def _tell(self, error: BaseException, then: str) -> None:
        """Log it, unless another job has just failed in the same way."""
        with self._lock:
            is_new, self._told = repr(error) != self._told, repr(error)
        if is_new:
            _log.warning("a job failed, and is %s", then, exc_info=error)

    def _take(self, least: int) -> list[T]:
        with self._lock:
            if len(self._results) < least:
                return []
            taken, self._results = self._results, []
            return taken


class TaskCountLimitedThreadPoolExecutor:
    """Plays all episodes of a task together; who submits waits while as many tasks as there may be are not
    done."""

    def __init__(
        self,
        max_parallel_groups: int,
        max_workers: int,
        auto_retry: bool = True,
        block_first_run: bool = False,
    ) -> None:
        """`max_parallel_groups`: so many tasks at most; the rest as in `PeriodicDrainThreadPoolExecutor`."""
        self._jobs = PeriodicDrainThreadPoolExecutor[Any](
            max_workers, auto_retry=auto_retry, block_first_run=block_first_run
        )
        self._free = threading.Semaphore(max_parallel_groups)

    def submit_group(
        self, task_id: str, fn: Callable[..., T], args_list: Sequence[Mapping[str, Any]]
    ) -> list[Future[T]]:
        """Run `fn(**args)` for each of the arguments; return the futures.

        Raises:
            Exception: what the last job raised, if `max_workers` of them in a row have failed for good.
        """
        self._free.acquire()
        futures: list[Future[T]] = []
        try:
            for args in args_list:
                futures.append(self._jobs.submit_with_periodic_drain(fn, **args)[0])
        finally:
            left = iter(range(len(futures), -1, -1))

            def done(_: Future[T] | None = None) -> None:
                if next(left) == 0:
                    self._free.release()

            for future in futures:
                future.add_done_callback(done)
            done()  # of the submitting itself
        return futures

    def on_entering_weight_sync(self) -> None:
        """Of AgentJet's examples; there is nothing to do."""

    def shutdown(self, wait: bool = True) -> None:
        """See `PeriodicDrainThreadPoolExecutor.shutdown`."""
        self._jobs.shutdown(wait)


def run_episodes_until_all_complete(
    tasks: Sequence[Task], func: Callable[[Task], T], max_workers: int | None = None, auto_retry: bool = True
) -> list[T]:
    """What `func` returns for each task, in their order.

    Raises:
        Exception: what it raised, where it failed for good.
    """
    pool = PeriodicDrainThreadPoolExecutor[T](max(1, len(tasks)), max_workers, auto_retry)
    futures = [pool.submit(func, task) for task in tasks]
    pool.drain()
    return [future.result() for future in futures]
