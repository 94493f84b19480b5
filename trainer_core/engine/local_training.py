"""Policy-gradient training of a transformers model in this process, on the CPU or one GPU."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoModelForCausalLM
from transformers.modeling_layers import GradientCheckpointingLayer

from trainer_core.algorithm.logits import head_logprobs
from trainer_core.algorithm.losses import policy_loss
from trainer_core.bounds import MICRO_BATCH_TOKENS
from trainer_core.engine.adamw import AdamW
from trainer_core.engine.hidden_states import HalvedModel, can_share_prompts
from trainer_core.engine.lora import Adapter
from trainer_core.engine.micro_batches import MicroBatch, micro_batches
from trainer_core.engine.protocols import Policy
from trainer_core.types import Batch, Loss, TrainingError

if TYPE_CHECKING:
    from trainer_core.config.services import Lora

_STATE = "trainer_state.pt"


class LocalTraining:
    """AdamW on a model shared with the inference engine, with a frozen copy of the start policy as reference.

    Model and reference are moved to `device` and `dtype` in place; what the optimizer keeps, log-
    probabilities and losses are float32 always. The model stays in eval mode: without dropout the ratio
    measures the change of the weights and nothing else.
    """

    def __init__(
        self,
        model: Any,
        reference: Any | None,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.01,
        temperature: float = 1.0,
        max_tokens: int = MICRO_BATCH_TOKENS,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
        share_prompts: bool = True,
        gradient_checkpointing: bool = False,
        offload_reference: bool = False,
        lora: Lora | None = None,
        lora_seed: int = 0,
    ) -> None:
        """
        Args:
            reference: None where the loss has no KL term, and with `lora`, where it is the model itself with
                the adapter off.
            temperature: of the rollouts: log-probabilities are those of softmax(logits / temperature).
            max_tokens: of a micro-batch, see `micro_batches`.
            share_prompts: compute a prompt that several sequences begin with once; models that cannot do
                that, and gradient checkpointing, go without.
            gradient_checkpointing: keep one hidden state per layer and compute the rest again.
            offload_reference: keep the reference in main memory between uses.
            lora: train an adapter instead of all weights.
        """
        self._device = torch.device(device)
        self._dtype = dtype
        self._model = model.to(self._device, dtype).eval()
        self._offload = offload_reference
        self._reference = None
        if reference is not None:
            rests_on = "cpu" if offload_reference else self._device
            self._reference = reference.to(rests_on, dtype).eval().requires_grad_(False)
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._checkpointing = gradient_checkpointing
        self._share = share_prompts and can_share_prompts(model)
        if gradient_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        self._adapter = Adapter(model, lora, lora_seed) if lora else None
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._optimizer = AdamW(trained, betas, weight_decay)

    @torch.no_grad()
    def forward(self, batch: Batch, policy: Policy = "policy") -> torch.Tensor:
        """See `TrainingEngine.forward`."""
        found = torch.zeros(len(batch.ids), dtype=torch.float32)
        with self._weights_of(policy) as model:
            halved = HalvedModel(model)
            for micro in self._micro_batches(batch, share_prompts=self._share):
                logprobs, _, tokens = self._logprobs(halved, micro, batch, with_entropy=False)
                found[tokens] = logprobs.cpu()
        return found.to(batch.ids.device)

    def forward_backward(self, batch: Batch, loss: Loss) -> dict[str, float]:
        """See `TrainingEngine.forward_backward`."""
        sums: dict[str, torch.Tensor] = {}
        largest = torch.zeros((), device=self._device)
        halved = HalvedModel(self._model)
        share = self._share and not self._checkpointing
        for micro in self._micro_batches(batch, share_prompts=share):
            with self._recomputing():
                logprobs, entropy, tokens = self._logprobs(halved, micro, batch)
                old = self._here(batch.old_logprobs, tokens)
                advantage, segment = self._here(batch.advantage, tokens), self._here(batch.segment, tokens)
                reference = batch.reference_logprobs
                reference = None if reference is None else self._here(reference, tokens)
                losses, found = policy_loss(loss, logprobs, old, advantage, segment, reference)
                (self._here(batch.weight, tokens) * losses).sum().backward()
            for name, values in {**found, "actor/entropy": entropy}.items():
                sums[name] = sums.get(name, 0.0) + values.sum()
            largest = torch.maximum(largest, (logprobs.detach().exp() - old.exp()).abs().max())
        count = max(1, int(batch.trained.sum()))
        metrics = {name: float(value) / count for name, value in sums.items()}
        self._check_finite(metrics)
        return metrics | {"training/rollout_probs_diff_max": float(largest)}

    def optim_step(self, lr: float, grad_clip: float) -> dict[str, float]:
        """See `TrainingEngine.optim_step`."""
        norm = self._optimizer.clip(grad_clip)
        self._check_finite({"actor/grad_norm": norm})
        self._optimizer.step(lr)
        return {"actor/grad_norm": norm}

    def save(self, folder: Path) -> None:
        """See `TrainingEngine.save`."""
        self.export(folder)
        state = {
            "optimizer": self._optimizer.state(),
            "torch_rng": torch.get_rng_state(),
            "adapter": self._adapter.state() if self._adapter else None,
        }
        torch.save(state, folder / _STATE)

    def load(self, folder: Path) -> None:
        """See `TrainingEngine.load`."""
        try:
            state = torch.load(folder / _STATE, weights_only=True, map_location="cpu")
            if self._adapter:
                self._adapter.load(state["adapter"])
            else:
                self._load_weights(folder)
            self._optimizer.load(state["optimizer"])
            torch.set_rng_state(state["torch_rng"])
        except Exception as error:  # torch, safetensors, zip and pickle each have errors of their own
            raise TrainingError(
                f"checkpoint {folder} is damaged or of another model ({type(error).__name__}: {error})"
            ) from error

    def export(self, folder: Path) -> None:
        """See `TrainingEngine.export`."""
        if self._adapter:
            self._adapter.export(folder)
        else:
            self._model.save_pretrained(folder)

    def on_gpu(self) -> Mapping[str, torch.Tensor] | None:
        """See `TrainingEngine.on_gpu`."""
        if self._device.type != "cuda" or self._adapter:
            return None
        return dict(self._model.named_parameters())

    def _load_weights(self, folder: Path) -> None:
        saved = AutoModelForCausalLM.from_pretrained(folder, dtype=self._dtype).state_dict()
        own = self._model.state_dict()
        if {name: value.shape for name, value in saved.items()} != {n: v.shape for n, v in own.items()}:
            raise ValueError("its weights have other names or shapes than the model of this run")
        self._model.load_state_dict(saved)

    def _micro_batches(self, batch: Batch, *, share_prompts: bool) -> Iterator[MicroBatch]:
        """A layer keeps about 10 hidden and 4 feed-forward vectors of a token for the gradient (counted for
        Qwen2), and of a mask each element as a number."""
        config = self._model.config.get_text_config(decoder=True)
        hidden = config.hidden_size
        kept = 10 * hidden + 4 * (getattr(config, "intermediate_size", None) or 4 * hidden)
        return micro_batches(batch, self._max_tokens, share_prompts=share_prompts, mask_element=1 / kept)

    def _logprobs(
        self, halved: HalvedModel, micro: MicroBatch, batch: Batch, *, with_entropy: bool = True
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """[M] log-probabilities, entropies and places in the batch of the micro-batch's trained tokens."""
        tokens = torch.cat([rows.tokens for rows in micro.rows])
        places = torch.cat([rows.places for rows in micro.rows])
        logprobs, entropy = head_logprobs(
            halved.hidden_states(micro.to(self._device)),
            self._here(batch.ids, tokens),
            halved.logits,
            temperature=self._temperature,
            with_entropy=with_entropy,
        )
        begins = itertools.accumulate((len(rows.tokens) for rows in micro.rows), initial=0)
        copy_of = torch.cat([rows.copy_of + begin for rows, begin in zip(micro.rows, begins, strict=False)])
        copy_of = copy_of.to(self._device)
        return logprobs.index_select(0, copy_of), entropy.index_select(0, copy_of), places

    def _here(self, values: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        return values[tokens.to(values.device)].to(self._device)

    def _check_finite(self, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            if not math.isfinite(value):
                self._optimizer.zero_grad()
                raise TrainingError(
                    f"{name} is {value}: the training has diverged (non-finite loss or gradient). Lower "
                    "trainer_common.optim.lr or optim.grad_clip, and go on from the last checkpoint"
                )

    @contextmanager
    def _weights_of(self, policy: Policy) -> Iterator[Any]:
        if policy == "policy":
            yield self._model
        elif self._adapter:
            with self._adapter.disabled():
                yield self._model
        elif self._reference is None:
            raise ValueError("this engine was made without a reference policy")
        else:
            yield self._reference.to(self._device)
            if self._offload:
                self._reference.to("cpu")

    @contextmanager
    def _recomputing(self) -> Iterator[None]:
        """Layers recompute their insides only in training mode; what is inside them stays in eval mode."""
        modules = self._model.modules() if self._checkpointing else ()
        layers = [each for each in modules if isinstance(each, GradientCheckpointingLayer)]
        for layer in layers:
            layer.training = True
            if isinstance(getattr(layer, "dropout", None), float):
                layer.dropout = 0.0
        try:
            yield
        finally:
            for layer in layers:
                layer.training = False
