"""Merging: by hand, against brute force on random episodes, at limits, by text."""

from collections import Counter
from collections.abc import Sequence as SequenceOf
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer_core.timeline.merge import Merged, merge
from trainer_core.types import Call, Episode, Sequence, Task

TASK = Task("t", "q")


def call(prompt: SequenceOf[int], completion: SequenceOf[int], logprob: float = -0.5) -> Call:
    return Call(tuple(prompt), tuple(completion), (logprob,) * len(completion))


def episode(*calls: Call) -> Episode:
    return Episode(TASK, 0, calls, reward=1.0)


def shown(merged: Merged) -> list[str]:
    """Sequences as text: trained tokens in brackets."""
    return [
        " ".join(
            f"[{token}]" if trained else str(token)
            for token, trained in zip(sequence.ids, sequence.trained, strict=True)
        )
        for sequence in merged.sequences
    ]


@pytest.mark.parametrize(
    ("calls", "sequences"),
    [
        ([call([1, 2], [3])], ["1 2 [3]"]),
        ([call([1], [2]), call([1, 2, 3], [4, 5])], ["1 [2] 3 [4] [5]"]),
        # two agents take turns
        (
            [call([1], [2]), call([7], [8]), call([1, 2, 3], [4]), call([7, 8, 9], [0])],
            ["1 [2] 3 [4]", "7 [8] 9 [0]"],
        ),
        # different answers after shared history: the history is trained once
        (
            [call([1], [2]), call([1, 2, 3], [4]), call([1, 2, 3], [5])],
            ["1 [2] 3 [4]", "1 2 3 [5]"],
        ),
        # answers to the same prompt that begin alike are two samples
        ([call([1], [2, 3]), call([1], [2, 4])], ["1 [2] [3]", "1 [2] [4]"]),
        ([call([1], [2]), call([1], [2])], ["1 [2]", "1 [2]"]),
        # the same answer twice, and both are gone on from
        (
            [call([1], [2]), call([1], [2]), call([1, 2, 3], [4]), call([1, 2, 5], [6])],
            ["1 [2] 3 [4]", "1 [2] 5 [6]"],
        ),
        # the answer comes back other than it was sampled, from its second token on
        ([call([1], [2, 3, 4]), call([1, 2, 9, 5], [6])], ["1 [2] [3] [4]", "1 2 9 5 [6]"]),
        # the reasoning is gone from the history
        ([call([1], [8, 8, 2]), call([1, 2, 3], [4])], ["1 [8] [8] [2]", "1 2 3 [4]"]),
        # recorded in the wrong order
        ([call([1, 2, 3], [4]), call([1], [2])], ["1 [2] 3 [4]"]),
        # nothing came of a call
        ([call([1], [2]), call([1, 2, 3], [])], ["1 [2]"]),
    ],
)
def test_by_hand(calls: list[Call], sequences: list[str]) -> None:
    merged = merge([episode(*calls)])
    assert shown(merged) == sequences
    assert merged.metrics["timeline/trained_token_recall"] == 1.0


Token = tuple[tuple[int, ...], int, float]


def trained_tokens(sequences: SequenceOf[Sequence]) -> Counter[Token]:
    """What is trained: token, all that stands before it, log-probability."""
    return Counter(
        (tuple(sequence.ids[:at].tolist()), int(sequence.ids[at]), float(sequence.logprobs[at]))
        for sequence in sequences
        for at in range(len(sequence.ids))
        if sequence.trained[at]
    )


@st.composite
def wild_calls(draw: st.DrawFn) -> list[Call]:
    """Calls over three tokens: going on from an earlier one, from a part of it, changed, or anew."""
    calls: list[Call] = []
    few = st.lists(st.integers(0, 2), max_size=3)
    for number in range(draw(st.integers(1, 8))):
        history: list[int] = [0]
        if calls and draw(st.booleans()):
            earlier = draw(st.sampled_from(calls))
            history = [*earlier.prompt_ids, *earlier.completion_ids]
            if draw(st.booleans()):
                history = history[: draw(st.integers(1, len(history)))]
        completion = draw(st.lists(st.integers(0, 2), min_size=1, max_size=4))
        calls.append(call([*history, *draw(few)], completion, -float(number)))
    return draw(st.permutations(calls))


@settings(max_examples=60)
@given(wild_calls())
def test_each_sampled_token_is_trained_once_in_its_context(calls: list[Call]) -> None:
    merged = merge([episode(*calls)])
    sampled = Counter(
        ((*one.prompt_ids, *one.completion_ids[:at]), token, one.logprobs[at])
        for one in calls
        for at, token in enumerate(one.completion_ids)
    )
    assert trained_tokens(merged.sequences) == sampled
    paths = {(*one.prompt_ids, *one.completion_ids) for one in calls}
    tree = {path[:end] for path in paths for end in range(1, len(path) + 1)}
    longest = {path for path in paths if not any(other[: len(path)] == path != other for other in paths)}
    total = sum(len(one.prompt_ids) + len(one.completion_ids) for one in calls)
    assert merged.metrics["timeline/merge_limit"] == pytest.approx(total / len(tree))
    distinct = [tuple(sequence.ids.tolist()) for sequence in merged.sequences]
    assert longest <= set(distinct)
    assert merged.metrics["timeline/merge_compression"] == pytest.approx(total / sum(map(len, distinct)))


