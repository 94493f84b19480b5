"""Low-rank adapters by peft, put into a model in place, so that whoever samples from it sees them.

peft knows the linear layers of each architecture, switches adapters off for the reference and merges them for
export; what is here is the seed, and the errors.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from trainer_core.types import TrainingError


@dataclass(frozen=True)
class Lora:
    """Trains W + alpha / rank · B A instead of W (arXiv 2106.09685)."""

    rank: int
    alpha: float
    targets: str | list[str] = "all-linear"
    """Names of the linear layers that get one, as peft's `target_modules`."""
    seed: int = 0
    """Of A; B is 0 at first."""


class Adapter:
    """The adapter of a model; the reference policy is the model without it."""

    def __init__(self, model: Any, lora: Lora) -> None:
        try:
            from peft import LoraConfig, get_peft_model
        except ImportError as error:
            raise TrainingError(
                "ajet.lora.lora_rank: LoRA needs the package peft: pip install peft, or write 0 to train all "
                "weights"
            ) from error
        config = LoraConfig(
            r=lora.rank, lora_alpha=lora.alpha, target_modules=lora.targets, task_type="CAUSAL_LM"
        )
        try:
            with torch.random.fork_rng():
                torch.manual_seed(lora.seed)
                self._wrapped = get_peft_model(model, config)
        except ValueError as error:
            raise TrainingError(
                f"ajet.lora.target_modules: LoRA cannot be put into this model: {error}"
            ) from error

    def state(self) -> dict[str, torch.Tensor]:
        """The adapter's own weights."""
        parameters = self._wrapped.named_parameters()
        return {name: value.detach().clone() for name, value in parameters if value.requires_grad}

    def load(self, state: dict[str, torch.Tensor]) -> None:
        """Raises ValueError if the names or shapes are others."""
        own = {name: value for name, value in self._wrapped.named_parameters() if value.requires_grad}
        if {n: v.shape for n, v in own.items()} != {n: v.shape for n, v in state.items()}:
            raise ValueError("its adapter has other layers or another rank")
        with torch.no_grad():
            for name, value in own.items():
                value.copy_(state[name])

    @contextmanager
    def disabled(self) -> Iterator[None]:
        """The start policy, for as long as the context lasts."""
        with self._wrapped.disable_adapter():
            yield

    def export(self, folder: Path) -> None:
        """The model with the adapter merged into its weights."""
        copy.deepcopy(self._wrapped).merge_and_unload().save_pretrained(folder)
