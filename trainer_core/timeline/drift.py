"""Histories whose text is that of a recorded call, but whose tokens are not.

An agent sends its history as text. Tokenised again, an answer may fall into other tokens than were sampled.
Here the recorded tokens are put in their place, so that such calls merge; see the room's docstring for what
that costs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import accumulate

from trainer_core.timeline.radix import Node, RadixTree

Ids = tuple[int, ...]


def splice_recorded(
    prompts: Sequence[Ids], completions: Sequence[Ids], pieces: Callable[[Sequence[int]], Sequence[str]]
) -> tuple[list[Ids], int]:
    """Put recorded tokens in the place of other tokens with the same text.

    Where the text of a prompt begins with that of an earlier prompt and answer, and a token ends where that
    answer ends, the prompt's beginning becomes the earlier tokens; the longest such beginning counts.

    Args:
        pieces: the text of each token; they are compared joined.

    Returns:
        The prompts, and how many tokens were sampled after a prompt that was changed.
    """
    tree: RadixTree[str] = RadixTree("")
    recorded: dict[Node[str], list[Ids]] = {}
    spliced: list[Ids] = []
    off_context = 0
    for prompt, completion in zip(prompts, completions, strict=True):
        parts = pieces(prompt)
        ends = list(accumulate(map(len, parts)))
        text = "".join(parts)
        calls = [(node.end, recorded[node]) for node in tree.prefixes(text) if node in recorded]
        new = _splice(prompt, ends, calls)
        if new != prompt:
            off_context += len(completion)
        spliced.append(new)
        end = tree.insert(text, "".join(pieces(completion)))
        recorded.setdefault(end, []).append(new + completion)
    return spliced, off_context


def _splice(prompt: Ids, ends: Sequence[int], calls: Sequence[tuple[int, Sequence[Ids]]]) -> Ids:
    """`calls`: length of text and recorded tokens of the calls that the prompt begins with, shortest
    first."""
    for length, recorded in reversed(calls):
        if any(prompt[: len(ids)] == ids for ids in recorded):
            return prompt
        behind = bisect_left(ends, length) + 1
        if behind <= len(ends) and ends[behind - 1] == length:
            return recorded[0] + prompt[behind:]
    return prompt
