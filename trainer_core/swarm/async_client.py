"""A client of a swarm server, for an event loop; `client.py` has the one that blocks.

It waits in the server, which answers when there is something, and while it is away or busy for a minute.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from trainer_core.swarm.connection import PATIENCE_S, SHORT_PATIENCE_S
from trainer_core.swarm.engine_client import POLL_S, EngineClient, offline
from trainer_core.swarm.episode import Episode, OpenaiBaseUrlAndApiKey, report
from trainer_core.swarm.errors import SwarmError, error_of
from trainer_core.swarm.states import State

_BREATH_S = 0.2
_LIFETIMES = 2.0
"""An episode is given up after so many times its `discard_episode_timeout`."""
_MOST_CLAIMED = 100_000


class AsyncSwarmClient(EngineClient):
    """Of one event loop. Methods raise a `SwarmError` (`errors.py`) where something goes wrong; any of them
    SwarmServerOfflineError (code `cannot_connect`)."""

    async def begin_episode(
        self, discard_episode_timeout: float = 240, episode_type: str = "train", throttle_policy: Any = None
    ) -> tuple[str, OpenaiBaseUrlAndApiKey]:
        """Wait for an episode, and claim it.

        Args:
            discard_episode_timeout: seconds without a call of the model after which the server takes it away.
            episode_type: `train`, or `eval`: nothing is learned from it.
            throttle_policy: the share of this client in a batch, with the fields of `SwarmThrottlePolicy`.

        Raises:
            SwarmServerOfflineError: there is no training.
        """
        is_plain = throttle_policy is None or isinstance(throttle_policy, Mapping)
        policy = throttle_policy if is_plain else throttle_policy.model_dump()
        claim = (discard_episode_timeout, episode_type, policy)
        while (begun := await self.try_begin_episode(*claim, wait_s=POLL_S)) is None:
            status = await self._status()
            if status["engine_status"] == State.OFFLINE:
                raise offline(status)
            await self._to.sleep(_BREATH_S)
        return begun

    async def try_begin_episode(
        self,
        discard_episode_timeout: float = 240,
        episode_type: str = "train",
        throttle_policy: Mapping[str, Any] | None = None,
        *,
        wait_s: float = 0.0,
        patience_s: float = PATIENCE_S,
    ) -> tuple[str, OpenaiBaseUrlAndApiKey] | None:
        """Claim an episode, or None if there is none within `wait_s`.

        Args:
            patience_s: for how long a server that is away or busy is asked again.
        """
        claim = {
            "episode_type": episode_type,
            "discard_episode_timeout": discard_episode_timeout,
            "throttle_policy": throttle_policy,
            "wait_s": wait_s,
        }
        given = await self._to.ask("POST", "/claim_episode", claim, wait_s=wait_s, patience_s=patience_s)
        if not given["success"]:
            return None
        name, url = given["episode_uuid"], self.server_url + urlsplit(given["openai_base_url"]).path
        if len(self._given_up_at) > _MOST_CLAIMED:  # of a program that neither ends nor aborts them
            self._given_up_at.clear()
        self._given_up_at[name] = time.monotonic() + _LIFETIMES * discard_episode_timeout
        return name, OpenaiBaseUrlAndApiKey(url, given["openai_api_key"], name)

    async def end_episode(
        self, task: Any, episode_uuid: str, workflow_output: Any, declare_client_active: bool = True
    ) -> dict[str, Any]:
        """Report what came of an episode; return what the server says: `weight_version`, `recorded_calls`.
        One that is older than 2 x `discard_episode_timeout` is aborted instead, which is only logged.

        Args:
            task: what has `task_id`, `main_query` and `metadata`; or a bare task_id.
            workflow_output: what has `reward`, `is_success`, `metadata` and `log_metrics`.
            declare_client_active: False: this client need not agree where all active clients have to.

        Raises:
            EpisodeLostError: the server has taken it away; the reward is not used.
            SwarmRefusedError: the report cannot be used, such as one without task_id or reward.
        """
        try:
            return await self._report(task, episode_uuid, workflow_output, declare_client_active)
        except SwarmError as error:
            if error.code != "too_late":
                raise
            self._to.say(f"warning: {error}")
            return {"success": False, "code": error.code}

    async def abort_episode(self, episode_uuid: str) -> None:
        """Give an episode back; nothing is learned from it. It is no error that it is lost already, or that
        no server answers for 5 seconds: it takes the episode away by itself."""
        self._given_up_at.pop(episode_uuid, None)
        body = {"episode_uuid": episode_uuid, "workflow_output": {}, "task_id": ""}
        try:
            await self._to.ask("POST", "/abort_episode", body, patience_s=SHORT_PATIENCE_S)
        except SwarmError as error:
            self._to.say(f"warning: episode {episode_uuid} could not be aborted: {error}")

    async def can_continue_episode(self, episode_uuid: str) -> bool:
        """False if an episode is lost: it should be aborted."""
        if self._is_too_old(episode_uuid):
            return False
        return bool(
            (await self._to.ask("POST", "/can_continue_episode", {"episode_uuid": episode_uuid}))[
                "can_continue"
            ]
        )

    async def get_episode_buffer(self) -> list[dict[str, Any]]:
        """All episodes that are claimed, by whomever."""
        return list((await self._to.ask("POST", "/get_episode_buffer"))["buffer"])

    async def get_rollout_stat(self) -> dict[str, Any]:
        """How far the current batch is."""
        return await self._to.ask("GET", "/get_current_batch_rollout_pool_information")

    async def print_rollout_stat(self) -> None:
        """Print it in a line."""
        stat = await self.get_rollout_stat()
        counts = ", ".join(
            f"{what} {stat[f'completed_{what}s']}/{stat[f'completed_{what}_target']}"
            for what in ("episode", "task", "non_dummy_task")
        )
        running = len(stat["running_episode_details"] or ())
        print(f"[swarm] step {stat['global_step']}, {stat['engine_status']}: {counts}; {running} running")

    @asynccontextmanager
    async def episode(self, task: Any, **claim: Any) -> AsyncIterator[Episode]:
        """See `SwarmClient.episode`."""
        episode = await self.begin(task, claim)
        try:
            yield episode
            await self.end(episode)
        except Exception as error:
            raise await self.cause_of(error, episode) from error
        finally:
            if not episode.answer:
                await self.abort_episode(episode.uuid)

    async def close(self) -> None:
        """Let go of the connections."""
        await self._to.close()

    async def begin(self, task: Any, claim: Mapping[str, Any]) -> Episode:
        """Claim an episode as by `begin_episode(**claim)`."""
        name, endpoint = await self.begin_episode(**claim)
        return Episode(task, endpoint.base_url, endpoint.api_key, name)

    async def cause_of(self, error: Exception, episode: Episode) -> Exception:
        """What failed: the episode was lost, or the training has ended, and so its calls were refused; else
        `error` itself."""
        if isinstance(error, SwarmError):
            return error
        try:
            if (status := await self._status())["engine_status"] == State.OFFLINE:
                return offline(status)
            if not await self.can_continue_episode(episode.uuid):
                return error_of("not_claimed", f"episode {episode.uuid} was lost while it ran: {error}")
        except SwarmError as away:
            return away
        return error

    async def end(self, episode: Episode) -> None:
        """Report it, if it is finished."""
        if episode.output is not None:
            episode.answer = await self._report(episode.task, episode.uuid, episode.output)

    async def _report(self, task: Any, name: str, output: Any, is_active: bool = True) -> dict[str, Any]:
        body = {"episode_uuid": name, "declare_client_active": is_active, **report(task, output)}
        if self._is_too_old(name):
            await self.abort_episode(name)
            why = (
                f"is older than {_LIFETIMES:g} x discard_episode_timeout, and was aborted; give it more time"
            )
            raise error_of("too_late", f"episode {name} {why}")
        answer = await self._to.ask("POST", "/end_episode", body)
        self._given_up_at.pop(name, None)
        if "warning" in answer:
            self._to.say(f"warning: episode {name}: {answer['warning']}")
        return answer

    def _is_too_old(self, name: str) -> bool:
        return self._given_up_at.get(name, math.inf) < time.monotonic()


@asynccontextmanager
async def several(
    clients: Sequence[AsyncSwarmClient], task: Any, **claim: Any
) -> AsyncIterator[list[Episode]]:
    """See `several` of `client.py`."""
    async with AsyncExitStack() as stack:
        episodes = [await stack.enter_async_context(client.episode(task, **claim)) for client in clients]
        yield episodes
        if any(episode.output is None for episode in episodes):
            for episode in episodes:
                episode.output = None
