"""The book of a swarm: who has which episode, what is finished, when a batch is complete.

Plain state that one thread changes; it knows neither HTTP nor a disk, and its clock is passed in.
"""

from __future__ import annotations

import heapq
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal

from trainer_core.swarm.ledger import Finished
from trainer_core.swarm.states import Event, State, follow
from trainer_core.swarm.wire import Claim

Late = Literal["drain", "keep", "refuse"]
"""What becomes of episodes that run when the batch is complete: it waits for them, they go into the next
batch, or they are taken away."""
_ACTIVE_S = 600.0
"""A client counts as active for so long after it has ended an episode."""
_PATIENCE_S = 10.0
"""A complete batch waits so long at least for an episode that is silent."""
_CAUSES = {
    State.OFFLINE: "Engine not ready: it is offline. Call sync_train_config, then start_engine.",
    State.BOOTING: "Engine not ready: it is booting. Try again soon.",
    State.ROLLING_POST: "Engine is in post-rolling phase: the batch is complete. Try again soon.",
    State.WEIGHT_SYNCING: "Engine is syncing weights. Try again soon.",
    State.WEIGHT_EXPORTING: "Engine is syncing weights: it writes a checkpoint. Try again soon.",
}
NO_PLACE = "No available episodes to claim. Try again soon."
"""AgentJet's clients look for some of these words."""


class RefusedError(Exception):
    """A request that cannot be met; `code` is for programs."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


@dataclass(frozen=True)
class Rules:
    """When a batch is complete, and how much may run."""

    method: str = "rollout_until_finish_enough_tasks"
    batch_size: int = 1
    num_repeat: int = 1
    most_open: int = 128
    """Episodes that may be claimed at once."""
    most_kept: int = 9999
    """Finished episodes that make a batch complete, whatever the method says."""
    late: Late = "drain"


@dataclass(eq=False)
class Claimed:
    """An episode that a client has. Its name is never given twice, so that it is the fence too: who was
    declared idle knows only a name that is nobody's any more."""

    uuid: str
    client: str
    kind: str
    timeout: float
    version: int
    since: float
    active_at: float
    key: str = ""
    """For the model."""
    task_id: str = ""
    """As far as the client has told it."""
    calls: int = 0
    in_flight: int = 0
    is_asked: bool = False
    """The training was sent a call of it."""
    ending: str | None = None
    """Digest of the report that is being written down."""
    payload: bytes | None = None
    """What was recorded, where the training has handed it over and the disk has not taken it."""
    recorded: int = 0
    """Calls in the payload."""


@dataclass
class OfTask:
    """What a batch has of one task."""

    uuids: list[str] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    clients: list[str] = field(default_factory=list)
    is_uneven: bool = False
    """Not all rewards are equal."""


