"""From the calls of episodes to sequences: shared history once, each sampled token trained once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trainer_core.timeline.drift import splice_recorded
from trainer_core.timeline.radix import Node, RadixTree
from trainer_core.types import Call, Episode, Sequence

Ids = tuple[int, ...]
_Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Limits:
    """How long a sequence may be."""

    max_tokens: int | None = None
    """Prompts, answers and all; None: no limit."""
    too_long: Literal["truncate", "drop"] = "truncate"
    """What becomes of a longer one: cut after `max_tokens`, or left out."""


@dataclass(frozen=True)
class Merged:
    """What is trained on."""

    sequences: list[Sequence]
    """Those of one episode lie together; `episode` counts all episodes that were given, merged or not."""
    metrics: dict[str, float]
    """`timeline/merge_compression`: tokens of all calls / tokens of the sequences, and
    `timeline/merge_limit`: / tokens of the prefix tree, which is what a model that computes each node once
    would reach; both before sequences are cut or left out. `timeline/trained_token_recall`: sampled tokens
    that are trained / sampled tokens of the merged episodes. `timeline/sequences` and, where it happened,
    how many were cut or left out and why: `timeline/dropped_episodes/{error,no_reward,nothing_sampled}`,
    `timeline/{dropped,truncated}_sequences/too_long`. With text comparison `timeline/off_context`: share of
    the sampled tokens that are trained after other tokens than they were sampled after."""


def merge(
    episodes: Iterable[Episode],
    limits: Limits = Limits(),
    *,
    pieces: Callable[[SequenceOf[int]], SequenceOf[str]] | None = None,
) -> Merged:
    """Merge the calls of each episode; those that failed or have no reward are counted and left out.

    Each sampled token is trained once, after exactly the tokens it was sampled after. History that several
    sequences share is trained in the first of them. Answers to the same prompt are samples of their own,
    also where they begin alike or are the same: a policy gradient that counted them once would be biased
    towards the rarer answer.

    Args:
        pieces: the text of each token, such as a Hugging Face tokenizer's `convert_ids_to_tokens`;
        given, histories are compared by text.

    Raises:
        ValueError: a call has not one log-probability for each sampled token.
    """
    count = _Count()
    sequences: list[Sequence] = []
    for index, episode in enumerate(episodes):
        calls = [call for call in episode.calls if call.completion_ids]
        if episode.error is not None or episode.reward is None or not calls:
            why = "error" if episode.error is not None else "nothing_sampled" if not calls else "no_reward"
            count.reasons[f"dropped_episodes/{why}"] += 1
            continue
        for call in calls:
            if len(call.logprobs) != len(call.completion_ids):
                told = f"{len(call.logprobs)} logprobs for {len(call.completion_ids)} sampled tokens"
                raise ValueError(f"a call of task {episode.task.task_id!r} has {told}")
        if len(calls) == 1 and _fits(calls[0], limits):
            sequences.append(_of_one_call(calls[0], index, count))
            continue
        prompts = [tuple(call.prompt_ids) for call in calls]
        completions = [tuple(call.completion_ids) for call in calls]
        if pieces is not None:
            prompts, count_spliced = splice_recorded(prompts, completions, pieces)
            count.off_context += count_spliced
        samples = [
            _Sample(prompt, completion, call.logprobs)
            for prompt, completion, call in zip(prompts, completions, calls, strict=True)
        ]
        sequences.extend(row.sequence(index) for row in _rows(samples, limits, count))
    metrics = count.metrics(sequences)
    if pieces is not None:
        metrics["timeline/off_context"] = count.off_context / max(1, count.sampled)
    return Merged(sequences, metrics)


def _fits(call: Call, limits: Limits) -> bool:
    length = len(call.prompt_ids) + len(call.completion_ids)
    return bool(call.prompt_ids) and (limits.max_tokens is None or length <= limits.max_tokens)


def _of_one_call(call: Call, episode: int, count: _Count) -> Sequence:
    """What `_rows` would come to, for the commonest episode."""
    before, sampled = len(call.prompt_ids), len(call.completion_ids)
    whole = before + sampled
    count.calls += whole
    count.tree += whole
    count.paths += whole
    count.sampled += sampled
    logprobs = np.zeros(whole, np.float32)
    logprobs[before:] = call.logprobs
    return Sequence(
        np.array((*call.prompt_ids, *call.completion_ids), np.int32),
        np.arange(whole) >= before,
        logprobs,
        episode,
    )


class _Count:
    """Tokens by kind, and what was cut or left out."""

    def __init__(self) -> None:
        self.calls = self.tree = self.paths = self.sampled = self.off_context = 0
        self.reasons: Counter[str] = Counter()

    def metrics(self, sequences: SequenceOf[Sequence]) -> dict[str, float]:
        trained = sum(int(np.count_nonzero(sequence.trained)) for sequence in sequences)
        return {
            "timeline/sequences": len(sequences),
            "timeline/merge_compression": self.calls / max(1, self.paths),
            "timeline/merge_limit": self.calls / max(1, self.tree),
            "timeline/trained_token_recall": trained / max(1, self.sampled),
            **{f"timeline/{reason}": number for reason, number in sorted(self.reasons.items()) if number},
        }


@dataclass(frozen=True, slots=True)
class _Sample:
    """One call."""

    prompt: Ids
    completion: Ids
    logprobs: SequenceOf[float]

    def __len__(self) -> int:
        return len(self.prompt) + len(self.completion)


class _Row:
    """A sequence in the making."""

    __slots__ = ("ids", "is_cut", "logprobs", "trained")

    def __init__(self, ids: _Array, max_tokens: int | None) -> None:
        self.is_cut = max_tokens is not None and len(ids) > max_tokens
        self.ids = ids[:max_tokens]
        self.trained = np.zeros(len(self.ids), np.bool_)
        self.logprobs = np.zeros(len(self.ids), np.float32)

    def takes(self, sample: _Sample) -> bool:
        """Train these tokens here, unless some are the place of another sample."""
        before = len(sample.prompt)
        start = max(1, before)  # the very first token has nothing to be predicted from
        end = min(len(sample), len(self.ids))
        if self.trained[start:end].any():
            return False
        self.trained[start:end] = True
        self.logprobs[start:end] = sample.logprobs[start - before : max(0, end - before)]
        return True

    def sequence(self, episode: int) -> Sequence:
        """As it is trained; nothing stands behind the last trained token."""
        end = int(np.flatnonzero(self.trained)[-1]) + 1 if self.is_cut else len(self.ids)
        return Sequence(self.ids[:end], self.trained[:end], self.logprobs[:end], episode)


def _rows(samples: SequenceOf[_Sample], limits: Limits, count: _Count) -> list[_Row]:
    """One sequence for each path through the tree of an episode's calls, and one for each answer that has
    no place of its own there, because the same tokens were sampled again."""
    paths, through, tree_tokens = _paths(samples)
    drop_above = limits.max_tokens if limits.too_long == "drop" else None
    rows = {
        number: _Row(path, limits.max_tokens)
        for number, path in enumerate(paths)
        if drop_above is None or len(path) <= drop_above
    }
    again = []
    for sample, leaves in zip(samples, through, strict=True):
        kept = [leaf for leaf in leaves if leaf in rows]
        if kept and not any(rows[leaf].takes(sample) for leaf in kept):
            path = paths[leaves.start][: len(sample)]
            again.append(_Row(path, limits.max_tokens))
            again[-1].takes(sample)
            count.paths += len(path)
    trained = [row for row in (*rows.values(), *again) if row.trained.any()]
    count.calls += sum(map(len, samples))
    count.sampled += sum(len(sample.completion) for sample in samples)
    count.paths += sum(map(len, paths))
    count.tree += tree_tokens
    count.reasons["dropped_sequences/too_long"] += len(paths) + len(again) - len(trained)
    count.reasons["truncated_sequences/too_long"] += sum(row.is_cut for row in trained)
    return trained


def _paths(samples: SequenceOf[_Sample]) -> tuple[list[_Array], list[range], int]:
    """The ids along each path from the root of the samples' tree to a leaf; for each sample the numbers of
    the paths that go through its last token; the tokens of the tree."""
    if len(samples) == 1:
        return [_array(samples[0].prompt + samples[0].completion)], [range(1)], len(samples[0])
    tree: RadixTree[Ids] = RadixTree(())
    ends = [tree.insert(sample.prompt, sample.completion) for sample in samples]
    arrays: dict[Node[Ids], _Array] = {}
    first: dict[Node[Ids], int] = {}
    paths: list[_Array] = []
    for node in tree.nodes():
        arrays[node] = _array(node.part)
        first[node] = len(paths)
        if not node.children:
            paths.append(np.concatenate([arrays[part] for part in node.path()]))
    width = dict.fromkeys(arrays, 1)
    for node in reversed(arrays):
        if node.children:
            width[node] = sum(width[child] for child in node.children.values())
    through = [range(first[end], first[end] + width[end]) for end in ends]
    return paths, through, sum(map(len, arrays.values()))


def _array(ids: Ids) -> _Array:
    return np.fromiter(ids, np.int32, len(ids))
