"""Limits, patience and records around a provider that does as it is told."""

import asyncio
import json
import logging
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.codec import encode
from harness.journal import Event
from harness.providers import chat
from harness.providers.cost import Limits, Price, Spending, after, worst_case
from harness.providers.model import (
    MOST_TRIES,
    InterruptedAskError,
    LimitReachedError,
    Model,
    OutOfPatienceError,
)
from harness.providers.transcript import Transcript, request_hash
from harness.redaction import Secrets
from tests.harness.providers.conftest import FakeClock

PRICE = Price(1.0, 0.1, 1.25, 2.0, 5.0)
REQUEST = chat.Request("Be brief.", (), (chat.UserTurn("Go on?"),), max_output_tokens=1000)
CALLS = (chat.ToolCall("c", "wait", "{}"),)
REPLY = chat.Reply("Yes.", CALLS, chat.StopReason.TOOL_CALL, chat.Usage(100, output_tokens=10), "m-1")
REPLY_USD = 150 / 1e6
BUSY = chat.UnavailableError("fake:m answered 429: slow down, request req_1")


class FakeProvider:
    """Answers in turn with replies, errors or what a function makes of the request; the last one for ever."""

    name = "fake"
    model = "m"

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[chat.Request] = []

    async def complete(self, request: chat.Request) -> chat.Reply:
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return await answer() if callable(answer) else answer

    async def close(self) -> None:
        return None


class Bench:
    """A model with everything around it, and what it recorded."""

    def __init__(
        self, folder: Path, *answers: Any, limits: Limits = Limits(), price: Price | None = PRICE
    ) -> None:
        self.events: list[Event] = []
        self.provider = FakeProvider(*answers)
        self.clock = FakeClock()
        self.transcript = Transcript(folder / "transcript.jsonl", Secrets(("battery-staple",)))
        around = (self.events.append, self.transcript, self.clock, random.Random(1))
        self.model = Model(self.provider, price, limits, *around)

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    @property
    def last(self) -> dict[str, Any]:
        return encode(self.events[-1])

    def spending(self) -> Spending:
        spending = Spending()
        for event in self.events:
            spending = after(spending, event)
        return spending

    async def ask(self, patience_s: float = 0.0, interrupted: asyncio.Event | None = None) -> chat.Reply:
        return await self.model.ask(REQUEST, self.spending(), patience_s=patience_s, interrupted=interrupted)


Made = Callable[..., Bench]


@pytest.fixture
def bench(tmp_path: Path) -> Made:
    return lambda *answers, **options: Bench(tmp_path, *answers, **options)


async def test_a_call_is_reserved_before_it_leaves_and_settled_after(bench: Made) -> None:
    async def look() -> chat.Reply:
        assert made.kinds == ["llm_reserved"]
        return REPLY

    made = bench(look)
    assert await made.ask() == REPLY
    assert made.kinds == ["llm_reserved", "llm_settled"]
    reserved = encode(made.events[0])
    assert (reserved["call"], reserved["request"]) == (1, request_hash(REQUEST))
    assert reserved["reserved_usd"] == worst_case(REQUEST, PRICE)
    assert made.last["cost_usd"] == pytest.approx(REPLY_USD)
    assert made.last["calls"] == [{"id": "c", "name": "wait", "arguments": "{}"}]
    assert made.spending() == Spending(1, made.last["cost_usd"], 0.0)


async def test_limits_are_kept_before_anything_is_recorded(bench: Made) -> None:
    made = bench(REPLY, limits=Limits(max_cost_usd=worst_case(REQUEST, PRICE) + REPLY_USD / 2))
    await made.ask()
    with pytest.raises(LimitReachedError, match="max_cost"):
        await made.ask()
    assert len(made.provider.asked) == 1 and made.kinds == ["llm_reserved", "llm_settled"]


async def test_an_unknown_price(bench: Made) -> None:
    with pytest.raises(LimitReachedError, match="price of fake:m is not known"):
        await bench(REPLY, price=None, limits=Limits(1.0)).ask()
    made = bench(REPLY, price=None)
    await made.ask()
    assert made.last["cost_usd"] is None and made.spending() == Spending(1)


async def test_a_storm_is_waited_out_in_few_lines(bench: Made, caplog: pytest.LogCaptureFixture) -> None:
    busy = "fake:m answered 429: slow down, request req_{0}x, wait {0} s"
    made = bench(*(chat.UnavailableError(busy.format(number)) for number in range(190)), REPLY)
    with caplog.at_level(logging.WARNING):
        assert await made.ask(patience_s=48 * 3600) == REPLY
    assert made.kinds == ["llm_reserved", "llm_retried", "llm_settled"]
    assert (made.last["tries"], made.last["call"]) == (191, 1)
    waits = made.clock.waits
    assert 1.0 <= waits[0] <= 2.0 and max(waits) <= 300
    assert waits[:6] == sorted(waits[:6])
    hours = sum(waits) / 3600
    assert hours - 2 <= len(caplog.records) <= hours + 2


async def test_the_server_says_when(bench: Made) -> None:
    asked = [chat.UnavailableError("busy", retry_after_s=seconds) for seconds in (40.0, 3000.0, 9000.0)]
    made = bench(*asked, REPLY)
    await made.ask(patience_s=3600)
    assert made.clock.waits == [40.0, 3000.0, 560.0]


async def test_patience_ends(bench: Made) -> None:
    made = bench(BUSY)
    with pytest.raises(OutOfPatienceError, match="slow down"):
        await made.ask(patience_s=1000)
    assert sum(made.clock.waits) == pytest.approx(1000)
    assert made.kinds == ["llm_reserved", "llm_retried", "llm_failed"]
    assert made.last["cost_usd"] == 0 and made.spending() == Spending(1)


