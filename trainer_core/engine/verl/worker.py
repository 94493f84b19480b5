"""verl's split worker, with the loss of all our steps and the export of weights."""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ray
import torch
from safetensors.torch import save_file
from torch.distributed.tensor import DTensor
from verl.single_controller.base.decorator import Dispatch, make_nd_compute_dataproto_dispatch_fn, register
from verl.utils import tensordict_utils
from verl.utils.device import get_device_id, get_device_name, get_torch_device
from verl.workers.engine_workers_tinker import TinkerActorRolloutRefWorker, TinkerTrainingWorker

from trainer_core.algorithm.losses import policy_loss
from trainer_core.engine.verl.watch import Place
from trainer_core.types import Loss

LARGEST = "training/rollout_probs_diff_max"
"""The metric whose largest value counts; all others are sums over tokens."""


class SplitWorker(TinkerTrainingWorker):
    """One rank. Its methods are called on all ranks at once."""

    def __init__(self, config: Any) -> None:
        """`config`: a `TrainingWorkerConfig` of verl."""
        on_cpu = get_device_name() == "cpu"
        if on_cpu and not torch.distributed.is_initialized():  # verl names gloo twice, which torch refuses
            rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
            torch.distributed.init_process_group("gloo", rank=rank, world_size=size)
        super().__init__(config)
        self.reset()
        self.set_loss_fn(batch_loss)
        self.on_step: Callable[[], object] = lambda: None
        """Called before each micro-batch."""
        forward_step = self.engine.forward_step

        def told(*arguments: Any, **named: Any) -> Any:
            self.on_step()
            return forward_step(*arguments, **named)

        self.engine.forward_step = told

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def reset(self) -> None:
        """Load the model, once: verl's hybrid worker asks for it again."""
        if getattr(self.engine, "module", None) is None:
            super().reset()

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def place(self) -> Place:
        """Where it is, and from now on what can be seen of it from beside it."""
        stacks, steps = os.memfd_create("stacks"), os.memfd_create("steps")
        faulthandler.register(signal.SIGUSR1, file=stacks)
        self.on_step = lambda: os.write(steps, b".")
        machine = ray.get_runtime_context().get_node_id()
        return Place(machine, socket.gethostname(), os.getpid(), stacks, steps)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def export(self, folder: str, machine: str) -> None:
        """The first rank on that machine, or rank 0, writes the weights, with LoRA merged into them."""
        config = self.model_config.hf_config
        is_tied = getattr(config, "tie_word_embeddings", False)
        machines: list[str] = [""] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(machines, socket.gethostname())
        writes = self.rank == (machines.index(machine) if machine in machines else 0)
        rank = self.model_config.lora_rank
        # with LoRA verl's own export would round to bfloat16
        named = self.engine.module.state_dict().items() if rank else self.engine.get_per_tensor_param()[0]
        whole = {}
        for name, value in named:
            # by all ranks, and where they compute: between updates it may be in main memory
            gathered = value.to(get_device_id()).full_tensor() if isinstance(value, DTensor) else value
            if writes and not (is_tied and name.endswith("lm_head.weight")):
                whole[name] = gathered.detach().cpu().contiguous().clone()
        if writes:
            if rank:
                whole = merged(whole, self.model_config.lora_alpha / rank)
            config.save_pretrained(folder)
            if self.model_config.generation_config is not None:
                self.model_config.generation_config.save_pretrained(folder)
            save_file(whole, Path(folder, "model.safetensors"), metadata={"format": "pt"})
        if self.engine.is_param_offload_enabled:  # Megatron has brought them to the GPU
            self.engine.to("cpu", model=True, optimizer=False, grad=False)
        get_torch_device().empty_cache()  # for a vLLM beside it that wakes up
        torch.distributed.barrier()


class HybridWorker(TinkerActorRolloutRefWorker):
    """A `SplitWorker` with verl's own rollout beside it, on the same GPU."""

    actor_worker_cls = SplitWorker

    def __init__(self, config: Any, role: str) -> None:
        """`config`: verl's `actor_rollout_ref`."""
        super().__init__(config, role)
        self.init_model()
        self.actor.set_loss_fn(batch_loss)

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="actor"), blocking=False)
    def infer_batch(self, data: Any) -> Any:
        return self.actor.infer_batch(data)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def place(self) -> Place:
        """See `SplitWorker.place`."""
        return self.actor.place()

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def export(self, folder: str, machine: str) -> None:
        """See `SplitWorker.export`."""
        self.actor.export(folder, machine)


def merged(weights: Mapping[str, torch.Tensor], scale: float) -> dict[str, torch.Tensor]:
    """A model's weights by its own names, from those of peft's: W + scale · B A (arXiv 2106.09685)."""
    found: dict[str, torch.Tensor] = {}
    for name, value in weights.items():
        layer, is_adapted, rest = name.partition(".base_layer.")
        if ".lora_" in name:
            continue
        if is_adapted and rest == "weight":
            first, second = (weights[f"{layer}.lora_{half}.default.weight"] for half in "AB")
            value = value + scale * (second.float() @ first.float()).to(value.dtype)
        found[name.removeprefix("base_model.model.").replace(".base_layer.", ".")] = value
    return found


def batch_loss(model_output: Any, data: Any, dp_group: Any = None) -> tuple[torch.Tensor, dict[str, float]]:
    """Σ weight · loss of a micro-batch's trained tokens, and sums over them.

    All in `data` stands where the model predicts a token, one place before the token itself. FSDP averages
    gradients over ranks, and the weights are of the whole mini-batch: so the sum counts `dp_size` times.
    """
    logprobs = model_output["log_probs"].values()
    chosen = data["loss_mask"].values() > 0
    if not chosen.any():
        return (logprobs * 0.0).sum(), {}
    lengths = data["loss_mask"].offsets().diff()
    segment = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)[chosen]
    segment = torch.unique_consecutive(segment, return_inverse=True)[1]
    old, advantage, weight = (data[name].values()[chosen] for name in ("old_logprobs", "advantage", "weight"))
    reference = data["reference_logprobs"].values()[chosen] if "reference_logprobs" in data else None
    loss = Loss(**tensordict_utils.get(data, "loss"))
    losses, found = policy_loss(loss, logprobs[chosen], old, advantage, segment, reference)
    found = {**found, "actor/entropy": model_output["entropy"].values()[chosen].detach()}
    sums = {name: float(values.sum()) for name, values in found.items()}
    sums[LARGEST] = float((logprobs[chosen].detach().exp() - old.exp()).abs().max())
    return (weight * losses).sum() * tensordict_utils.get(data, "dp_size"), sums
