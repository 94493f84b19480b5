"""An episode comes back as it was written."""

import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer_core.records.conftest import episode, say
from trainer_core.records.payload import decode, encode, pack, shared_beginnings, unpack
from trainer_core.types import Call, Episode, FinishReason, StopReason, Task

IDS = st.lists(st.integers(0, 3), max_size=6).map(tuple)  # few ids, so that histories branch and repeat
BIG = st.integers(0, 2**31 - 1)
TEXT = st.text(st.characters())  # lone surrogates among them
JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=5,
)


@st.composite
def branching_calls(draw: st.DrawFn) -> tuple[Call, ...]:
    calls: list[Call] = []
    for _ in range(draw(st.integers(0, 6))):
        start: tuple[int, ...] = ()
        if calls and draw(st.booleans()):
            earlier = draw(st.sampled_from(calls))
            whole = earlier.prompt_ids + earlier.completion_ids
            start = whole[: draw(st.integers(0, len(whole)))]
        completion = draw(IDS) + draw(st.lists(BIG, max_size=2).map(tuple))
        logprobs = draw(
            st.lists(st.floats(-50, 0, width=32), min_size=len(completion), max_size=len(completion))
        )
        calls.append(
            Call(
                start + draw(IDS),
                completion,
                tuple(logprobs),
                draw(st.sampled_from(FinishReason)),
                weight_version=draw(BIG),
                agent=draw(TEXT),
                started=draw(st.floats(0, 1e6)),
                seconds=draw(st.floats(0, 1e6)),
            )
        )
    return tuple(calls)


@st.composite
def episodes(draw: st.DrawFn) -> Episode:
    messages = draw(st.lists(st.dictionaries(TEXT, JSON, max_size=2), max_size=2).map(tuple))
    return Episode(
        Task(draw(TEXT), draw(TEXT), init_messages=messages, metadata=draw(st.dictionaries(TEXT, JSON))),
        draw(st.integers(-1, 99)),
        draw(branching_calls()),
        output=draw(TEXT),
        reward=draw(st.none() | st.floats(allow_nan=False)),
        is_success=draw(st.booleans()),
        error=draw(st.none() | TEXT),
        stop_reason=draw(st.sampled_from(StopReason)),
        metrics=draw(st.dictionaries(TEXT, st.floats(allow_nan=False), max_size=2)),
    )


@given(st.lists(episodes(), max_size=3))
def test_episodes_come_back(given: list[Episode]) -> None:
    assert unpack(pack(given)) == given


@given(branching_calls())
def test_a_call_begins_with_the_longest_history_there_is(calls: tuple[Call, ...]) -> None:
    def shared(first: tuple[int, ...], second: tuple[int, ...]) -> int:
        return next(
            (n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
            min(len(first), len(second)),
        )

    for number, (call, (after, kept)) in enumerate(zip(calls, shared_beginnings(calls), strict=True)):
        wholes = [one.prompt_ids + one.completion_ids for one in calls[:number]]
        assert kept == max((shared(call.prompt_ids, whole) for whole in wholes), default=0)
        if after is not None:
            assert call.prompt_ids[:kept] == wholes[after][:kept]


def test_each_token_is_written_once() -> None:
    turns, history = [], tuple(range(1000))
    for turn in range(30):
        answer = tuple(range(10_000 + 40 * turn, 10_040 + 40 * turn))
        turns.append(Call(history, answer, (-1.0,) * 40))
        history = (*history, *answer, 5)
    raw = encode(episode("t", *turns))
    (header,) = struct.unpack_from("<I", raw)
    assert len(raw) - 4 - header == 4 * (1000 + 30 * 40 * 2 + 29)  # ids and logprobs of 30 answers


def test_what_json_does_not_know_becomes_text() -> None:
    given = episode(task=Task("t", "q", metadata={"when": {1}}))
    assert decode(encode(given))[0].task.metadata == {"when": "{1}"}


@pytest.mark.parametrize("cut", [0, 3, 10, -1])
def test_what_is_cut_short_is_no_episode(cut: int) -> None:
    with pytest.raises(ValueError):
        decode(encode(episode())[:cut])
    with pytest.raises(ValueError):
        unpack(pack([episode()])[:cut])


def test_log_probabilities_are_kept_as_float32() -> None:
    given = episode("t", replace(say("a", "b"), logprobs=(-0.1,)))
    assert decode(encode(given))[0].calls[0].logprobs == struct.unpack("<f", struct.pack("<f", -0.1))