async def test_charged_tries_cannot_pass_the_limit(bench: Made) -> None:
    cut = chat.UnavailableError("cut off", usage=chat.Usage(output_tokens=200))
    limit = worst_case(REQUEST, PRICE) + 0.0025
    made = bench(cut, limits=Limits(limit))
    with pytest.raises(LimitReachedError):
        await made.ask(patience_s=1e6)
    assert made.last["tries"] == 3
    assert made.spending().total_usd <= limit


async def test_what_will_not_pass_is_raised_at_once(bench: Made) -> None:
    made = bench(chat.RejectedError("fake:m answered 401: bad battery-staple"), ZeroDivisionError("a bug"))
    for error in (chat.RejectedError, ZeroDivisionError):
        with pytest.raises(error):
            await made.ask(patience_s=3600)
    assert made.kinds == ["llm_reserved", "llm_failed"] * 2
    assert "battery-staple" not in str(made.events)
    assert made.clock.waits == []


async def test_interrupted_between_tries_and_before_the_next_call(bench: Made) -> None:
    made, interrupted = bench(BUSY), asyncio.Event()
    made.clock.set_after = 3
    with pytest.raises(InterruptedAskError):
        await made.ask(patience_s=3600, interrupted=interrupted)
    assert made.kinds[-1] == "llm_failed"
    assert (made.last["cost_usd"], made.last["is_estimated"]) == (0, False)
    written = list(made.events)
    with pytest.raises(InterruptedAskError):
        await made.ask(interrupted=interrupted)
    assert made.events == written


async def test_interrupted_in_flight_counts_all_it_can_have_cost(bench: Made) -> None:
    interrupted, cancelled = asyncio.Event(), asyncio.Event()

    async def hang() -> chat.Reply:
        interrupted.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return REPLY

    made = bench(hang)
    with pytest.raises(InterruptedAskError):
        await made.ask(interrupted=interrupted)
    assert cancelled.is_set()
    assert (made.last["is_estimated"], made.last["cost_usd"]) == (True, worst_case(REQUEST, PRICE))
    interrupted.clear()
    made = bench(hang)
    task = asyncio.create_task(made.ask())
    await interrupted.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert made.kinds == ["llm_reserved", "llm_failed"], "cancelled from outside"
    assert made.spending().total_usd == worst_case(REQUEST, PRICE)


async def test_secrets_neither_leave_nor_are_kept(bench: Made) -> None:
    leaked = chat.ToolCall("c", "note", '{"text": "it is battery-staple"}')
    made = bench(chat.Reply("battery-staple!", (leaked,), chat.StopReason.TOOL_CALL, chat.Usage(1)))
    request = chat.Request("s", (), (chat.UserTurn("log: battery-staple, sk-abcdefghijklmnop"),))
    reply = await made.model.ask(request, Spending(), patience_s=0)
    everything = f"{made.provider.asked} {made.events} {reply} {made.transcript.path.read_text()}"
    assert "battery-staple" not in everything and "sk-abc" not in everything
    assert encode(made.events[0])["request"] == request_hash(made.provider.asked[0])


async def test_the_warning_on_the_way_comes_once(bench: Made, caplog: pytest.LogCaptureFixture) -> None:
    made = bench(REPLY, limits=Limits(max_calls=5))
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            await made.ask()
    assert [record.message for record in caplog.records] == ["4 of 5 calls to the language model are used"]


async def test_a_kill_between_tries_forgets_no_spending(bench: Made) -> None:
    """Failures of one kind that each cost something are all in the journal, free ones once."""
    cut = chat.UnavailableError("cut off", usage=chat.Usage(output_tokens=200))
    made = bench(*[BUSY] * 5, *[cut] * 40, REPLY)
    await made.ask(patience_s=1e6)
    assert made.kinds.count("llm_retried") == 1 + 40
    made.events.pop()  # the harness was killed before the end was written
    assert made.spending().total_usd == pytest.approx(40 * 200 * 5 / 1e6 + worst_case(REQUEST, PRICE))


async def test_a_request_that_was_delivered_and_never_answered_is_charged(bench: Made) -> None:
    late = chat.UnavailableError("did not answer in time", usage=chat.Usage(1000), is_estimated=True)
    made = bench(late, late, REPLY)
    await made.ask(patience_s=3600)
    assert made.last["cost_usd"] == pytest.approx(2 * 1000 / 1e6 + REPLY_USD) and made.last["is_estimated"]


async def test_one_call_is_not_tried_for_ever(bench: Made) -> None:
    made = bench(BUSY, limits=Limits(max_calls=1))
    with pytest.raises(OutOfPatienceError, match=f"{MOST_TRIES} tries"):
        await made.ask(patience_s=1e9)
    assert len(made.provider.asked) == MOST_TRIES


async def test_a_full_disk_loses_no_answer(bench: Made, caplog: pytest.LogCaptureFixture) -> None:
    made = bench(REPLY)
    made.transcript.path = Path("/dev/full")
    with caplog.at_level(logging.WARNING):
        assert await made.ask() == REPLY
        assert await made.ask() == REPLY
    assert [record.message.partition(" (")[0] for record in caplog.records] == ["/dev/full cannot be written"]


async def test_what_a_model_decides_is_not_rewritten(bench: Made) -> None:
    code = 'token = tokenizer.decode(ids)\napi_key = cfg.api_key or os.getenv("K")  # Basic authentication'
    call = chat.ToolCall("c", "patch_code", json.dumps({"new": code}))
    made = bench(chat.Reply(code, (call,), chat.StopReason.TOOL_CALL, chat.Usage(1)))
    reply = await made.ask()
    assert (reply.text, reply.calls) == (code, (call,))
    assert made.last["calls"][0]["arguments"] == call.arguments
