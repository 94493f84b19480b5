"""Low-rank adapters by peft, put into a model in place, so that whoever samples from it sees them.

peft knows the linear layers of each architecture, switches adapters off for the reference and merges them for
export; what is here is the seed, and the errors.
"""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from trainer_core.types import TrainingError

if TYPE_CHECKING:
    from trainer_core.config.services import Lora


class Adapter:
    """The adapter of a model, which trains W + alpha / rank · B A instead of W (arXiv 2106.09685); the
    reference policy is the model without it."""

    def __init__(self, model: Any, lora: Lora, seed: int) -> None:
        """`seed`: of A; B is 0 at first."""
        try:
            from peft import LoraConfig, get_peft_model
        except ImportError as error:
            raise TrainingError(
                "ajet.lora.lora_rank: LoRA needs the package peft: pip install peft, or write 0 to train all "
                "weights"
            ) from error
        config = LoraConfig(
            r=lora.lora_rank,
            lora_alpha=lora.lora_alpha,
            target_modules=lora.target_modules,
            task_type="CAUSAL_LM",
        )
        try:
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                self._wrapped: Any = get_peft_model(model, config)
        except ValueError as error:
            raise TrainingError(
                f"ajet.lora.target_modules: LoRA cannot be put into this model: {error}"
            ) from error
        named = self._wrapped.named_parameters()
        self._own = {name: value for name, value in named if value.requires_grad}

    def state(self) -> dict[str, torch.Tensor]:
        """The adapter's own weights."""
        return {name: value.detach().clone() for name, value in self._own.items()}

    @torch.no_grad()
    def load(self, state: dict[str, torch.Tensor]) -> None:
        """Raises ValueError if the names or shapes are others."""
        if {n: v.shape for n, v in self._own.items()} != {n: v.shape for n, v in state.items()}:
            raise ValueError("its adapter has other layers or another rank")
        for name, value in self._own.items():
            value.copy_(state[name])

    def disabled(self) -> AbstractContextManager[None]:
        """The start policy, for as long as the context lasts."""
        context: AbstractContextManager[None] = self._wrapped.disable_adapter()
        return context

    def export(self, folder: Path) -> None:
        """The model with the adapter merged into its weights."""
        copy.deepcopy(self._wrapped).merge_and_unload().save_pretrained(folder)
