"""Histories whose text is that of a recorded call, but whose tokens are not.

An agent sends its history as text. Tokenised again, an answer may fall into other tokens than were sampled.
Here the recorded tokens are put in their place, so that such calls merge; see the room's docstring for what
that costs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate

from trainer_core.timeline.radix import Node, RadixTree
from trainer_core.types import Call

Ids = tuple[int, ...]


def splice_recorded(
    calls: Sequence[Call], pieces: Callable[[Sequence[int]], Sequence[str]]
) -> tuple[list[Call], int]:
    """Put recorded tokens in the place of other tokens with the same text.

    Where the text of a prompt begins with that of an earlier prompt and answer, and a token ends where that
    answer ends, the prompt's beginning becomes the earlier tokens; the longest such beginning counts.

    Args:
        pieces: the text of each token; they are compared joined.

    Returns:
        The calls, and how many tokens were sampled after a prompt that was changed.
    """
    tree: RadixTree[str] = RadixTree("")
    recorded: dict[Node[str], list[Ids]] = {}
    spliced: list[Call] = []
    off_context = 0
    for call in calls:
        parts = pieces(call.prompt_ids)
        ends = list(accumulate(map(len, parts)))
        text = "".join(parts)
        earlier = [(node.end, recorded[node]) for node in tree.prefixes(text) if node in recorded]
        new = _splice(call.prompt_ids, ends, earlier)
        if new != call.prompt_ids:
            off_context += len(call.completion_ids)
        spliced.append(replace(call, prompt_ids=new))
        end = tree.insert(text, "".join(pieces(call.completion_ids)))
        recorded.setdefault(end, []).append(new + call.completion_ids)
    return spliced, off_context


def _splice(prompt: Ids, ends: Sequence[int], earlier: Sequence[tuple[int, Sequence[Ids]]]) -> Ids:
    """`earlier`: length of text and recorded tokens of the calls that the prompt begins with, shortest
    first."""
    for length, recorded in reversed(earlier):
        if any(prompt[: len(ids)] == ids for ids in recorded):
            return prompt
        behind = bisect_left(ends, length) + 1
        if behind <= len(ends) and ends[behind - 1] == length:
            return recorded[0] + prompt[behind:]
    return prompt
