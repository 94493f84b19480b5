"""The training engine on verl's split worker: in this process, or one worker for each GPU, on Ray."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from verl.utils import tensordict_utils

from trainer_core.engine.protocols import Policy
from trainer_core.engine.verl.watch import in_words
from trainer_core.engine.verl.worker import LARGEST, SplitWorker
from trainer_core.types import Batch, Loss, TrainingError

_SHARDS = "verl"
"""The folder within a checkpoint that verl writes."""


class VerlTraining:
    """Fills `TrainingEngine`.

    verl gets whole sequences, as many as the ranks divide, in micro-batches that it packs itself.
    """

    def __init__(
        self,
        policy: Any,
        reference: Any | None,
        *,
        world_size: int,
        max_tokens: int,
        temperature: float,
        grad_clip: float,
        is_lora: bool,
        sharing: int = 1,
    ) -> None:
        """
        Args:
            policy: a `SplitWorker`, or a group of them.
            reference: the same with the start weights; with `is_lora` the policy without its adapter is the
                reference, and None where the loss has no KL term.
            world_size: ranks that compute samples of their own, or groups of ranks.
            max_tokens: of a micro-batch on one rank; longer sequences come alone.
            sharing: ranks that share one sequence.
            grad_clip: what the policy's config has, where verl reads it.
        """
        self._policy, self._reference, self._is_lora = policy, reference, is_lora
        self._world_size, self._max_tokens, self._sharing = world_size, max_tokens, sharing
        self._temperature, self._grad_clip = temperature, grad_clip

    def forward(self, batch: Batch, policy: Policy = "policy") -> torch.Tensor:
        """See `TrainingEngine.forward`."""
        worker, more = self._policy, {}
        if policy == "reference" and self._is_lora:
            more["no_lora_adapter"] = True
        elif policy == "reference":
            if self._reference is None:
                raise ValueError("this engine was made without a reference policy")
            worker = self._reference
        asked = self._as_verl(batch, {}, compute_loss=False, **more)
        predicted = _call(worker.infer_batch, asked)["log_probs"].values()[: len(batch.ids)]
        return torch.where(batch.trained, predicted.float().roll(1), 0.0)

    def forward_backward(self, batch: Batch, loss: Loss) -> dict[str, float]:
        """See `TrainingEngine.forward_backward`."""
        fields = {name: getattr(batch, name) for name in ("old_logprobs", "advantage", "weight")}
        if batch.reference_logprobs is not None:
            fields["reference_logprobs"] = batch.reference_logprobs
        asked = self._as_verl(batch, fields, loss=asdict(loss), calculate_entropy=True)
        found = tensordict_utils.get(_call(self._policy.forward_backward, asked), "metrics")
        count = max(1, int(batch.trained.sum()))
        values = {name: _flat(each) for name, each in found.items() if name.startswith(("actor/", LARGEST))}
        metrics = {name: sum(each) / count for name, each in values.items() if name != LARGEST}
        self._check_finite(metrics)
        return metrics | {LARGEST: max(values.get(LARGEST, [0.0]))}

    def optim_step(self, lr: float, grad_clip: float) -> dict[str, float]:
        """See `TrainingEngine.optim_step`."""
        if grad_clip != self._grad_clip:
            raise ValueError(f"verl clips at the {self._grad_clip} of its config, not at {grad_clip}")
        found = _call(self._policy.optimizer_step, {"lr": lr})
        if isinstance(found, list):  # of a group, where not all of those that share a model tell it
            found = next(each for each in found if each)
        norm = {"actor/grad_norm": float(found["grad_norm"])}
        self._check_finite(norm)
        return norm

    def save(self, folder: Path) -> None:
        """See `TrainingEngine.save`."""
        self.export(folder)
        _call(self._policy.save_checkpoint, str((folder / _SHARDS).absolute()))

    def load(self, folder: Path) -> None:
        """See `TrainingEngine.load`."""
        try:
            self._policy.load_checkpoint(str((folder / _SHARDS).absolute()))
        except TrainingError:
            raise
        except Exception as error:  # files, shapes and pickle each have errors of their own
            raise TrainingError(
                f"checkpoint {folder} is damaged or of another model ({type(error).__name__}: {error})"
            ) from error

    def export(self, folder: Path) -> None:
        """See `TrainingEngine.export`."""
        folder.mkdir(parents=True, exist_ok=True)
        _call(self._policy.export, str(folder.absolute()), socket.gethostname())
        if not (folder / "model.safetensors").is_file():
            raise TrainingError(
                f"no worker of verl runs on the trainer's machine, so that the weights went to {folder} of "
                "another one. Start the trainer on a machine of the cluster that takes workers"
            )

    def on_gpu(self) -> None:
        """See `TrainingEngine.on_gpu`: they are in shards."""

    def _as_verl(self, batch: Batch, fields: Mapping[str, torch.Tensor], **meta: Any) -> Any:
        """The batch as verl has it: nested, each value where its token is predicted, and with sequences that
        train nothing added until the ranks divide their number."""
        lengths = torch.bincount(batch.segment, minlength=len(batch)).tolist()
        missing = -len(lengths) % self._world_size
        one_token = torch.tensor([0])

        def nested(values: torch.Tensor) -> torch.Tensor:
            rows = [*values.split(lengths), *[one_token.to(values.dtype)] * missing]
            return torch.nested.as_nested_tensor(rows, layout=torch.jagged)

        is_last = torch.ones(len(batch.ids), dtype=torch.bool)
        is_last[:-1] = batch.segment[1:] != batch.segment[:-1]
        shifted = {"loss_mask": batch.trained.float(), **fields}
        tensors = {"input_ids": nested(batch.ids), "position_ids": nested(batch.positions)}
        tensors |= {
            name: nested(torch.where(is_last, 0.0, value.roll(-1))) for name, value in shifted.items()
        }
        meta |= {"temperature": self._temperature, "use_dynamic_bsz": True}
        longest = -(-max(lengths) // self._sharing)  # on each of the ranks that share it
        return tensordict_utils.get_tensordict(
            tensors, {**meta, "max_token_len_per_gpu": max(self._max_tokens, longest)}
        )

    def _check_finite(self, metrics: Mapping[str, float]) -> None:
        for name, value in metrics.items():
            if not math.isfinite(value):
                _call(self._policy.optimizer_zero_grad)
                raise TrainingError(
                    f"{name} is {value}: the training has diverged (non-finite loss or gradient). Lower "
                    "trainer_common.optim.lr or optim.grad_clip, and go on from the last checkpoint"
                )


def in_this_process(config: Any) -> Any:
    """A worker of world size 1."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    alone = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    os.environ.update({**alone, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})
    return SplitWorker(config)


def _call(method: Callable[..., Any], *arguments: Any) -> Any:
    """What a worker answers.

    Raises:
        TrainingError: a worker of a group died, or failed.
    """
    with in_words("a worker"):
        return method(*arguments)


def _flat(value: Any) -> list[float]:
    """A number, or lists of them by rank and by micro-batch."""
    if isinstance(value, list):
        return [number for each in value for number in _flat(each)]
    return [float(value)]
