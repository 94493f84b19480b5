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
from statistics import fmean
from typing import Any

import httpx

from trainer_core.gateway.recording import OtherModel
from trainer_core.swarm.proxy_reward import ProxyAnswer, Reward
from trainer_core.swarm.proxy_stream import text_of
from trainer_core.swarm.states import State
from trainer_core.types import TrainingError

_log = logging.getLogger(__name__)
_POLL_S = 10.0
_PLACE_S = 1.0
"""How long a group that has an episode waits for its others: a batch that is complete waits for the group."""
_ANSWERS_S = 30.0
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


@dataclass(frozen=True)
class ProxyEpisode:
    """An episode that is this proxy's."""

    uuid: str
    base_url: str
    api_key: str


class SwarmCalls:
    """What the proxy asks of a swarm server."""

    def __init__(self, http: httpx.AsyncClient, url: str, token: str | None, settings: ProxySettings) -> None:
        self.http, self._url = http, url.rstrip("/")
        self._idle_s = 2 * settings.max_seconds + _ANSWERS_S
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._me = f"proxy-{uuid.uuid4()}"

    async def begin_episode(self, kind: str, wait_s: float) -> ProxyEpisode | None:
        """None: there is none to be had."""
        ask = {"episode_type": kind, "discard_episode_timeout": self._idle_s, "wait_s": wait_s}
        given = await self._post("claim_episode", ask, wait_s)
        if not given["success"]:
            return None
        return ProxyEpisode(given["episode_uuid"], given["openai_base_url"], given["openai_api_key"])

    async def end_episode(self, episode: ProxyEpisode, task_id: str, reward: float) -> None:
        output = {"reward": reward, "metadata": {"task_id": task_id}}
        report = {"episode_uuid": episode.uuid, "task_id": task_id, "workflow_output": output}
        await self._post("end_episode", report)

    async def abort_episode(self, episode: ProxyEpisode) -> None:
        await self._post("abort_episode", {"episode_uuid": episode.uuid})

    async def is_offline(self) -> bool:
        """False also where the server does not say."""
        with suppress(httpx.HTTPError):
            answer = await self.get("/get_engine_status")
            return bool(answer.raise_for_status().json()["engine_status"] == State.OFFLINE)
        return False

    async def get(self, path: str) -> httpx.Response:
        return await self.http.get(self._url + path, headers=self._headers)

    async def _post(self, path: str, body: Mapping[str, Any], wait_s: float = 0.0) -> dict[str, Any]:
        """
        Raises:
            httpx.HTTPError: no answer, or a refusal.
        """
        sent, timeout = {"client_uuid": self._me, **body}, wait_s + _ANSWERS_S
        url = f"{self._url}/{path}"
        answer = await self.http.post(url, json=sent, headers=self._headers, timeout=timeout)
        if answer.is_error:
            message = f"{path}: {answer.status_code} {answer.text:.300}"
            raise httpx.HTTPStatusError(message, request=answer.request, response=answer)
        found: dict[str, Any] = answer.json()
        return found


class Groups:
    """Has groups of episodes answer requests, and trains on their rewards."""

    def __init__(
        self, swarm: SwarmCalls, reward: Reward, settings: ProxySettings, counts: Counter[str]
    ) -> None:
        self._swarm, self._reward, self._settings, self._counts = swarm, reward, settings, counts
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

    async def begin(self, kind: str, count: int) -> list[ProxyEpisode]:
        """One to `count` episodes. Requests for them are never broken off: one that is on its way to us
        would be held by nobody.

        Raises:
            NoAnswerError: none in `wait_seconds`.
        """
        until = time.monotonic() + self._settings.wait_seconds
        begun = await self._claim(kind, count, 0.0)
        while not begun:
            if await self._swarm.is_offline():
                raise NoAnswerError("no training runs on the swarm server")
            wait_s = min(_POLL_S, until - time.monotonic())
            if wait_s <= 0:
                waited = f"{self._settings.wait_seconds:g} s"
                raise NoAnswerError(f"the swarm server had no episode within {waited}")
            begun = await self._claim(kind, 1, wait_s)
        with suppress(NoAnswerError):
            begun += await self._claim(kind, count - len(begun), _PLACE_S)
        return begun

    async def _claim(self, kind: str, count: int, wait_s: float) -> list[ProxyEpisode]:
        """As many as there are."""
        asking = (self._swarm.begin_episode(kind, wait_s) for _ in range(count))
        found = await asyncio.gather(*asking, return_exceptions=True)
        errors = [each for each in found if isinstance(each, BaseException)]
        if errors and len(errors) == len(found):
            raise NoAnswerError(told(errors[0])) from errors[0]
        return [each for each in found if isinstance(each, ProxyEpisode)]

    async def _ask_all(
        self, episodes: Sequence[ProxyEpisode], path: str, body: Mapping[str, Any]
    ) -> list[tuple[ProxyEpisode, httpx.Response | None]]:
        """What each episode answers within `max_seconds`."""
        asked = {name: body[name] for name in body if name not in ("model", "stream", "stream_options")}
        asking = [
            asyncio.create_task(self._swarm.http.post(**request_of(each, path, asked))) for each in episodes
        ]
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

    async def _end(self, episodes: Sequence[ProxyEpisode], rewards: Sequence[float]) -> None:
        """Tell the training. What it does not take is given back, for a batch waits for all that is begun."""
        task_id = f"request-{uuid.uuid4()}"
        ending = map(self._end_one, episodes, rewards, [task_id] * len(rewards))
        ended = await asyncio.gather(*ending, return_exceptions=True)
        failed = [error for error in ended if error is not None]
        if failed:
            _log.warning("%d of %d rewards were not taken: %s", len(failed), len(ended), told(failed[0]))
            pairs = zip(episodes, ended, strict=True)
            await self.abort([each for each, error in pairs if error is not None])
        self._counts["rewards_not_taken"] += len(failed)
        self._counts["episodes_trained"] += len(ended) - len(failed)
        if len(failed) < len(ended):
            self._counts["trained"] += 1
            self.means.append(fmean(rewards))

    async def _end_one(self, episode: ProxyEpisode, reward: float, task_id: str) -> None:
        try:
            await self._swarm.end_episode(episode, task_id, reward)
        except httpx.HTTPError:  # sent again, it counts once
            await self._swarm.end_episode(episode, task_id, reward)

    async def abort(self, episodes: Sequence[ProxyEpisode]) -> None:
        """Give them back."""
        aborting = map(self._swarm.abort_episode, episodes)
        for error in await asyncio.gather(*aborting, return_exceptions=True):
            if error is not None:
                _log.warning("an episode could not be given back: %s", told(error))


def request_of(episode: ProxyEpisode, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
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
