"""Episodes between clients and the training: who waits for one gets it, what ends is written down first."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from statistics import fmean
from typing import Any

import httpx
import orjson

from trainer_core.gateway.exchange import ClientGoneError, Exchange
from trainer_core.swarm import ledger as rows
from trainer_core.swarm.book import Book, Claimed, RefusedError
from trainer_core.swarm.engine import Engine
from trainer_core.swarm.ledger import Finished, Ledger
from trainer_core.swarm.states import State
from trainer_core.swarm.wire import Claim, Ended

_MOST_WAITING = 4_096


class Episodes:
    """Gives them out and takes their ends."""

    def __init__(self, book: Book, ledger: Ledger, engine: Engine, changed: Callable[[], None]) -> None:
        """`changed`: told when something may have become possible."""
        self.book = book
        self._ledger, self._engine, self._changed = ledger, engine, changed
        self._waiting: dict[asyncio.Future[Claimed | None], Claim] = {}
        self._ending: dict[tuple[str, ...], asyncio.Task[Mapping[str, Any]]] = {}
        self._dropping: set[asyncio.Task[None]] = set()

    async def claim(self, ask: Claim, exchange: Exchange) -> Claimed | None:
        """An episode for a client, who waits for it as long as he likes; None: there was none.

        Raises:
            RefusedError: too many wait already.
        """
        self.give()  # who waits still has his share, or there is no place
        if self.book.why_not(ask) is None:
            return self.book.claim(ask)
        if not ask.wait_s or self.book.state is State.OFFLINE:
            return None
        if len(self._waiting) >= _MOST_WAITING:
            message = f"{_MOST_WAITING} requests wait for an episode already"
            raise RefusedError(429, "too_many_waiting", message)
        claimed = await self._wait(ask, exchange)
        return claimed if claimed is not None and claimed.uuid in self.book.claims else None

    async def _wait(self, ask: Claim, exchange: Exchange) -> Claimed | None:
        given: asyncio.Future[Claimed | None] = asyncio.get_running_loop().create_future()
        self._waiting[given] = ask
        try:
            claimed: Claimed | None = await exchange.unless_gone(asyncio.wait_for(given, ask.wait_s))
            return claimed
        except TimeoutError:  # since Python 3.12 also where it was given in the same turn of the loop
            return given.result() if given.done() and not given.cancelled() else None
        except ClientGoneError:
            if given.done() and not given.cancelled() and (claimed := given.result()) is not None:
                self.book.abort(claimed)  # it was given, and nobody took it
                self._changed()
            raise
        finally:
            self._waiting.pop(given, None)

    def give(self) -> None:
        """Give episodes to who waits, in their order, as far as each may have one; none, where there will be
        none."""
        is_over = self.book.state is State.OFFLINE
        if not is_over and self.book.state is not State.ROLLING:
            return
        for given, ask in list(self._waiting.items()):
            if not is_over and len(self.book.claims) >= self.book.rules.most_open:
                return
            if given.done() or not (is_over or self.book.why_not(ask) is None):
                continue
            given.set_result(None if is_over else self.book.claim(ask))

    async def end(self, ended: Ended) -> Mapping[str, Any]:
        """Write an end down, then say so. Sent again, it is answered again.

        Raises:
            RefusedError: the episode is not the client's, or the report cannot be used or kept.
        """
        name = ended.episode_uuid, ended.client_uuid, _digest(ended)
        if (under_way := self._ending.get(name)) is None:
            under_way = self._ending[name] = asyncio.create_task(self._end(ended, name[-1]))
            under_way.add_done_callback(lambda _: self._ending.pop(name, None))
        return await asyncio.shield(under_way)

    async def _end(self, ended: Ended, digest: str) -> Mapping[str, Any]:
        if ended.episode_uuid not in self.book.claims:
            before = await self._ledger.do(rows.known(ended.episode_uuid))
            if before is not None and before.client == ended.client_uuid:
                if before.digest != digest:
                    message = f"episode {before.uuid} was ended already, with another report"
                    raise RefusedError(409, "ended_otherwise", message)
                return _taken(before)
        self.book.expired()  # also what nobody has looked for yet
        claimed = self.book.held(ended.episode_uuid, ended.client_uuid)
        self.book.may_end()
        if claimed.ending is not None:
            raise RefusedError(409, "ended_otherwise", f"episode {claimed.uuid} is being ended already")
        task_id, reward = _checked(ended)
        claimed.ending, claimed.task_id = digest, task_id
        try:
            if claimed.payload is None:
                claimed.payload, claimed.recorded = await self._recorded(claimed, ended, task_id, reward)
            finished = Finished(
                claimed.uuid,
                self._engine.run,
                claimed.kind,
                claimed.client,
                task_id,
                reward,
                claimed.version,
                claimed.recorded,
                digest,
                payload=claimed.payload,
            )
            if claimed.uuid not in self.book.claims:  # the training has died meanwhile
                self.book.held(claimed.uuid, claimed.client)
            await self._ledger.do(rows.add(finished))
        except sqlite3.Error as error:
            message = f"the reward could not be written down ({error}); send it again"
            raise RefusedError(507, "not_durable", message) from error
        except httpx.HTTPError as error:
            message = f"the training does not answer ({error}); send it again, or begin another episode"
            raise RefusedError(503, "no_training", message) from error
        finally:
            claimed.ending = None
        self.book.end(claimed, finished, is_active=ended.declare_client_active)
        self._changed()
        return _taken(finished)

    async def _recorded(
        self, claimed: Claimed, ended: Ended, task_id: str, reward: float
    ) -> tuple[bytes, int]:
        """What the training has of an episode, as `unpack` reads it, and how many calls that is."""
        if not claimed.is_asked:
            return b"", 0
        output = ended.workflow_output.model_dump() | {"reward": reward}
        told = {"task_id": task_id, "task": ended.task.model_dump(), "output": output}
        asked = {"name": name_of(claimed), **told}
        answer = await self._engine.ask("close", asked)
        return answer.content, int(answer.headers["x-ajet-calls"])

    def abort(self, name: str, client: str) -> None:
        """Give an episode back, where it is the client's."""
        claimed = self.book.claims.get(name)
        if claimed is not None and claimed.client == client and claimed.ending is None:
            self.book.abort(claimed)
            self._changed()

    def forget(self, claimed: Claimed) -> None:
        """An episode is nobody's any more: have the training forget what it has recorded."""
        if claimed.payload is None and claimed.is_asked:
            dropping = asyncio.get_running_loop().create_task(self._drop(claimed))
            self._dropping.add(dropping)
            dropping.add_done_callback(self._dropping.discard)

    async def _drop(self, claimed: Claimed) -> None:
        with suppress(httpx.HTTPError):
            await self._engine.ask("drop", {"name": name_of(claimed)})