@settings(max_examples=40)
@given(wild_calls(), st.integers(1, 12))
def test_a_limit_only_ever_leaves_tokens_out(calls: list[Call], max_tokens: int) -> None:
    whole = merge([episode(*calls)])
    merged = merge([episode(*calls)], max_tokens)
    assert all(len(sequence.ids) <= max_tokens for sequence in merged.sequences)
    assert all(sequence.trained.any() for sequence in merged.sequences)
    kept = trained_tokens(merged.sequences)
    assert kept == Counter(
        {token: n for token, n in trained_tokens(whole.sequences).items() if len(token[0]) < max_tokens}
    )
    recall = kept.total() / trained_tokens(whole.sequences).total()
    assert merged.metrics["timeline/trained_token_recall"] == pytest.approx(recall)


def test_what_a_limit_does_is_counted() -> None:
    long = [call([1, 2], [3]), call([1, 2, 3, 4, 5], [6, 7])]
    cut = merge([episode(*long)], 6)
    assert shown(cut) == ["1 2 [3] 4 5 [6]"]
    assert cut.metrics["timeline/truncated_sequences/too_long"] == 1
    assert shown(merge([episode(*long)], 5)) == ["1 2 [3]"]  # nothing trained stands behind
    hopeless = merge([episode(call([1, 2, 3], [4]))], 3)
    assert hopeless.sequences == []
    assert hopeless.metrics["timeline/dropped_sequences/too_long"] == 1


def test_episodes_that_failed_are_counted_and_shift_no_index() -> None:
    good = episode(call([1], [2]))
    merged = merge(
        [replace(good, error="boom"), good, replace(good, reward=None), episode(), good],
    )
    assert [sequence.episode for sequence in merged.sequences] == [1, 4]
    assert {name: value for name, value in merged.metrics.items() if "dropped" in name} == {
        "timeline/dropped_episodes/error": 1,
        "timeline/dropped_episodes/no_reward": 1,
        "timeline/dropped_episodes/nothing_sampled": 1,
    }


def test_lists_merge_as_tuples_do() -> None:
    calls = [Call([1], [2], [-1.0]), Call([1, 2, 3], [4], [-1.0])]  # type: ignore[arg-type]
    assert shown(merge([episode(*calls)])) == ["1 [2] 3 [4]"]


@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_a_call_whose_logprobs_are_not_one_per_token_is_refused(count: int) -> None:
    wrong = Call((1,), (2, 3, 4), (-1.0,) * count)
    for calls in ((wrong,), (wrong, Call((1, 2, 3, 4, 5), (6,), (-1.0,)))):
        with pytest.raises(ValueError, match=f"has {count} logprobs for 3 sampled tokens"):
            merge([episode(*calls)])


def test_no_episodes_merge_to_nothing() -> None:
    assert merge([]).sequences == []


VOCABULARY = {
    1: "user:",
    2: "go",
    3: "od",
    4: "good",
    5: "g",
    6: "oo",
    7: "d",
    8: "next",
    9: "odn",
    10: "ext",
}


def pieces(ids: SequenceOf[int]) -> list[str | None]:
    return [VOCABULARY.get(token) for token in ids]


@pytest.mark.parametrize(
    ("calls", "sequences", "off_context"),
    [
        # "good" was sampled as go·od and comes back as one token
        ([call([1], [2, 3]), call([1, 4, 8], [5])], ["1 [2] [3] 8 [5]"], 1 / 3),
        # twice in a row
        (
            [call([1], [2, 3]), call([1, 4, 8], [5, 6, 7]), call([1, 4, 8, 4, 8], [8])],
            ["1 [2] [3] 8 [5] [6] [7] 8 [8]"],
            4 / 6,
        ),
        # exact histories stay exact, also beside a sibling with the same text
        ([call([1], [4]), call([1], [2, 3]), call([1, 2, 3, 8], [5])], ["1 [4]", "1 [2] [3] 8 [5]"], 0),
        # no token ends where the answer ends
        ([call([1], [2, 3]), call([1, 2, 9, 10], [5])], ["1 [2] [3]", "1 2 9 10 [5]"], 0),
        # a model may sample a token that its tokenizer has not
        ([call([1], [99, 3]), call([1, 8], [5])], ["1 [99] [3]", "1 8 [5]"], 0),
        # an answer without text is no part of the same prompt
        ([call([1, 2], [99]), call([1, 2], [3])], ["1 2 [99]", "1 2 [3]"], 0),
        # other text
        ([call([1], [2, 3]), call([1, 8], [5])], ["1 [2] [3]", "1 8 [5]"], 0),
    ],
)
def test_by_text_the_sampled_tokens_take_the_place_of_those_that_came_back(
    calls: list[Call], sequences: list[str], off_context: float
) -> None:
    merged = merge([episode(*calls)], pieces=pieces)
    assert shown(merged) == sequences
    assert merged.metrics["timeline/off_context"] == pytest.approx(off_context)
    assert merged.metrics["timeline/trained_token_recall"] == 1.0
