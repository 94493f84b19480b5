"""The training's side of a swarm: the model for the episodes of clients, and the batches that come of them.

It listens on a private Unix socket and is asked by the server alone: which phase it is in, to answer an
agent's call, to close an episode, to go on with a batch. It holds nothing that would be missed: when the
training dies, the server has all that is finished; when the server dies, the next one asks again.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainer_core.engine.protocols import InferenceEngine
from trainer_core.gateway.ask import GatewayError, episode_ended
from trainer_core.gateway.dialects import Chat
from trainer_core.gateway.exchange import Exchange
from trainer_core.gateway.keys import Keys
from trainer_core.gateway.recording import EpisodeRules, OpenEpisode
from trainer_core.gateway.server import Gateway
from trainer_core.records.payload import pack, unpack
from trainer_core.rollout.abnormal import AbnormalAnswers
from trainer_core.rollout.protocol import Tries, check_some_succeeded
from trainer_core.seeds import derive_seed
from trainer_core.swarm.ledger import read_batch
from trainer_core.types import Episode, StopReason, Task, TrainingError
from trainer_core.workflow.workflow import WorkflowOutput, output_of

_ORPHAN_S = 600.0
_LOOKS_S = 0.2
_KEPT_NAMES = 100_000
_KEPT_ANSWERS = 256
_WAIT_S = 30.0


class _ByName(Keys[tuple[OpenEpisode, str]]):
    """The server is the only one who asks, so an episode's name is key enough; its first call opens it."""

    def __init__(self, make: Callable[[str], OpenEpisode]) -> None:
        super().__init__(float("inf"))
        self._make = make
        self._closed: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()
        self._open: dict[str, OpenEpisode] = {}

    def owner(self, key: str) -> tuple[OpenEpisode, str]:
        with self._lock:
            if key in self._closed:
                raise episode_ended()
            if key not in self._open:
                self._open[key] = self._make(key)
            return self._open[key], ""

    def close(self, name: str) -> OpenEpisode | None:
        """From now on its calls are refused."""
        with self._lock:
            self._closed[name] = None
            if len(self._closed) > _KEPT_NAMES:
                self._closed.popitem(last=False)
            return self._open.pop(name, None)