def name_of(claimed: Claimed) -> str:
    """Of an episode, for its training."""
    return f"{claimed.kind}/{claimed.uuid}"


def _taken(finished: Finished) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "success": True,
        "weight_version": finished.version,
        "recorded_calls": finished.calls,
    }
    if not finished.calls and finished.kind == "train":
        told = "the model was not called with the key of this episode: there is nothing to train on"
        answer["warning"] = told
    return answer


def _checked(ended: Ended) -> tuple[str, float]:
    """The task and the reward of a report.

    Raises:
        RefusedError: they cannot be used.
    """
    given, output = ended.workflow_output.metadata.get("task_id"), ended.workflow_output
    if not ended.task_id.strip():
        raise RefusedError(400, "no_task_id", "task_id is empty: episodes are compared within their task")
    if given is not None and str(given) != ended.task_id:
        message = f"metadata.task_id is {given!r}, and task_id is {ended.task_id!r}: they must be the same"
        raise RefusedError(400, "task_id_differs", message)
    rewards = output.reward if isinstance(output.reward, list) else [output.reward]
    numbers = [reward for reward in rewards if reward is not None]
    if not numbers:
        message = "workflow_output.reward is missing: send a number, or abort the episode"
        raise RefusedError(400, "no_reward", message)
    return ended.task_id, fmean(numbers)


def _digest(ended: Ended) -> str:
    told = [ended.task_id, ended.workflow_output.model_dump()]
    text = orjson.dumps(told, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=str)
    return hashlib.blake2b(text, digest_size=8).hexdigest()
