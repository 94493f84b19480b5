"""Abnormal answers: what a healthy model does not say, found in the text as it was sampled.

Only what repeats itself exactly counts as a loop, and only where it holds letters, so that no language, no
formula, no table and no list of numbers is abnormal by its kind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from trainer_core.types import Call, Episode, FinishReason

_WINDOW, _STRIDE = 24, 50
"""A loop is looked for from every 50th character on, by the next place where the same 24 stand."""
_LONGEST_PHRASE = 400
_LOOP = 150
"""Characters that repeat what stands one phrase before; a phrase comes six times at least."""
_SPARSE_LOOP = 1000
"""The same where less than half of the phrase is letters, such as rows of hexadecimal zeros; and where it has
none, if a limit cut the answer off within it."""


@dataclass(frozen=True)
class Sampled:
    """An answer as the model wrote it."""

    text: str
    """With special tokens, but for the one that ended it."""
    is_cut: bool = False
    """A limit ended it."""
    turn_marks: frozenset[str] = frozenset()
    """What the chat template writes to begin somebody else's turn."""


def has_nonsense(answer: Sampled) -> bool:
    """True if the model writes the user's turn itself, or ends up in a loop of words or characters."""
    if any(mark in answer.text for mark in answer.turn_marks):
        return True
    text = answer.text
    return any(_loops(text, start, answer.is_cut) for start in range(0, len(text) - _LOOP, _STRIDE))


def _loops(text: str, start: int, is_cut: bool) -> bool:
    """True if a loop goes on from `start`."""
    window = text[start : start + _WINDOW]
    last = start + _LONGEST_PHRASE + _WINDOW
    again = text.find(window, start + 1, last)
    while again >= 0:
        phrase = text[start:again]
        letters, marks = sum(map(str.isalpha, phrase)), len("".join(phrase.split()))
        length = max(_LOOP if 2 * letters >= marks > 0 else _SPARSE_LOOP, 5 * len(phrase))
        if again + length <= len(text) and text.startswith(text[again : again + length], start):
            return letters > 0 or (is_cut and text.startswith(text[again:], start))
        again = text.find(window, again + 1, last)
    return False


def has_other_script(answer: Sampled) -> bool:
    """True if there is any character beyond ASCII."""
    return not answer.text.isascii()


def has_wrong_tool_call(answer: Sampled) -> bool:
    """True if a `<tool_call>` is not closed, or holds neither a JSON object with a name and an object of
    arguments nor a `<function=…>`."""
    outside, *rest = re.split(r"<tool_call>(.*?)</tool_call>", answer.text, flags=re.DOTALL)
    calls, outside = rest[::2], "".join([outside, *rest[1::2]])
    return bool(re.search("</?tool_call>", outside)) or not all(map(_is_tool_call, calls))


def _is_tool_call(text: str) -> bool:
    text = text.strip()
    if text.startswith("<function=") and text.endswith("</function>"):
        return True
    try:
        call = json.loads(text)
    except ValueError:
        return False
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return False
    return isinstance(call.get("arguments", call.get("parameters", {})), dict)


def has_unpaired_think(answer: Sampled) -> bool:
    """True if the `<think>` and `</think>` do not come in pairs, one after the other."""
    marks = re.findall(r"</?think>", answer.text)
    return marks != ["<think>", "</think>"] * (len(marks) // 2)


def breaks_format_type_1(answer: Sampled) -> bool:
    """True unless it is one `<think>…</think>` and then one ```python block."""
    marks = re.findall(r"</?think>", answer.text)
    said = answer.text.partition("</think>")[2]
    block = re.fullmatch(r"\s*```python\n((?!```).)*```\s*", said, flags=re.DOTALL)
    return marks != ["<think>", "</think>"] or block is None


_CHECKS: Mapping[str, Callable[[Sampled], bool]] = {
    "nonsense": has_nonsense,
    "non_ascii": has_other_script,
    "wrong_toolcall": has_wrong_tool_call,
    "format_type_1": breaks_format_type_1,
    "un-paired-think": has_unpaired_think,
}
"""By their names in `ajet.rollout.compute_madness_checklist`."""


def abnormality(answer: Sampled, checks: Iterable[str]) -> str | None:
    """The first of the checks that the answer does not pass; None: it is normal."""
    return next((name for name in checks if _CHECKS[name](answer)), None)


def is_abnormal(episode: Episode) -> bool:
    """True if `AbnormalAnswers` has marked the episode."""
    return any(name.startswith("rollout/abnormal/") for name in episode.metrics)


class AbnormalAnswers:
    """What becomes of episodes with an abnormal answer."""

    def __init__(self, tokenizer: Any, checks: Sequence[str], *, reward: float, ends: bool) -> None:
        """`reward`: what such an episode earns. `ends`: the calls after the abnormal one are left out."""
        self._tokenizer = tokenizer
        self._checks = tuple(checks)
        self._reward = reward
        self._ends = ends
        self._marks = turn_marks(tokenizer) if "nonsense" in checks else frozenset[str]()

    def marked(self, episode: Episode) -> Episode:
        """The episode, with reward and metric `rollout/abnormal/<check>` where an answer is abnormal."""
        if not self._checks or episode.error is not None:
            return episode
        for number, call in enumerate(episode.calls, 1):
            if (reason := abnormality(self._sampled(call), self._checks)) is not None:
                calls = episode.calls[:number] if self._ends else episode.calls
                metrics = {**episode.metrics, f"rollout/abnormal/{reason}": 1.0}
                return replace(episode, calls=calls, reward=self._reward, is_success=False, metrics=metrics)
        return episode

    def _sampled(self, call: Call) -> Sampled:
        ids = list(call.completion_ids)
        is_cut = call.finish_reason is FinishReason.LENGTH
        if ids and not is_cut and ids[-1] in self._tokenizer.all_special_ids:
            ids.pop()
        text = self._tokenizer.decode(ids, skip_special_tokens=False)
        before = self._tokenizer.decode(list(call.prompt_ids[-8:]), skip_special_tokens=False)
        opened = "<think>" if before.rstrip().endswith("<think>") else ""  # some templates open the thoughts
        return Sampled(opened + text, is_cut, self._marks)


def turn_marks(tokenizer: Any) -> frozenset[str]:
    """What the chat template writes to begin a user's turn, such as `<|im_start|>user`; where the model ends
    each turn with one token, also the first special token of that."""
    turns = [{"role": role, "content": f"~{role}~"} for role in ("user", "assistant", "user")]
    try:
        first = tokenizer.apply_chat_template(turns[:1], tokenize=False)
        both = tokenizer.apply_chat_template(turns, tokenize=False)
    except Exception:  # noqa: BLE001  (templates are programs of their own and raise what they like)
        return frozenset()
    before = first.partition("~user~")[0]
    between = both.rpartition("~user~")[0].rpartition("~assistant~")[2]
    same = takewhile(lambda pair: pair[0] == pair[1], zip(before[::-1], between[::-1], strict=False))
    mark = between[len(between) - len(list(same)) :]
    end = tokenizer.eos_token or ""
    mark = (mark.rpartition(end)[2] if end else mark).strip()
    found = {mark} if any(token in mark for token in tokenizer.all_special_tokens) else set()
    if end and end in between:
        found |= {token for token in tokenizer.all_special_tokens if mark.startswith(token)}
    return frozenset(found - {""})
