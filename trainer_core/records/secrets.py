"""Keys and passwords out of what is stored for people to read: found by the shapes of well-known services.

In: an episode. Out: one whose texts say `[redacted]` there, and whose tokens there are `MASKED`.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Any

from trainer_core.types import Episode, Task

MASKED = -1
"""Stands for the id of a token that was part of a secret."""
MASK = "[redacted]"

_SHAPES = tuple(
    (hint, re.compile(pattern, re.DOTALL))
    for hint, pattern in (
        ("PRIVATE KEY", r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY.*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\Z)"),
        ("sk-", r"\bsk-(?=[\w-]{0,100}\d)[\w-]{16,}"),
        ("_live_", r"\b[sr]k_live_\w{12,}"),
        ("gh", r"\bgh[oprsu]_\w{20,}"),
        ("github_pat_", r"\bgithub_pat_\w{20,}"),
        ("glpat-", r"\bglpat-[\w-]{16,}"),
        ("hf_", r"\bhf_[A-Za-z0-9]{20,}"),
        ("xox", r"\bxox[abeoprs]-(?=[\w-]{0,60}\d)[\w-]{10,}"),
        ("AIza", r"\bAIza[\w-]{30,}"),
        ("AKIA", r"\bAKIA[A-Z0-9]{16}\b"),
        ("ASIA", r"\bASIA[A-Z0-9]{16}\b"),
        ("ccess", r"(?i)aws_?secret_?access_?key\W{1,5}[\w/+=]{40}"),
        ("eyJ", r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"),
        ("earer", r"\b[Bb]earer\s{1,3}[\w.~+/=-]{16,}"),
    )
)
"""What a secret looks like, behind a piece of text without which none is there: looking for that is cheap."""


def masked_episode(episode: Episode, task: Task, pieces: Mapping[int, str]) -> Episode:
    """The episode without secrets, on a task that has none. `pieces`: the text of each token."""
    calls = []
    for call in episode.calls:
        kept = _masked_ids(call.prompt_ids + call.completion_ids, pieces)
        before = len(call.prompt_ids)
        calls.append(replace(call, prompt_ids=kept[:before], completion_ids=kept[before:]) if kept else call)
    error = None if episode.error is None else masked_text(episode.error)
    return replace(episode, task=task, calls=tuple(calls), output=masked_text(episode.output), error=error)


def masked_task(task: Task) -> Task:
    """The task without secrets."""
    return Task(**{name: _masked(value) for name, value in vars(task).items()})


def masked_text(text: str) -> str:
    """The text without secrets."""
    for start, end in reversed(_spans(text)):
        text = text[:start] + MASK + text[end:]
    return text


def _masked(value: Any) -> Any:
    if isinstance(value, str):
        return masked_text(value)
    if isinstance(value, Mapping):
        return {_masked(key): _masked(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_masked, value))
    return list(map(_masked, value)) if isinstance(value, list) else value


def _masked_ids(ids: tuple[int, ...], pieces: Mapping[int, str]) -> tuple[int, ...]:
    """Empty where nothing is masked."""
    parts = [pieces[each] for each in ids]
    if not (spans := _spans("".join(parts))):
        return ()
    ends, kept = list(accumulate(map(len, parts))), list(ids)
    for start, end in spans:
        first, last = bisect_right(ends, start), bisect_left(ends, end)
        kept[first : last + 1] = [MASKED] * (last + 1 - first)
    return tuple(kept)


def _spans(text: str) -> list[tuple[int, int]]:
    """Where secrets stand, in order and apart."""
    found = [match.span() for hint, pattern in _SHAPES if hint in text for match in pattern.finditer(text)]
    spans: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if spans and start < spans[-1][1]:
            start, end = spans[-1][0], max(end, spans.pop()[1])
        spans.append((start, end))
    return spans
