"""From the calls of episodes to sequences: shared history once, each sampled token trained once."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from trainer_core.ids import shared_beginning
from trainer_core.timeline.drift import splice_recorded
from trainer_core.types import Call, Episode, Sequence

_AFTER_ALL = b"\xff" * 4
"""What is sorted behind any token."""


@dataclass(frozen=True)
class Merged:
    """What is trained on."""

    sequences: list[Sequence]
    """Those of one episode lie together; `episode` counts all episodes that were given, merged or not."""
    metrics: dict[str, float]
    """`timeline/merge_compression`: tokens of all calls / tokens of the sequences, and
    `timeline/merge_limit`: / tokens of the prefix tree, which is what a model that computes each node once
    would reach; both before sequences are cut. `timeline/trained_token_recall`: sampled tokens
    that are trained / sampled tokens of the merged episodes. `timeline/sequences` and, where it happened,
    how many were cut or left out and why: `timeline/dropped_episodes/{error,no_reward,nothing_sampled}`,
    `timeline/{dropped,truncated}_sequences/too_long`. With text comparison `timeline/off_context`: share of
    the sampled tokens that are trained after other tokens than they were sampled after."""


def merge(
    episodes: Iterable[Episode],
    max_tokens: int | None = None,
    *,
    pieces: Callable[[SequenceOf[int]], SequenceOf[str | None]] | None = None,
) -> Merged:
    """Merge the calls of each episode; those that failed or have no reward are counted and left out.

    Each sampled token is trained once, after exactly the tokens it was sampled after. History that several
    sequences share is trained in one of them. Answers to the same prompt are samples of their own,
    also where they begin alike or are the same: a policy gradient that counted them once would be biased
    towards the rarer answer.

    Args:
        max_tokens: after which a sequence is cut, prompts, answers and all; one that then has nothing to
            train is left out. None: no limit.
        pieces: the text of each token, such as a Hugging Face tokenizer's `convert_ids_to_tokens`;
        given, histories are compared by text.

    Raises:
        ValueError: a call has not one log-probability for each sampled token.
    """
    count: Counter[str] = Counter()
    sequences: list[Sequence] = []
    for index, episode in enumerate(episodes):
        calls = [call for call in episode.calls if call.completion_ids]
        if episode.error is not None or episode.reward is None or not calls:
            why = "error" if episode.error is not None else "nothing_sampled" if not calls else "no_reward"
            count[f"dropped_episodes/{why}"] += 1
            continue
        for call in calls:
            if len(call.logprobs) != len(call.completion_ids):
                told = f"{len(call.logprobs)} logprobs for {len(call.completion_ids)} sampled tokens"
                raise ValueError(f"a call of task {episode.task.task_id!r} has {told}")
        count["calls"] += sum(map(_length, calls))
        count["sampled"] += sum(len(call.completion_ids) for call in calls)
        if pieces is not None:
            calls, spliced = splice_recorded(calls, pieces)
            count["off_context"] += spliced
        sequences.extend(row.sequence(index) for row in _rows(calls, max_tokens, count))
    trained = sum(int(np.count_nonzero(sequence.trained)) for sequence in sequences)
    metrics = {
        "timeline/sequences": len(sequences),
        "timeline/merge_compression": count["calls"] / max(1, count["paths"]),
        "timeline/merge_limit": count["calls"] / max(1, count["tree"]),
        "timeline/trained_token_recall": trained / max(1, count["sampled"]),
        **{f"timeline/{why}": number for why, number in sorted(count.items()) if "/" in why and number},
    }
    if pieces is not None:
        metrics["timeline/off_context"] = count["off_context"] / max(1, count["sampled"])
    return Merged(sequences, metrics)


def _length(call: Call) -> int:
    return len(call.prompt_ids) + len(call.completion_ids)


class _Row:
    """A sequence in the making."""

    __slots__ = ("ids", "is_cut", "logprobs", "path", "trained")

    def __init__(self, path: bytes, max_tokens: int | None) -> None:
        self.path = np.array(memoryview(path).cast("i"))
        self.ids = self.path[:max_tokens]
        self.is_cut = len(self.ids) < len(self.path)
        self.trained = np.zeros(len(self.ids), np.bool_)
        self.logprobs = np.zeros(len(self.ids), np.float32)

    def takes(self, call: Call) -> bool:
        """Train its answer here, unless some of these tokens are the place of another one."""
        before = len(call.prompt_ids)
        start = max(1, before)  # the very first token has nothing to be predicted from
        end = min(_length(call), len(self.ids))
        if self.trained[start:end].any():
            return False
        self.trained[start:end] = True
        self.logprobs[start:end] = call.logprobs[start - before : max(0, end - before)]
        return True

    def sequence(self, episode: int) -> Sequence:
        """As it is trained; nothing stands behind the last trained token."""
        end = int(np.flatnonzero(self.trained)[-1]) + 1 if self.is_cut else len(self.ids)
        return Sequence(self.ids[:end], self.trained[:end], self.logprobs[:end], episode)


def _rows(calls: SequenceOf[Call], max_tokens: int | None, count: Counter[str]) -> list[_Row]:
    """One sequence for each path through an episode's calls that no other goes on from, and one for each
    answer that has no place of its own there, because the same tokens were sampled again. Counts the tokens
    of their `paths` and of the prefix `tree`, and what is left out or cut."""
    paths = [_path(call) for call in calls]
    ends = sorted(set(paths))  # a path stands right before those that go on from it
    leaves = [end for end, after in zip(ends, [*ends[1:], b""], strict=True) if not after.startswith(end)]
    made = {leaf: _Row(leaf, max_tokens) for leaf in leaves}
    rows = [made[path] for path in dict.fromkeys(paths) if path in made]
    for call, path in zip(calls, paths, strict=True):
        through = leaves[bisect_left(leaves, path) : bisect_right(leaves, path + _AFTER_ALL)]
        if not any(made[leaf].takes(call) for leaf in through):
            rows.append(_Row(path, max_tokens))
            rows[-1].takes(call)
    trained = [row for row in rows if row.trained.any()]
    count["paths"] += sum(len(row.path) for row in rows)
    shared = sum(shared_beginning(made[one].path, made[other].path) for one, other in pairwise(leaves))
    count["tree"] += sum(len(row.path) for row in made.values()) - shared
    count["dropped_sequences/too_long"] += len(rows) - len(trained)
    count["truncated_sequences/too_long"] += sum(row.is_cut for row in trained)
    return trained


def _path(call: Call) -> bytes:
    """The tokens of a call, prompt and answer, in a form that is compared fast."""
    ids = array("i", call.prompt_ids)
    ids.extend(call.completion_ids)
    return ids.tobytes()
