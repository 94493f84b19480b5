"""The two seams of the trainer: any inference engine goes with any training engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from trainer_core.types import Completion, Sampling, TokenBatch

if TYPE_CHECKING:
    import torch


class InferenceEngine(Protocol):
    """Generates from the current policy."""

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        repeats: int,
        sampling: Sampling,
        max_new_tokens: int,
        seed: int,
    ) -> list[list[Completion]]:
        """`repeats` completions per prompt, in the prompts' order; same seed, same tokens."""


class TrainingEngine(Protocol):
    """Owns the weights being trained and the frozen reference they started from."""

    def logprobs(self, batch: TokenBatch) -> torch.Tensor:
        """[B, R] log-probabilities of the response tokens under the current weights, at the training
        temperature.
        """

    def reference_logprobs(self, batch: TokenBatch) -> torch.Tensor:
        """[B, R] the same under the frozen start policy."""

    def update(
        self,
        batch: TokenBatch,
        *,
        old_logprobs: torch.Tensor,
        ref_logprobs: torch.Tensor | None,
        advantages: torch.Tensor,
        step: int,
    ) -> dict[str, float]:
        """Optimize on a batch; returns the `actor/…` metrics. advantages: [B], one per sample; step counts
        from 1.
        """

    def save_model(self, folder: Path) -> None:
        """Write the weights in Hugging Face format."""

    def state(self) -> dict[str, Any]:
        """What is needed beside the weights to go on exactly: optimizer, random state."""

    def restore(self, folder: Path, state: Mapping[str, Any]) -> None:
        """Go on from weights in `folder` and a `state()`."""
