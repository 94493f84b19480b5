"""The book, under every order of commands, against a model of what clients were promised."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from trainer_core.swarm.book import NO_PLACE, Book, Claimed, RefusedError, Rules
from trainer_core.swarm.ledger import Finished
from trainer_core.swarm.states import Event, State
from trainer_core.swarm.wire import Claim, Throttle

_EVEN = [("1", 0.0), ("2", 0.0)]
_CLIENTS, _TASKS = ("a", "b", "c"), ("1", "2", "3", "4")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _finished(claimed: Claimed, task: str, reward: float, calls: int = 1) -> Finished:
    how = (claimed.kind, claimed.client, task, reward, claimed.version, calls, "digest")
    return Finished(claimed.uuid, "run", *how)


def _rolling(**rules: Any) -> tuple[Book, Clock]:
    clock = Clock()
    book = Book(clock)
    book.rules = Rules(**rules)
    book.happened(Event.START)
    book.collect(1, ())
    book.happened(Event.COLLECTING)
    return book, clock


def _end(book: Book, client: str, task: str, reward: float, calls: int = 1, kind: Any = "train") -> str:
    claimed = book.claim(Claim(client_uuid=client, episode_type=kind))
    book.end(claimed, _finished(claimed, task, reward, calls))
    return claimed.uuid


class Commands(RuleBasedStateMachine):
    """Clients, the training and time, in any order."""

    names = Bundle("names")

    def __init__(self) -> None:
        super().__init__()
        self.clock, self.released = Clock(), list[str]()
        self.book = Book(self.clock, lambda claimed: self.released.append(claimed.uuid))
        self.book.rules = Rules(batch_size=2, num_repeat=2, most_open=4, most_kept=12)
        self.given: set[str] = set()
        self.ended: dict[str, str] = {}
        """Of the batch under way: task by episode."""

    def _offline(self) -> None:
        self.ended.clear()

    @rule(event=st.sampled_from(Event))
    def something_happens(self, event: Event) -> None:
        before = self.book.state
        try:
            if event is Event.COLLECTING and before in (State.BOOTING, State.WEIGHT_SYNCING):
                self.book.collect(self.book.step + 1, ())
                self.ended.clear()
            self.book.happened(event)
        except ValueError:
            assert self.book.state is before
        if self.book.state is State.OFFLINE:
            self._offline()

    @rule(target=names, client=st.sampled_from(_CLIENTS), patience=st.sampled_from((1.0, 10.0)))
    def claim(self, client: str, patience: float) -> tuple[str, str]:
        ask = Claim(client_uuid=client, discard_episode_timeout=patience)
        if (cause := self.book.why_not(ask)) is not None:
            assert self.book.state is not State.ROLLING or len(self.book.claims) == 4, cause
            return client, "none"
        assert self.book.state is State.ROLLING
        claimed = self.book.claim(ask)
        assert claimed.uuid not in self.given
        self.given.add(claimed.uuid)
        return client, claimed.uuid

    @rule(name=consumes(names), other=st.sampled_from(_CLIENTS), task=st.sampled_from(_TASKS))
    def end(self, name: tuple[str, str], other: str, task: str) -> None:
        client, uuid = name
        was_claimed = uuid in self.book.claims
        if was_claimed and other == client:
            claimed = self.book.held(uuid, other)
            self.book.may_end()
            self.book.end(claimed, _finished(claimed, task, 1.0))
            if self.book.state in (State.ROLLING, State.ROLLING_POST):
                self.ended[uuid] = task
            return
        with pytest.raises(RefusedError) as refused:
            self._may_end(uuid, other)
        assert refused.value.code == ("not_yours" if was_claimed else "not_claimed")

    def _may_end(self, uuid: str, client: str) -> None:
        self.book.held(uuid, client)
        self.book.may_end()

    @rule(name=names)
    def abort(self, name: tuple[str, str]) -> None:
        if (claimed := self.book.claims.get(name[1])) is not None:
            self.book.abort(claimed)

    @rule(seconds=st.floats(0.1, 5.0))
    def time_goes_by(self, seconds: float) -> None:
        self.clock.now += seconds
        due = {one.uuid for one in self.book.claims.values() if one.active_at + one.timeout <= self.clock.now}
        assert {one.uuid for one in self.book.expired()} == due

    @invariant()
    def all_is_as_promised(self) -> None:
        book = self.book
        assert len(book.claims) <= 4
        assert not book.claims.keys() & set(self.released)
        assert book.state not in (State.OFFLINE, State.BOOTING) or not book.claims
        assert sorted(book.uuids()) == sorted(self.ended)
        groups = [task for task in set(self.ended.values()) if list(self.ended.values()).count(task) >= 2]
        assert book.pool()["completed_tasks"] == len(groups)
        assert book.is_enough() == (len(groups) >= 2 or len(self.ended) >= 12)


TestCommands = Commands.TestCase
TestCommands.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@pytest.mark.soak
class TestMoreCommands(Commands.TestCase):  # type: ignore[name-defined, misc]
    settings = settings(max_examples=3_000, stateful_step_count=80, deadline=None)


@pytest.mark.parametrize(
    ("method", "ends", "is_enough"),
    [
        ("rollout_until_finish_enough_episodes", [("1", 0.0)] * 4, True),
        ("rollout_until_finish_enough_tasks", [("1", 0.0)] * 4, False),
        ("rollout_until_finish_enough_tasks", _EVEN * 2, True),
        ("rollout_until_finish_enough_non_dummy_tasks", _EVEN * 2, False),
        (
            "rollout_until_finish_enough_non_dummy_tasks",
            [("1", 0.0), ("2", 0.0), ("1", 1.0), ("2", 1.0)],
            True,
        ),
        ("rollout_until_any_client_agree_sync_weight", [("1", 0.0)], False),
    ],
)
def test_when_a_batch_is_complete(method: str, ends: list[tuple[str, float]], is_enough: bool) -> None:
    book, _ = _rolling(method=method, batch_size=2, num_repeat=2)
    for task, reward in ends:
        _end(book, "a", task, reward)
    assert book.is_enough() is is_enough


def test_clients_agree_that_it_is_enough() -> None:
    book, clock = _rolling(method="rollout_until_all_clients_agree_sync_weight", batch_size=9)
    _end(book, "a", "1", 0.0)
    clock.now = 700.0
    assert not book.is_enough(), "nobody has agreed"
    running = book.claim(Claim(client_uuid="c"))
    _end(book, "b", "1", 1.0)
    assert not book.is_enough()
    book.agree("b")
    book.abort(running)
    assert book.is_enough(), "a has been away for more than ten minutes"


def test_an_episode_without_calls_trains_nothing_and_is_counted() -> None:
    book, _ = _rolling(batch_size=1, num_repeat=1)
    _end(book, "a", "1", 1.0, calls=0)
    assert not book.is_enough() and book.counts["without_calls"] == 1
    _end(book, "a", "1", 1.0, kind="eval")
    assert not book.is_enough() and book.counts["eval"] == 1


def test_too_many_kept_episodes_make_a_batch_complete() -> None:
    book, _ = _rolling(batch_size=2, num_repeat=2, most_kept=5)
    for _ in range(5):
        _end(book, "a", "the same", 0.0)
    assert book.is_enough()
    book.sealed()
    assert (book.counts["over_collected"], book.counts["partial_groups"], book.curve) == (1, 0, [(1, 0.0)])


def test_a_client_gets_its_share_of_a_batch() -> None:
    book, _ = _rolling(batch_size=4, num_repeat=2)
    _end(book, "a", "1", 0.0)

    def ask(client: str, task: str) -> str | None:
        policy = Throttle(ratio=0.5, expected_batch_size=4, current_task_id=task)
        return book.why_not(Claim(client_uuid=client, throttle_policy=policy))

    assert ask("a", "2") is None
    book.claim(Claim(client_uuid="a", throttle_policy=Throttle(expected_batch_size=4, current_task_id="2")))
    refused = ask("a", "3")
    assert refused is not None and refused.startswith(NO_PLACE) and "its share is 2" in refused
    assert ask("a", "1") is None and ask("b", "3") is None


def test_a_request_under_way_is_no_idleness() -> None:
    book, clock = _rolling()
    claimed = book.claim(Claim(client_uuid="a", discard_episode_timeout=10))
    claimed.in_flight = 1
    clock.now = 25.0
    assert book.expired() == []
    claimed.in_flight = 0
    book.active(claimed)
    clock.now = 34.9
    assert book.expired() == []
    clock.now = 35.1
    assert book.expired() == [claimed] and book.counts["idle"] == 1


def test_a_complete_batch_waits_for_who_is_not_silent_for_longer_than_it_took() -> None:
    book, clock = _rolling(batch_size=1, num_repeat=1)
    silent, calling, active = (book.claim(Claim(client_uuid=client)) for client in "abc")
    calling.in_flight = 1
    clock.now = 60.0
    _end(book, "d", "1", 0.0)
    book.happened(Event.ENOUGH)
    book.active(active)
    assert book.awaited() == [calling, active], "the batch took 60 s, and so long one was silent"
    clock.now = 120.5
    assert book.awaited() == [calling]
    book.rules = Rules(late="keep")
    assert book.awaited() == [] and silent.uuid in book.claims
