"""Histories whose text is that of a recorded call, but whose tokens are not.

An agent sends its history as text. Tokenised again, an answer may fall into other tokens than were sampled.
Here the recorded tokens are put in their place, so that such calls merge; see the room's docstring for what
that costs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from trainer_core.types import Call

Ids = tuple[int, ...]


def splice_recorded(
    calls: Sequence[Call], pieces: Callable[[Sequence[int]], Sequence[str | None]]
) -> tuple[list[Call], int]:
    """Put recorded tokens in the place of other tokens with the same text.

    Where the text of a prompt begins with that of an earlier prompt and answer, and a token ends where that
    answer ends, the prompt's beginning becomes the earlier tokens; the longest such beginning counts.
    An answer without text is not looked for.

    Args:
        pieces: the text of each token, None where the tokenizer has none; they are compared joined.

    Returns:
        The calls, and how many tokens were sampled after a prompt that was changed.
    """
    recorded: dict[str, list[Ids]] = {}
    spliced: list[Call] = []
    off_context = 0
    for call in calls:
        prompt, completion = tuple(call.prompt_ids), tuple(call.completion_ids)
        parts = [piece or "" for piece in pieces(prompt)]
        text = "".join(parts)
        new = _splice(prompt, list(accumulate(map(len, parts))), text, recorded)
        if new != prompt:
            off_context += len(completion)
        spliced.append(replace(call, prompt_ids=new, completion_ids=completion))
        if sampled := "".join(piece or "" for piece in pieces(completion)):
            recorded.setdefault(text + sampled, []).append(new + completion)
    return spliced, off_context


def _splice(prompt: Ids, ends: Sequence[int], text: str, recorded: Mapping[str, Sequence[Ids]]) -> Ids:
    """`ends`: where in the text each token of the prompt ends."""
    for earlier in sorted(recorded, key=len, reverse=True):
        if not text.startswith(earlier):
            continue
        if any(prompt[: len(ids)] == ids for ids in recorded[earlier]):
            return prompt
        behind = bisect_left(ends, len(earlier)) + 1
        if behind <= len(ends) and ends[behind - 1] == len(earlier):
            return recorded[earlier][0] + prompt[behind:]
    return prompt
