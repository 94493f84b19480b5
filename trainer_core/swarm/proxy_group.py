"""The groups of episodes that answer requests: begun, asked the same, compared, ended."""

from __future__ import annotations

import asyncio
import logging
import os
import time
import uuid
from collections import Counter, deque
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

import httpx

from trainer_core.gateway.recording import OtherModel
from trainer_core.swarm.async_client import AsyncSwarmClient
from trainer_core.swarm.episode import OpenaiBaseUrlAndApiKey
from trainer_core.swarm.errors import SwarmError
from trainer_core.swarm.proxy_reward import ProxyAnswer, Reward
from trainer_core.swarm.proxy_stream import text_of
from trainer_core.swarm.states import State
from trainer_core.types import TrainingError
from trainer_core.workflow.workflow import WorkflowOutput

_log = logging.getLogger(__name__)
_POLL_S = 10.0
_PLACE_S = 1.0
"""How long a group that has an episode waits for its others: a batch that is complete waits for the group."""
_ENDS_S = 30.0
"""What reporting a group may take."""
_KEPT = 1_000


@dataclass(frozen=True)
class ProxySettings:
    """How requests are answered."""

    num_repeat: int = 8
    """Answers to a request that is trained on."""
    sample_every: int = 1
    """One request in so many is trained on, the first, and the others are answered once."""
    max_seconds: float = 120.0
    """After which the answers that are there are compared; and as long may comparing take."""
    wait_seconds: float = 60.0
    """How long a request waits for an episode, while the weights change or the model is loaded."""
    fallback: OtherModel | None = None
    """Answers where the swarm server cannot."""


def fallback_of(base_url: str | None, key_env: str | None, model: str) -> OtherModel | None:
    """The model that answers where the swarm server cannot; None: none.

    Raises:
        TrainingError: it has no name, or its key is not set.
    """
    if base_url is None:
        return None
    if not model:
        raise TrainingError("--fallback-base-url needs --fallback-model, the name to ask it for")
    if key_env is not None and key_env not in os.environ:
        raise TrainingError(f"--fallback-api-key-env: {key_env} is not set; export it, or name another")
    return OtherModel(base_url, os.environ[key_env] if key_env else "none", model)


class NoAnswerError(Exception):
    """The swarm server gives none now."""