class Gate(Gateway):
    """A gateway whose episodes are claimed elsewhere."""

    takes_any_name = True

    def __init__(
        self,
        engine: InferenceEngine,
        tokenizer: Any,
        rules: Mapping[str, EpisodeRules],
        abnormal: AbnormalAnswers,
        *,
        saved: Callable[[], int],
        **of_gateway: Any,
    ) -> None:
        """
        Args:
            rules: of `train` and of `eval` episodes.
            saved: the step of the last checkpoint.
        """
        super().__init__(engine, tokenizer, **of_gateway)
        self._rules, self._abnormal, self._saved = rules, abnormal, saved
        self._named = self._keys = _ByName(self._begin)
        self.batches: queue.SimpleQueue[tuple[Path, str, int]] = queue.SimpleQueue()
        """Ledger, run and step of what is to be learned from."""
        self.asked_at = time.monotonic()
        """When the server last asked for anything."""
        self._phase, self._step, self._number = "booting", 0, 0
        self._changed = threading.Condition()
        self._is_closing = False
        self._answers: OrderedDict[str, tuple[bytes, Mapping[str, str]]] = OrderedDict()
        """To what was closed lately, in case it is asked for again."""

    def doing(self, name: str, step: int | None = None) -> None:
        """Say which phase of a training step begins; any thread may."""
        with self._changed:
            self._phase, self._step = name, self._step if step is None else step
            self._number += 1
            self._changed.notify_all()

    def __exit__(self, *_: object) -> None:
        self._is_closing = True
        self.doing("ending")  # who waits for another phase holds a thread
        super().__exit__()

    def _begin(self, name: str) -> OpenEpisode:
        rules = self._rules[name.partition("/")[0]]
        return self.open_episode(replace(rules, seed=derive_seed(rules.seed, name, 0)))

    async def _serve(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        path = scope.get("path", "")
        if not path.startswith("/swarm/"):
            return await super()._serve(scope, receive, send)
        self.asked_at = time.monotonic()
        exchange = Exchange(scope, receive, send, Chat)
        try:
            if scope["method"] != "POST":
                raise GatewayError(405, f"{scope['method']} is not answered here", code="method_not_allowed")
            answer, headers = await self._told(path, await exchange.body())
        except GatewayError as error:
            return await exchange.fail(error)
        await exchange.whole(answer, headers)

    async def _told(self, path: str, body: Mapping[str, Any]) -> tuple[Any, Mapping[str, str]]:
        if path == "/swarm/phase":
            return await asyncio.to_thread(self._wait, body["seen"]), {}
        if path == "/swarm/batch":
            self.batches.put((Path(body["ledger"]), body["run"], body["step"]))
            return {}, {}
        if path == "/swarm/close":
            if (closed := self._answers.get(body["name"])) is None:
                episode = await asyncio.to_thread(self._close, body)
                closed = pack([episode]), {"x-ajet-calls": str(len(episode.calls))}
                self._answers[body["name"]] = closed
                if len(self._answers) > _KEPT_ANSWERS:
                    self._answers.popitem(last=False)
            return closed
        if path == "/swarm/drop":
            if (opened := self._named.close(body["name"])) is not None:
                opened.close()
            return {}, {}
        raise GatewayError(404, f"there is no {path}", code="not_found")

    def _wait(self, seen: int) -> dict[str, Any]:
        with self._changed:
            self._changed.wait_for(lambda: self._number != seen or self._is_closing, _WAIT_S)
            told = {"number": self._number, "name": self._phase, "step": self._step}
        return told | {"saved": self._saved()}

    def _close(self, body: Mapping[str, Any]) -> Episode:
        """End an episode: what was recorded, with what its client reports."""
        opened = self._named.close(body["name"])
        if opened is None:
            raise episode_ended()
        recorded, reported = opened.close(), body["output"]
        task = Task(body["task_id"], **body["task"])
        episode = Episode(task, 0, recorded.calls, recorded.output, metadata=reported["metadata"])
        metrics = {**recorded.metrics, "rollout/calls": float(len(recorded.calls))}
        if recorded.stop_reason is StopReason.FAILED:
            error = recorded.error or "the model did not answer"
            metrics["rollout/failed/engine"] = 1.0
            return replace(episode, error=error, stop_reason=StopReason.FAILED, metrics=metrics)
        output = output_of(WorkflowOutput(**reported))
        solved = output.reward is not None and output.reward >= 1.0
        ended = replace(
            episode,
            reward=output.reward,
            is_success=solved if output.is_success is None else output.is_success,
            stop_reason=recorded.stop_reason or StopReason.FINISHED,
            metrics=metrics | {f"workflow/{name}": value for name, value in output.log_metrics.items()},
        )
        return self._abnormal.marked(ended)


class SwarmRollout:
    """Fills `Rollout`: the episodes of a step are those that clients have finished."""

    def __init__(
        self,
        gate: Gate,
        *,
        safe_point: Callable[[], None],
        on_evaluated: Callable[[int, Sequence[Episode]], None],
        orphan_s: float = _ORPHAN_S,
    ) -> None:
        """
        Args:
            on_evaluated: given the eval episodes that saw the weights after a step, once they are known.
            orphan_s: without a server for so long, the training ends.
        """
        self._gate, self._safe_point, self._on_evaluated = gate, safe_point, on_evaluated
        self._orphan_s = orphan_s

    async def run(self, tasks: Sequence[Task], tries: Tries) -> list[Episode]:
        """See `Rollout.run`; `tasks` are the clients' own."""
        self._gate.doing("collecting", tries.step)
        while True:
            self._safe_point()
            try:
                ledger, run, step = await asyncio.to_thread(self._gate.batches.get, timeout=_LOOKS_S)
            except queue.Empty:
                if time.monotonic() - self._gate.asked_at > self._orphan_s:
                    told = f"no swarm server has asked for anything in {self._orphan_s:g} s"
                    raise TrainingError(
                        f"{told}. Start it again: training goes on from the last checkpoint"
                    ) from None
                continue
            if step == tries.step:
                break
        self._gate.doing("adv")
        handed = read_batch(ledger, run, step)
        for version, payloads in handed.evaluated.items():
            self._on_evaluated(version, _in_groups(payloads))
        episodes = without_lone(_in_groups(handed.training))
        check_some_succeeded(episodes)
        return episodes


def without_lone(episodes: Sequence[Episode]) -> list[Episode]:
    """Where tasks have several episodes, one that is alone in its task has no calls: compared with nothing,
    its reward would be its advantage, whatever it is."""
    size = Counter(episode.task.task_id for episode in episodes)
    if max(size.values(), default=1) == 1:
        return list(episodes)
    return [
        replace(each, calls=(), metrics={**each.metrics, "rollout/lone": 1.0})
        if size[each.task.task_id] == 1
        else each
        for each in episodes
    ]


def _in_groups(payloads: Sequence[bytes]) -> list[Episode]:
    """Episodes of a task lie together, numbered in the order of their ends."""
    groups: dict[str, list[Episode]] = {}
    for payload in payloads:
        for episode in unpack(payload):
            group = groups.setdefault(episode.task.task_id, [])
            group.append(replace(episode, repeat=len(group)))
    return [episode for group in groups.values() for episode in group]