class Book:
    """The state of a server."""

    def __init__(
        self, clock: Callable[[], float], released: Callable[[Claimed], None] = lambda claimed: None
    ) -> None:
        """`clock`: monotonic seconds. `released`: told of each episode that is no client's any more."""
        self._clock, self._released = clock, released
        self.state = State.OFFLINE
        self.detail = ""
        """More about the state, for people."""
        self.since = clock()
        """When the state began."""
        self.number = 0
        """Of changes of state, step and detail; long polls wait for the next."""
        self.rules = Rules()
        self.step = 0
        """The training step whose batch is collected or learned from."""
        self.claims: dict[str, Claimed] = {}
        self.tasks: dict[str, OfTask] = {}
        self.finished = 0
        self.counts: Counter[str] = Counter()
        """Of episodes since the engine was started: `finished`, `eval`, `without_calls`, `aborted`, `idle`,
        `late`, `over_collected`, `partial_groups`."""
        self.curve: list[tuple[int, float]] = []
        """(step, mean reward) of the batches so far."""
        self._complete = self._uneven = 0
        self._took_s = 0.0
        """What it took to complete the batch."""
        self._enders: dict[str, float] = {}
        self._agreed: set[str] = set()
        self._deadlines: list[tuple[float, str]] = []

    # --- states ---------------------------------------------------------------------------------------

    def happened(self, event: Event, detail: str = "") -> None:
        """Follow the table.

        Raises:
            ValueError: it cannot happen now.
        """
        now = self._clock()
        if event is Event.ENOUGH:
            self._took_s = now - self.since
        self.state, self.since = follow(self.state, event), now
        self.told(detail)
        if event is Event.START:
            self.counts.clear()
            self.curve.clear()
        if self.state is State.OFFLINE:
            self._forget()

    def told(self, detail: str) -> None:
        """Say more about the state."""
        self.detail = detail
        self.number += 1

    def collect(self, step: int, waiting: Iterable[Finished]) -> None:
        """Begin the batch of a step, with what is finished already."""
        self.step = step
        self.tasks, self.finished, self._complete, self._uneven = {}, 0, 0, 0
        self._agreed.clear()
        for episode in waiting:
            self._count(episode)

    def _forget(self) -> None:
        for claimed in list(self.claims.values()):
            self._release(claimed)
        self.collect(self.step, ())
        self._enders.clear()

    # --- claims ---------------------------------------------------------------------------------------

    def why_not(self, ask: Claim) -> str | None:
        """What keeps a client from an episode; None: nothing."""
        if self.state is not State.ROLLING:
            return _CAUSES[self.state]
        if len(self.claims) >= self.rules.most_open:
            return NO_PLACE
        if (policy := ask.throttle_policy) is not None and ask.episode_type == "train":
            own = {task for task, each in self.tasks.items() if ask.client_uuid in each.clients}
            running = (one for one in self.claims.values() if one.client == ask.client_uuid)
            own |= {one.task_id for one in running if one.task_id}
            most = policy.ratio * policy.expected_batch_size
            if policy.current_task_id not in own and len(own) >= most:
                return f"{NO_PLACE} This client has {len(own)} tasks in the batch; its share is {most:g}."
        return None

    def claim(self, ask: Claim) -> Claimed:
        """Give an episode to a client, where `why_not` says nothing."""
        now, policy = self._clock(), ask.throttle_policy
        claimed = Claimed(
            str(uuid.uuid4()),
            ask.client_uuid,
            ask.episode_type,
            ask.discard_episode_timeout,
            self.step - 1,
            now,
            now,
            task_id=policy.current_task_id if policy is not None else "",
        )
        self.claims[claimed.uuid] = claimed
        heapq.heappush(self._deadlines, (now + claimed.timeout, claimed.uuid))
        return claimed

    def held(self, name: str, client: str) -> Claimed:
        """The claim of a client.

        Raises:
            RefusedError: it has none of this name.
        """
        claimed = self.claims.get(name)
        if claimed is None:
            raise RefusedError(
                400,
                "not_claimed",
                f"episode {name} is not claimed: it was ended, aborted, taken away after "
                "discard_episode_timeout seconds without a request, or given before the server was started "
                "again. Its reward is not used; begin another episode",
            )
        if claimed.client != client:
            raise RefusedError(404, "not_yours", f"episode {name} is claimed by another client")
        return claimed

    def may_end(self) -> None:
        """
        Raises:
            RefusedError: no episode can be finished in this state.
        """
        if self.state in (State.OFFLINE, State.BOOTING):
            raise RefusedError(400, "not_rolling", f"no episode can be finished now. {_CAUSES[self.state]}")

    def end(self, claimed: Claimed, episode: Finished, *, is_active: bool = True) -> None:
        """Its end is on the disk. One that was released meanwhile is found there, at the next batch.
        `is_active`: the client counts as active."""
        is_held = claimed.uuid in self.claims
        self._release(claimed)
        if is_active:
            self._enders[claimed.client] = self._clock()
        self.counts["finished" if episode.kind == "train" else "eval"] += 1
        if episode.kind != "train":
            return
        if not episode.calls:
            self.counts["without_calls"] += 1
        elif is_held and self.state in (State.ROLLING, State.ROLLING_POST):
            self._count(episode)

    def _count(self, episode: Finished) -> None:
        of_task, repeats = self.tasks.setdefault(episode.task_id, OfTask()), self.rules.num_repeat
        was_uneven = of_task.is_uneven and len(of_task.uuids) >= repeats
        of_task.uuids.append(episode.uuid)
        of_task.rewards.append(episode.reward)
        of_task.clients.append(episode.client)
        of_task.is_uneven |= episode.reward != of_task.rewards[0]
        self.finished += 1
        self._complete += len(of_task.uuids) == repeats
        self._uneven += of_task.is_uneven and len(of_task.uuids) >= repeats and not was_uneven

    def abort(self, claimed: Claimed, why: str = "aborted") -> None:
        """Give its place back."""
        self._release(claimed)
        self.counts[why] += 1

    def expired(self) -> list[Claimed]:
        """Take away the episodes that were idle for too long."""
        now, gone = self._clock(), []
        while self._deadlines and self._deadlines[0][0] <= now:
            claimed = self.claims.get(heapq.heappop(self._deadlines)[1])
            if claimed is None:
                continue
            is_busy = claimed.in_flight or claimed.ending is not None
            deadline = (now if is_busy else claimed.active_at) + claimed.timeout
            if deadline > now:
                heapq.heappush(self._deadlines, (deadline, claimed.uuid))
                continue
            self.abort(claimed, "idle")
            gone.append(claimed)
        return gone

    def active(self, claimed: Claimed) -> None:
        """It has asked the model, or has been answered."""
        claimed.active_at = self._clock()

    def _release(self, claimed: Claimed) -> None:
        if self.claims.pop(claimed.uuid, None) is not None:
            self._released(claimed)

    # --- batches --------------------------------------------------------------------------------------

    def agree(self, client: str) -> None:
        """A client has seen enough."""
        self._agreed.add(client)

    def is_enough(self) -> bool:
        """True if the batch is complete."""
        rules, tasks = self.rules, self.rules.batch_size
        if not self.finished:
            return False
        if self.finished >= rules.most_kept:
            return True
        if rules.method == "rollout_until_finish_enough_episodes":
            return self.finished >= tasks * rules.num_repeat
        if rules.method == "rollout_until_any_client_agree_sync_weight":
            return bool(self._agreed)
        if rules.method == "rollout_until_all_clients_agree_sync_weight":
            since = self._clock() - _ACTIVE_S
            active = {client for client, at in self._enders.items() if at >= since}
            active |= {claimed.client for claimed in self.claims.values() if claimed.kind == "train"}
            return bool(self._agreed) and active <= self._agreed
        is_uneven = rules.method == "rollout_until_finish_enough_non_dummy_tasks"
        return (self._uneven if is_uneven else self._complete) >= tasks

    def awaited(self) -> list[Claimed]:
        """The episodes that a complete batch waits for: not those that are silent for longer than the batch
        has taken, which are taken into the next one."""
        if self.rules.late == "keep":
            return []
        since = self._clock() - max(_PATIENCE_S, self._took_s)
        return [
            one
            for one in self.claims.values()
            if one.in_flight or one.ending is not None or one.active_at > since
        ]

    def uuids(self) -> list[str]:
        """The episodes of the batch."""
        return [name for each in self.tasks.values() for name in each.uuids]

    def sealed(self) -> None:
        """The batch is handed over: note what it was like."""
        repeats = self.rules.num_repeat
        rewards = [reward for each in self.tasks.values() for reward in each.rewards]
        self.counts["over_collected"] += max(0, self.finished - repeats * self.rules.batch_size)
        self.counts["partial_groups"] += sum(len(each.uuids) < repeats for each in self.tasks.values())
        if rewards:
            self.curve.append((self.step, fmean(rewards)))

    # --- what people see ------------------------------------------------------------------------------

    def pool(self) -> dict[str, Any]:
        """The answer to `/get_current_batch_rollout_pool_information`."""
        now, rules = self._clock(), self.rules
        tasks = list(self.tasks.items())
        return {
            "sample_collection_method": rules.method,
            "completed_episodes": self.finished,
            "completed_episode_target": rules.batch_size * rules.num_repeat,
            "completed_tasks": self._complete,
            "completed_task_target": rules.batch_size,
            "completed_non_dummy_tasks": self._uneven,
            "completed_non_dummy_task_target": rules.batch_size,
            "task_expected_num_repeat": rules.num_repeat,
            "completed_tasks_details": {task: each.uuids for task, each in tasks},
            "completed_tasks_client_uuids": {task: each.clients for task, each in tasks},
            "completed_tasks_rewards": {task: each.rewards for task, each in tasks},
            "running_episode_details": {
                one.uuid: {  # AgentJet's clients want text everywhere
                    "episode_status": "claimed",
                    "episode_type": one.kind,
                    "time_since_last_activity": f"{now - one.active_at:.1f}s",
                    "discard_episode_timeout": f"{one.timeout:.1f}s",
                    "llm_call_count": str(one.calls),
                    "client_uuid": one.client,
                    "optional_task_id": one.task_id,
                }
                for one in self.claims.values()
            }
            or None,
            "episode_counts": dict(self.counts),
            "reward_curve": self.curve[-1000:],
            "engine_status": self.state,
            "engine_status_detail": self.detail,
            "seconds_in_status": now - self.since,
            "global_step": max(0, self.step - 1),
            "booting_start_time": None,
        }