class Groups:
    """Has groups of episodes answer requests, and trains on their rewards."""

    def __init__(
        self,
        swarm: AsyncSwarmClient,
        http: httpx.AsyncClient,
        reward: Reward,
        settings: ProxySettings,
        counts: Counter[str],
    ) -> None:
        """
        Args:
            http: asks the episodes.
        """
        self._swarm, self._http, self._reward, self._settings = swarm, http, reward, settings
        self._counts = counts
        self.means: deque[float] = deque(maxlen=_KEPT)
        """The mean reward of each group, of the last ones."""
        self._background: set[asyncio.Task[Any]] = set()

    async def close(self) -> None:
        """Wait for what is on its way."""
        while self._background:
            await asyncio.gather(*self._background, return_exceptions=True)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Do something that no request waits for."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # its user may be gone
        return task

    async def play(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        """The best of a group's answers. Its rewards are on their way to the training.

        Raises:
            NoAnswerError: there is none.
        """
        left = episodes = await self.begin("train", self._settings.num_repeat)
        try:
            replies = await self._ask_all(episodes, path, body)
            whole = [(each, reply) for each, reply in replies if reply is not None and reply.is_success]
            if not whole:
                return _failure([reply for _, reply in replies])
            best = whole[0][1]
            rewards = await self._compared(path, body, [reply for _, reply in whole])
            if rewards is not None:
                best = whole[rewards.index(max(rewards))][1]
                trained = [each for each, _ in whole]
                left = [each for each in episodes if each not in trained]
                self.spawn(self._end(trained, rewards))
            return best
        finally:
            self.spawn(self.abort(left))

    async def begin(self, kind: str, count: int) -> list[OpenaiBaseUrlAndApiKey]:
        """One to `count` episodes. Requests for them are never broken off: one that is on its way to us
        would be held by nobody.

        Raises:
            NoAnswerError: none in `wait_seconds`.
        """
        until = time.monotonic() + self._settings.wait_seconds
        begun = await self._claim(kind, count, 0.0)
        while not begun:
            if await self._is_offline():
                raise NoAnswerError("no training runs on the swarm server")
            wait_s = min(_POLL_S, until - time.monotonic())
            if wait_s <= 0:
                waited = f"{self._settings.wait_seconds:g} s"
                raise NoAnswerError(f"the swarm server had no episode within {waited}")
            begun = await self._claim(kind, 1, wait_s)
        try:
            with suppress(NoAnswerError):
                begun += await self._claim(kind, count - len(begun), _PLACE_S)
        except asyncio.CancelledError:  # the proxy ends
            self.spawn(self.abort(begun))
            raise
        return begun

    async def _is_offline(self) -> bool:
        """False also where the server does not say."""
        with suppress(SwarmError, KeyError):
            return (await self._swarm.get_engine_status())[0] == State.OFFLINE
        return False

    async def _claim(self, kind: str, count: int, wait_s: float) -> list[OpenaiBaseUrlAndApiKey]:
        """As many as there are. They are this proxy's for as long as asking and comparing may take."""
        held_s = 2 * self._settings.max_seconds + _ENDS_S
        begin = partial(self._swarm.try_begin_episode, held_s, kind, wait_s=wait_s, patience_s=0.0)
        found = await asyncio.gather(*(begin() for _ in range(count)), return_exceptions=True)
        errors = [each for each in found if isinstance(each, BaseException)]
        if errors and len(errors) == len(found):
            raise NoAnswerError(told(errors[0])) from errors[0]
        return [each[1] for each in found if isinstance(each, tuple)]

    async def _ask_all(
        self, episodes: Sequence[OpenaiBaseUrlAndApiKey], path: str, body: Mapping[str, Any]
    ) -> list[tuple[OpenaiBaseUrlAndApiKey, httpx.Response | None]]:
        """What each episode answers within `max_seconds`."""
        asked = {name: body[name] for name in body if name not in ("model", "stream", "stream_options")}
        asking = [asyncio.create_task(self._http.post(**request_of(each, path, asked))) for each in episodes]
        try:
            await asyncio.wait(asking, timeout=self._settings.max_seconds)
        finally:
            for task in asking:
                task.cancel()
        replies = await asyncio.gather(*asking, return_exceptions=True)
        answered = [each if isinstance(each, httpx.Response) else None for each in replies]
        failed = [each for each in replies if not isinstance(each, httpx.Response) or each.is_error]
        if failed:
            self._counts["failed_answers"] += len(failed)
            _log.warning("%d of %d answers failed: %s", len(failed), len(replies), _failed(failed[0]))
        return list(zip(episodes, answered, strict=True))

    async def _compared(
        self, path: str, body: Mapping[str, Any], replies: Sequence[httpx.Response]
    ) -> list[float] | None:
        """A reward for each; None: these answers are not trained on."""
        if len(replies) == 1 < self._settings.num_repeat:
            self._counts["lone_answers"] += 1  # its reward would be its advantage, whatever it is
            return None
        try:
            bodies = [reply.json() for reply in replies]
            answers = [ProxyAnswer(text_of(path, each), each) for each in bodies]
            async with asyncio.timeout(self._settings.max_seconds):
                return await self._reward(body, answers)
        except Exception as error:  # noqa: BLE001 - code of the user's, and none of his users' business
            self._counts["judge_failures"] += 1
            _log.warning("a group is not trained on, for its reward failed: %s", told(error))
            return None

    async def _end(self, episodes: Sequence[OpenaiBaseUrlAndApiKey], rewards: Sequence[float]) -> None:
        """Tell the training. What it does not take is given back, for a batch waits for all that is begun."""
        task_id = f"request-{uuid.uuid4()}"
        ending = (
            self._swarm.end_episode(task_id, each.episode_uuid, WorkflowOutput(reward))
            for each, reward in zip(episodes, rewards, strict=True)
        )
        ended = await asyncio.gather(*ending, return_exceptions=True)
        pairs = zip(episodes, ended, strict=True)
        failed = [(each, error) for each, error in pairs if isinstance(error, BaseException)]
        if failed:
            _log.warning("%d of %d rewards were not taken: %s", len(failed), len(ended), told(failed[0][1]))
            await self.abort([each for each, _ in failed])
        self._counts["rewards_not_taken"] += len(failed)
        self._counts["episodes_trained"] += len(ended) - len(failed)
        if len(failed) < len(ended):
            self._counts["trained"] += 1
            self.means.append(fmean(rewards))

    async def abort(self, episodes: Sequence[OpenaiBaseUrlAndApiKey]) -> None:
        """Give them back."""
        await asyncio.gather(*(self._swarm.abort_episode(each.episode_uuid) for each in episodes))


def request_of(episode: OpenaiBaseUrlAndApiKey, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of httpx that ask an episode."""
    headers = {"authorization": f"Bearer {episode.api_key}"}
    return {"url": episode.base_url + path.removeprefix("/v1"), "json": body, "headers": headers}


def is_temporary(reply: httpx.Response) -> bool:
    """True if the request is not to blame."""
    return reply.is_server_error or reply.status_code in (401, 429)


def _failure(replies: Sequence[httpx.Response | None]) -> httpx.Response:
    """The answer to a request that is to blame itself, too long for the model for example.

    Raises:
        NoAnswerError: it is not.
    """
    blamed = [reply for reply in replies if reply is not None and not is_temporary(reply)]
    if not blamed:
        seen = sorted({"no answer in time" if each is None else str(each.status_code) for each in replies})
        raise NoAnswerError(f"every episode failed ({', '.join(seen)})")
    return blamed[0]


def _failed(reply: httpx.Response | BaseException) -> str:
    if isinstance(reply, BaseException):
        return told(reply)
    return f"{reply.status_code} {reply.text:.300}"


def told(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {error}"
