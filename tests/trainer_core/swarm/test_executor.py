import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain

import pytest

from tests.trainer_core.processes import eventually
from trainer_core.swarm.executor import (
    PeriodicDrainThreadPoolExecutor,
    TaskCountLimitedThreadPoolExecutor,
    run_episodes_until_all_complete,
)
from trainer_core.types import Task


def test_results_come_together_and_a_slow_job_holds_nobody_up() -> None:
    slow = threading.Event()
    pool = PeriodicDrainThreadPoolExecutor[int](4)
    pool.submit_with_periodic_drain(fn=lambda: slow.wait() and -1)
    drained = [pool.submit_with_periodic_drain(lambda number: number, number)[1] for number in range(40)]
    assert not slow.is_set()
    together = [results for results in drained if results]
    assert len(together) > 5 and all(len(results) >= 4 for results in together)
    slow.set()
    rest = pool.drain()
    assert sorted([*chain(*together), *rest]) == [-1, *range(40)]
    with pytest.raises(RuntimeError):
        pool.submit_with_periodic_drain(lambda: 1)


def test_no_more_than_workers_are_queued_or_run() -> None:
    gate, began = threading.Event(), threading.Semaphore(0)
    running: list[int] = []

    def job(number: int) -> None:
        running.append(number)
        began.release()
        gate.wait()

    pool = PeriodicDrainThreadPoolExecutor[None](workers=5, max_parallel=2)
    submitted: list[int] = []

    def submit() -> None:
        for number in range(8):
            pool.submit_with_periodic_drain(job, number)
            submitted.append(number)

    submitting = threading.Thread(target=submit)
    submitting.start()
    eventually(lambda: len(submitted) == 5)
    assert began.acquire() and began.acquire()
    assert len(running) == 2 and submitting.is_alive()
    gate.set()
    submitting.join()
    pool.drain()
    assert sorted(running) == list(range(8))


def fails(times: int) -> Callable[[], str]:
    left = [times]

    def job() -> str:
        if left[0]:
            left[0] -= 1
            raise OSError(f"{left[0]} to go")
        return "done"

    return job


def test_a_job_that_fails_is_tried_again_a_few_times() -> None:
    pool = PeriodicDrainThreadPoolExecutor[str](2, retry_pause_s=0.0)
    well, _ = pool.submit_with_periodic_drain(fails(3))
    badly, _ = pool.submit_with_periodic_drain(fails(4))
    assert well.result() == "done"
    with pytest.raises(OSError, match="0 to go"):
        badly.result()
    assert pool.drain() == ["done"]
    once = PeriodicDrainThreadPoolExecutor[str](2, auto_retry=False)
    with pytest.raises(OSError):
        once.submit_with_periodic_drain(fails(1))[0].result()


def test_when_all_fail_who_submits_is_told() -> None:
    pool = PeriodicDrainThreadPoolExecutor[str](3, auto_retry=False)

    def submit_all() -> None:
        for _ in range(100):
            pool.submit_with_periodic_drain(fails(1))

    with pytest.raises(OSError, match="0 to go"):
        submit_all()
    assert pool.drain() == []


def test_the_first_job_can_be_waited_for() -> None:
    pool = PeriodicDrainThreadPoolExecutor[str](2, block_first_run=True, auto_retry=False)
    with pytest.raises(OSError):
        pool.submit_with_periodic_drain(fails(1))
    assert pool.submit_with_periodic_drain(fails(0))[0].result() == "done"


def test_shutdown_drops_what_is_queued_and_tries_nothing_again() -> None:
    began, gate = threading.Event(), threading.Event()

    def job() -> None:
        began.set()
        gate.wait()
        raise OSError("as the server is away")

    pool = PeriodicDrainThreadPoolExecutor[None](2, max_parallel=1, retry_pause_s=1000.0)
    first, _ = pool.submit_with_periodic_drain(job)
    queued, _ = pool.submit_with_periodic_drain(job)
    began.wait()
    pool.shutdown(wait=False)
    gate.set()
    with pytest.raises(OSError):
        first.result(5)
    assert queued.cancelled()


def test_a_task_is_begun_when_all_episodes_of_an_earlier_one_are_done() -> None:
    gates = {name: threading.Event() for name in "abc"}
    pool = TaskCountLimitedThreadPoolExecutor(max_parallel_groups=2, max_workers=8)

    def submit(name: str) -> list[Future[bool]]:
        return pool.submit_group(name, gates[name].wait, [{"timeout": 20.0}, {"timeout": 20.0}])

    running = [*submit("a"), *submit("b")]
    with ThreadPoolExecutor(1) as outside:
        third = outside.submit(submit, "c")
        assert not third.done()
        gates["b"].set()
        gates["c"].set()
        assert [future.result() for future in third.result(20)] == [True, True]
    assert not any(future.done() for future in running[:2])
    gates["a"].set()
    pool.on_entering_weight_sync()
    pool.shutdown()
    assert all(future.result() for future in running)


def test_a_task_that_is_not_begun_takes_no_place() -> None:
    pool = TaskCountLimitedThreadPoolExecutor(1, 2, auto_retry=False, block_first_run=True)
    assert pool.submit_group("empty", fails(0), []) == []
    with pytest.raises(OSError):
        pool.submit_group("first", fails(1), [{}])
    with pytest.raises(TypeError):
        pool.submit_group("no mapping", fails(0), [{}, None])  # type: ignore[list-item]
    assert [future.result() for future in pool.submit_group("well", fails(0), [{}, {}])] == ["done", "done"]
    pool.shutdown()
    for _ in range(2):
        with pytest.raises(RuntimeError):
            pool.submit_group("late", fails(0), [{}])


def test_all_episodes_are_played_and_told_in_order() -> None:
    tasks = [Task(str(number)) for number in range(20)]
    assert run_episodes_until_all_complete(tasks, lambda task: int(task.task_id)) == [*range(20)]
    assert run_episodes_until_all_complete([], func=lambda task: 1, max_workers=4) == []
    with pytest.raises(ZeroDivisionError):
        run_episodes_until_all_complete(tasks[:2], func=lambda task: 1 / 0, auto_retry=False)
