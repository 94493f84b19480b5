"""AdamW with float32 weights and state, whatever type the model computes in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class AdamW:
    """AdamW (arXiv 1711.05101), with the norm of the gradient clipped.

    Weights of another type than float32 have float32 copies, which gather their gradients and are updated in
    their place (arXiv 1710.03740): a bfloat16 weight changes by no less than about 1/256 of itself, which is
    more than most steps.
    """

    def __init__(
        self, parameters: Sequence[torch.nn.Parameter], betas: tuple[float, float], weight_decay: float
    ) -> None:
        self._computed = parameters
        self._updated = [each if each.dtype == torch.float32 else _copy_of(each) for each in parameters]
        self._adamw = torch.optim.AdamW(self._updated, betas=betas, weight_decay=weight_decay, fused=True)

    def clip(self, largest: float) -> float:
        """Shorten the gradient to this norm; what it was."""
        return float(torch.nn.utils.clip_grad_norm_(self._updated, largest, foreach=True))

    def step(self, lr: float) -> None:
        """Take one, and forget the gradients."""
        for group in self._adamw.param_groups:
            group["lr"] = lr
        self._adamw.step()
        self.zero_grad()
        self._show()

    def zero_grad(self) -> None:
        self._adamw.zero_grad(set_to_none=True)

    def state(self) -> dict[str, Any]:
        """All that `load` needs, beside the weights as the model has them."""
        pairs = zip(self._updated, self._computed, strict=True)
        copies = [None if mine is shown else mine for mine, shown in pairs]
        return {**self._adamw.state_dict(), "copies": copies}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from there, also where the model computed in another type; it has its weights."""
        copies = state.get("copies") or [None] * len(self._updated)  # older checkpoints have none
        self._adamw.load_state_dict({name: state[name] for name in ("state", "param_groups")})
        with torch.no_grad():
            for mine, shown, saved in zip(self._updated, self._computed, copies, strict=True):
                mine.copy_(shown if saved is None else saved)

    @torch.no_grad()
    def _show(self) -> None:
        """Round to what the model computes with."""
        for mine, shown in zip(self._updated, self._computed, strict=True):
            if mine is not shown:
                shown.copy_(mine)


def _copy_of(parameter: torch.nn.Parameter) -> torch.Tensor:
    """In float32; each backward pass adds its gradient to the copy's."""
    copy = parameter.detach().float()

    def gather(computed: torch.Tensor) -> None:
        assert computed.grad is not None
        gradient = computed.grad.float()
        copy.grad = gradient if copy.grad is None else copy.grad.add_(gradient)
        computed.grad = None

    parameter.register_post_accumulate_grad_hook(gather)
    return copy
