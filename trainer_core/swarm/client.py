"""The client of a swarm server. `AsyncSwarmClient` is the same for an event loop.

client = SwarmClient("http://localhost:10086")
client.auto_sync_train_config_and_start_engine(AgentJetJob(model="tiny", batch_size=4))
with client.episode(task) as episode:
    episode.finish(reward=play(task, episode.base_url, episode.api_key))
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import wraps
from threading import Thread
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from trainer_core.swarm.async_client import AsyncSwarmClient
from trainer_core.swarm.episode import Episode

if TYPE_CHECKING:
    from trainer_core.swarm.job import AgentJetJob

P = ParamSpec("P")
T = TypeVar("T")


class _NeverSuspended(AsyncSwarmClient):
    """Its coroutines are done at their first step, because what they would wait for blocks."""

    _blocks = True


def _blocking(
    method: Callable[Concatenate[AsyncSwarmClient, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SwarmClient, P], T]:
    @wraps(method)
    def blocks(self: SwarmClient, *args: P.args, **kwargs: P.kwargs) -> T:
        return _run(method(self._client, *args, **kwargs))

    return blocks


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        coroutine.send(None)
    except StopIteration as end:
        found: T = end.value
        return found
    raise RuntimeError("a coroutine that never waits was suspended")


class SwarmClient:
    """Blocks; threads may share it. See `AsyncSwarmClient`, which has the same arguments and methods."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._client = _NeverSuspended(*args, **kwargs)
        self.server_url, self.client_uuid = self._client.server_url, self._client.client_uuid

    get_engine_status = _blocking(AsyncSwarmClient.get_engine_status)
    get_global_step = _blocking(AsyncSwarmClient.get_global_step)
    sync_train_config = _blocking(AsyncSwarmClient.sync_train_config)
    sync_train_code = sync_train_code_from_dir = _blocking(AsyncSwarmClient.sync_train_code)
    start_engine = _blocking(AsyncSwarmClient.start_engine)
    stop_engine = _blocking(AsyncSwarmClient.stop_engine)
    auto_sync_train_config_and_start_engine = _blocking(
        AsyncSwarmClient.auto_sync_train_config_and_start_engine
    )
    wait_for_step = _blocking(AsyncSwarmClient.wait_for_step)
    wait_for_status = _blocking(AsyncSwarmClient.wait_for_status)
    _wait_until_status_change_to = wait_for_status
    """AgentJet's own examples call it so."""
    agree_sync_weight = _blocking(AsyncSwarmClient.agree_sync_weight)
    server_experiment_dir = _blocking(AsyncSwarmClient.server_experiment_dir)
    begin_episode = _blocking(AsyncSwarmClient.begin_episode)
    end_episode = _blocking(AsyncSwarmClient.end_episode)
    abort_episode = _blocking(AsyncSwarmClient.abort_episode)
    can_continue_episode = _blocking(AsyncSwarmClient.can_continue_episode)
    get_episode_buffer = _blocking(AsyncSwarmClient.get_episode_buffer)
    get_rollout_stat = _blocking(AsyncSwarmClient.get_rollout_stat)
    print_rollout_stat = _blocking(AsyncSwarmClient.print_rollout_stat)
    close = _blocking(AsyncSwarmClient.close)

    def add_entering_weight_sync_callback(self, callback: Callable[[], object]) -> None:
        """Call it each time the training begins to learn from a batch, in a thread of its own."""

        @wraps(callback)
        def call() -> None:
            if asyncio.iscoroutine(called := callback()):
                asyncio.run(called)

        watching = self._client.call_at_weight_sync(call)
        Thread(target=_run, args=(watching,), daemon=True, name="weight-sync").start()

    @contextmanager
    def episode(self, task: Any, **claim: Any) -> Iterator[Episode]:
        """An episode at a task, claimed as by `begin_episode(**claim)`. It is reported when the block ends,
        and aborted where that fails or `finish` was not called.

        Raises:
            EpisodeLostError: it was lost before the block ended; its reward is not used.
            SwarmServerOfflineError: there is no training, or it has ended meanwhile.
            Exception: what the block raised, where neither is so.
        """
        episode = _run(self._client.begin(task, claim))
        try:
            yield episode
            _run(self._client.end(episode))
        except Exception as error:
            raise _run(self._client.cause_of(error, episode)) from error
        finally:
            if not episode.answer:
                self.abort_episode(episode.uuid)

    @staticmethod
    def async_and_start_multi_engine(
        client_job_pairs: Sequence[tuple[SwarmClient, AgentJetJob]], force_restart: bool = False
    ) -> None:
        """`auto_sync_train_config_and_start_engine` of several servers at the same time.

        Raises:
            SwarmError: of the first that failed, once all have been tried.
        """
        with ThreadPoolExecutor(max(1, len(client_job_pairs))) as pool:
            starting = [
                pool.submit(client.auto_sync_train_config_and_start_engine, job, force_restart)
                for client, job in client_job_pairs
            ]
        for each in starting:
            each.result()


@contextmanager
def several(clients: Sequence[SwarmClient], task: Any, **claim: Any) -> Iterator[list[Episode]]:
    """One rollout over several servers: an episode of each, begun in this order. If one cannot be begun or
    reported, or is not finished, or the block fails, those that are not reported yet are aborted.

    Raises:
        SwarmError: one cannot be begun or reported.
    """
    with ExitStack() as stack:
        episodes = [stack.enter_context(client.episode(task, **claim)) for client in clients]
        yield episodes
        if any(episode.output is None for episode in episodes):
            for episode in episodes:
                episode.output = None
