"""Policy-gradient updates of a transformers model in this process, on the CPU, in float32."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from trainer_core.algorithm.kl import kl_estimate
from trainer_core.algorithm.logits import entropy, token_logprobs
from trainer_core.algorithm.losses import aggregate, clipped_policy_loss
from trainer_core.types import TokenBatch, TrainingError

_LOGITS_AT_ONCE = 2**25
"""A forward pass takes as many rows as keep rows × response tokens × vocabulary below this (128 MB in
float32).
"""


@dataclass(frozen=True)
class UpdateSettings:
    """Everything that decides what an optimizer step does."""

    lr: float
    betas: tuple[float, float]
    weight_decay: float
    grad_clip: float
    """Largest norm of the whole gradient."""
    lr_warmup_steps: int
    """Training steps over which the learning rate ramps up linearly; the first step already trains."""
    temperature: float
    """Of the rollouts: log-probabilities are those of softmax(logits / temperature)."""
    mini_batch_num: int
    ppo_epochs: int
    clip_ratio_low: float
    clip_ratio_high: float
    kl_loss_coef: float | None
    """None leaves the KL loss out."""
    kl_loss_type: str
    seed: int
    """Of the shuffle that cuts a batch into mini-batches."""

    def learning_rate(self, step: int) -> float:
        """The learning rate of a training step; steps count from 1."""
        return self.lr * min(1.0, step / max(1, self.lr_warmup_steps))


class LocalTraining:
    """AdamW on a model shared with the inference engine, with a frozen copy of the start policy as reference.

    The model stays in eval mode: without dropout the ratio measures the change of the weights and nothing
    else.
    """

    def __init__(self, model: Any, reference: Any | None, settings: UpdateSettings) -> None:
        self._model = model.eval()
        self._reference = reference.eval().requires_grad_(False) if reference is not None else None
        self._settings = settings
        self._optimizer = torch.optim.AdamW(
            model.parameters(), lr=settings.lr, betas=settings.betas, weight_decay=settings.weight_decay
        )

    @torch.no_grad()
    def logprobs(self, batch: TokenBatch) -> torch.Tensor:
        """See `TrainingEngine.logprobs`."""
        return self._logprobs_under(self._model, batch)

    @torch.no_grad()
    def reference_logprobs(self, batch: TokenBatch) -> torch.Tensor:
        """See `TrainingEngine.reference_logprobs`."""
        if self._reference is None:
            raise ValueError("this engine was made without a reference policy")
        return self._logprobs_under(self._reference, batch)

    def update(
        self,
        batch: TokenBatch,
        *,
        old_logprobs: torch.Tensor,
        ref_logprobs: torch.Tensor | None,
        advantages: torch.Tensor,
        step: int,
    ) -> dict[str, float]:
        """See `TrainingEngine.update`; metrics are means over the optimizer steps taken.

        Raises:
            TrainingError: loss or gradient is no longer finite; the weights are those before the faulty
            optimizer step.
        """
        settings = self._settings
        lr = settings.learning_rate(step)
        for group in self._optimizer.param_groups:
            group["lr"] = lr
        rng = torch.Generator().manual_seed(settings.seed * 1_000_003 + step)
        totals: dict[str, float] = {}
        optimizer_steps = 0
        for _ in range(settings.ppo_epochs):
            for index in torch.randperm(len(batch), generator=rng).tensor_split(settings.mini_batch_num):
                metrics = self._optimizer_step(
                    batch.rows(index),
                    old_logprobs[index],
                    None if ref_logprobs is None else ref_logprobs[index],
                    advantages[index],
                    step,
                )
                optimizer_steps += 1
                for name, value in metrics.items():
                    totals[name] = totals.get(name, 0.0) + value
        return {name: value / optimizer_steps for name, value in totals.items()} | {"actor/lr": lr}

    def save_model(self, folder: Path) -> None:
        """See `TrainingEngine.save_model`."""
        self._model.save_pretrained(folder)

    def state(self) -> dict[str, Any]:
        """See `TrainingEngine.state`."""
        return {"optimizer": self._optimizer.state_dict(), "torch_rng": torch.get_rng_state()}

    def restore(self, folder: Path, state: Mapping[str, Any]) -> None:
        """See `TrainingEngine.restore`."""
        saved = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self._model.load_state_dict(saved.state_dict())
        self._optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["torch_rng"])

    def _optimizer_step(
        self,
        batch: TokenBatch,
        old_logprobs: torch.Tensor,
        ref_logprobs: torch.Tensor | None,
        advantages: torch.Tensor,
        step: int,
    ) -> dict[str, float]:
        """One mini-batch: token-mean loss, accumulated over micro-batches that fit in memory."""
        all_tokens = batch.response_mask.sum().clamp(min=1.0)
        self._optimizer.zero_grad(set_to_none=True)
        totals: dict[str, float] = {}
        for rows in self._micro_batches(batch):
            part = batch.rows(rows)
            share = part.response_mask.sum() / all_tokens
            loss, metrics = self._loss(
                part,
                old_logprobs[rows],
                None if ref_logprobs is None else ref_logprobs[rows],
                advantages[rows],
            )
            (loss * share).backward()
            for name, value in metrics.items():
                totals[name] = totals.get(name, 0.0) + float(value.detach() * share)
        norm = float(
            torch.nn.utils.clip_grad_norm_(self._model.parameters(), self._settings.grad_clip, foreach=True)
        )
        faulty = [name for name, value in totals.items() if not math.isfinite(value)]
        if faulty or not math.isfinite(norm):
            what = f"{faulty[0]} is {totals[faulty[0]]}" if faulty else f"actor/grad_norm is {norm}"
            raise TrainingError(
                f"{what} at step {step}: the training has diverged (non-finite loss or gradient). Lower "
                f"trainer_common.optim.lr (now {self._settings.lr}) or optim.grad_clip, and go on "
                "from the last checkpoint"
            )
        self._optimizer.step()
        return totals | {"actor/grad_norm": norm}

    def _loss(
        self,
        batch: TokenBatch,
        old_logprobs: torch.Tensor,
        ref_logprobs: torch.Tensor | None,
        advantages: torch.Tensor,
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        settings, mask = self._settings, batch.response_mask
        logits, targets = self._response_logits(self._model, batch)
        logprobs = token_logprobs(logits, targets)
        policy = clipped_policy_loss(
            logprobs,
            old_logprobs,
            advantages.unsqueeze(-1).expand_as(logprobs),
            clip_low=settings.clip_ratio_low,
            clip_high=settings.clip_ratio_high,
        )
        loss = pg_loss = aggregate(policy.losses, mask)
        with torch.no_grad():
            mean_entropy = aggregate(entropy(logits), mask)
        metrics = {
            "actor/pg_loss": pg_loss,
            "actor/entropy": mean_entropy,
            "actor/pg_clipfrac": aggregate(policy.clipped, mask),
            "actor/ppo_kl": aggregate(-policy.log_ratio, mask),
        }
        if ref_logprobs is not None and settings.kl_loss_coef is not None:
            kl_loss = aggregate(kl_estimate(logprobs, ref_logprobs, settings.kl_loss_type), mask)
            loss = loss + settings.kl_loss_coef * kl_loss
            metrics["actor/kl_loss"] = kl_loss
        return loss, metrics

    def _logprobs_under(self, model: Any, batch: TokenBatch) -> torch.Tensor:
        parts = [
            token_logprobs(*self._response_logits(model, batch.rows(rows)))
            for rows in self._micro_batches(batch)
        ]
        return torch.cat(parts) * batch.response_mask

    def _response_logits(self, model: Any, batch: TokenBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """Temperature-scaled logits [B, R, V] that predict the response tokens, and those tokens [B, R]."""
        width = batch.response_length
        left_padded = not bool(batch.attention_mask[:, 0].all())
        logits = model(
            input_ids=batch.input_ids,
            # padding on the right is only ever seen by padding, so mask and positions matter only for
            # padding on the left
            attention_mask=batch.attention_mask if left_padded else None,
            position_ids=(batch.attention_mask.cumsum(dim=1) - 1).clamp(min=0) if left_padded else None,
            use_cache=False,
            logits_to_keep=width + 1,
        ).logits[:, :-1]
        return logits.float() / self._settings.temperature, batch.input_ids[:, -width:]

    def _micro_batches(self, batch: TokenBatch) -> Iterator[slice]:
        per_row = batch.response_length * self._model.config.vocab_size
        rows = max(1, _LOGITS_AT_ONCE // per_row)
        for start in range(0, len(batch), rows):
            yield slice(start, start + rows)
