"""Supervised warm-up: a fresh model learns to be right sometimes, so that there is something to reinforce."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from trainer_core.algorithm.logits import token_logprobs
from trainer_core.algorithm.losses import masked_mean
from trainer_core.engine.local_inference import LocalInference
from trainer_core.tasks.order import TaskOrder
from trainer_core.tasks.prompts import encode_prompts
from trainer_core.types import DataError, Sampling, Task, TaskSplits

_CHECK_REPEATS = 4
"""Sampled answers per warm-up question when the pass rate is measured."""
_IGNORED = -100


@dataclass(frozen=True)
class WarmupSettings:
    """When the warm-up stops and how it learns."""

    until_pass_rate: float
    max_steps: int
    eval_every: int
    batch_size: int
    lr: float
    lr_warmup_steps: int
    seed: int


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
    settings: WarmupSettings,
    *,
    say: Callable[[str], None],
    safe_point: Callable[[], None],
) -> WarmupOutcome:
    """Train on question and answer (cross-entropy on the answer's tokens) until sampling is right often
    enough.

    Args:
        say: told about the progress, one line each time the pass rate is measured.
        safe_point: called before every step; may raise to stop.
    """
    check = _PassRate(model, tokenizer, tasks.warmup, settings.seed)
    held_out = {task.task_id for task in tasks.warmup}
    training = [task for task in tasks.training if task.task_id not in held_out]
    if not training:
        raise DataError(
            "the warm-up needs at least 2 training tasks; add some, or set model.warmup.enabled: false"
        )
    order = TaskOrder(training, min(settings.batch_size, len(training)), settings.seed)
    encoded = _encode_answers(tokenizer, training)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.lr)
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
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % settings.eval_every == 0 or step == settings.max_steps:
            pass_rate = check.measure()
            say(f"warm-up {step}/{settings.max_steps}, loss {loss.item():.3f}, pass rate {pass_rate:.3f}")
            if pass_rate >= settings.until_pass_rate:
                break
            model.train()
    model.eval()
    return WarmupOutcome(steps=step, pass_rate=pass_rate)


class _PassRate:
    """Samples answers to the warm-up's questions and counts the right ones."""

    def __init__(self, model: Any, tokenizer: Any, tasks: Sequence[Task], seed: int) -> None:
        self._engine = LocalInference(model, tokenizer)
        self._tokenizer = tokenizer
        self._tasks = tasks
        self._seed = seed
        prompts = encode_prompts(tokenizer, tasks)
        self._prompts = [prompts[task.main_query] for task in tasks]
        self._longest = max(len(answer) for _, answer in _encode_answers(tokenizer, tasks).values())

    def measure(self) -> float:
        groups = self._engine.generate(
            self._prompts,
            repeats=_CHECK_REPEATS,
            sampling=Sampling(),
            max_new_tokens=self._longest,
            seed=self._seed,
        )
        right = sum(
            self._tokenizer.decode(completion.token_ids, skip_special_tokens=True).strip()
            == str(task.answer).strip()
            for task, group in zip(self._tasks, groups, strict=True)
            for completion in group
        )
        return right / (len(self._tasks) * _CHECK_REPEATS)


def _encode_answers(tokenizer: Any, tasks: Sequence[Task]) -> dict[str, tuple[list[int], list[int]]]:
    """Prompt ids and answer ids (with the end token) of every task."""
    prompts = encode_prompts(tokenizer, tasks)
    encoded = {}
    for task in tasks:
        if task.answer is None:
            raise DataError(
                f"task {task.task_id!r} has no answer, and the warm-up learns from answers; "
                "add one, or set model.warmup.enabled: false"
            )
        answer = tokenizer(task.answer, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
        encoded[task.task_id] = (list(prompts[task.main_query]), answer)
    return encoded


def _supervised_loss(model: Any, pad_id: int, pairs: Sequence[tuple[list[int], list[int]]]) -> torch.Tensor:
    """Mean cross-entropy of the answer tokens; sequences are padded on the right, which causal attention
    never sees.
    """
    width = max(len(prompt) + len(answer) for prompt, answer in pairs)
    ids = torch.full((len(pairs), width), pad_id)
    targets = torch.full((len(pairs), width), _IGNORED)
    for row, (prompt, answer) in enumerate(pairs):
        end = len(prompt) + len(answer)
        ids[row, :end] = torch.tensor(prompt + answer)
        targets[row, len(prompt) : end] = torch.tensor(answer)
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1].float()
    targets = targets[:, 1:]
    mask = (targets != _IGNORED).float()
    return masked_mean(-token_logprobs(logits, targets.clamp(min=0)), mask)
