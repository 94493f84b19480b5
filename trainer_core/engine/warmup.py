"""Supervised warm-up: a fresh model learns to be right sometimes, so that there is something to reinforce."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.utils.rnn import pad_sequence

from trainer_core.bounds import CACHE_BYTES
from trainer_core.engine.decoding import Decoder
from trainer_core.engine.protocols import Request
from trainer_core.tasks.order import TaskOrder
from trainer_core.tasks.prompts import Prompts
from trainer_core.types import DataError, Sampling, Task, TaskSplits

if TYPE_CHECKING:
    from trainer_core.config.model import Warmup

_CHECK_REPEATS = 4
"""Sampled answers per warm-up question when the pass rate is measured."""
_IGNORED = -100
"""A target that `cross_entropy` leaves out."""
_Pair = tuple[list[int], list[int]]


@dataclass(frozen=True)
class WarmupOutcome:
    """How the warm-up ended."""

    steps: int
    pass_rate: float
    """Share of right answers sampled at temperature 1 on the warm-up's own split."""


def warm_up(
    model: Any,
    tokenizer: Any,
    tasks: TaskSplits,
    settings: Warmup,
    *,
    seed: int,
    say: Callable[[str], None],
    safe_point: Callable[[], None],
) -> WarmupOutcome:
    """Train on question and answer (cross-entropy on the answer's tokens) until sampling is right often
    enough.

    Args:
        say: told about the progress, one line each time the pass rate is measured.
        safe_point: called before every step; may raise to stop.
    """
    decoder, questions = Decoder(model, tokenizer, cache_bytes=CACHE_BYTES), _encoded(tokenizer, tasks.warmup)
    held_out = {task.task_id for task in tasks.warmup}
    training = [task for task in tasks.training if task.task_id not in held_out]
    if not training:
        raise DataError(
            "the warm-up needs at least 2 training tasks; add some, or set model.warmup.enabled: false"
        )
    order = TaskOrder(training, min(settings.batch_size, len(training)), seed)
    encoded = _encoded(tokenizer, training)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.lr, fused=True)
    model.train()
    step, pass_rate = 0, 0.0
    for step in range(1, settings.max_steps + 1):
        safe_point()
        for group in optimizer.param_groups:
            group["lr"] = settings.lr * min(1.0, step / max(1, settings.lr_warmup_steps))
        loss = _supervised_loss(
            model, tokenizer.pad_token_id, [encoded[task.task_id] for task in order.tasks_of_step(step)]
        )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        if step % settings.eval_every == 0 or step == settings.max_steps:
            pass_rate = _pass_rate(decoder, tokenizer, tasks.warmup, questions, seed)
            say(f"warm-up {step}/{settings.max_steps}, loss {loss.item():.3f}, pass rate {pass_rate:.3f}")
            if pass_rate >= settings.until_pass_rate:
                break
            model.train()
    model.eval()
    return WarmupOutcome(steps=step, pass_rate=pass_rate)


def _pass_rate(
    decoder: Decoder, tokenizer: Any, tasks: Sequence[Task], encoded: Mapping[str, _Pair], seed: int
) -> float:
    """The share of right answers among those sampled."""
    longest = max(len(answer) for _, answer in encoded.values())
    groups = decoder.generate(
        Request(encoded[task.task_id][0], Sampling(), longest, n=_CHECK_REPEATS, seed=seed + n)
        for n, task in enumerate(tasks)
    )
    right = sum(
        tokenizer.decode(answer.ids, skip_special_tokens=True).strip() == str(task.answer).strip()
        for task, group in zip(tasks, groups, strict=True)
        for answer in group
    )
    return right / (len(tasks) * _CHECK_REPEATS)


def _encoded(tokenizer: Any, tasks: Sequence[Task]) -> dict[str, _Pair]:
    """Prompt ids and answer ids (with the end token) of every task."""
    for task in tasks:
        if task.answer is None:
            raise DataError(
                f"task {task.task_id!r} has no answer, and the warm-up learns from answers; "
                "add one, or set model.warmup.enabled: false"
            )
    answers = tokenizer([task.answer for task in tasks], add_special_tokens=False)["input_ids"]
    return {
        task.task_id: (list(prompt), [*answer, tokenizer.eos_token_id])
        for task, prompt, answer in zip(tasks, Prompts(tokenizer).ids(tasks), answers, strict=True)
    }


def _supervised_loss(model: Any, pad_id: int, pairs: Sequence[_Pair]) -> torch.Tensor:
    """Mean cross-entropy of the answer tokens; the padding on the right is never seen by causal attention."""
    rows = [torch.tensor(prompt + answer) for prompt, answer in pairs]
    marked = [torch.tensor([_IGNORED] * len(prompt) + answer) for prompt, answer in pairs]
    ids = pad_sequence(rows, batch_first=True, padding_value=pad_id)
    targets = pad_sequence(marked, batch_first=True, padding_value=_IGNORED)
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1].float()
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), targets[:, 1:].flatten(), ignore_index=_IGNORED
    )
