"""What verl's own rollout and `main_ppo` need on a CPU, through verl's extension points, beside our platform:
sampling by a vLLM server that runs already, asked as our trainer asks it, under the name `running` and in
place of verl's `vllm`; a replay buffer that polls faster; a reward.

verl imports this module in each of its processes: VERL_USE_EXTERNAL_MODULES or `model.external_lib` names it.
STOCK_SOCKET says where the server listens, STOCK_WEIGHTS where it takes weights from, STOCK_LONGEST the most
tokens of an answer where the request does not say.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import ray
import torch
from safetensors.torch import save_file
from torch.distributed.fsdp import OffloadPolicy
from verl.utils import distributed, fsdp_utils
from verl.workers.rollout import base
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput
from verl.workers.rollout.utils import ensure_async_iterator

from trainer_core.engine.protocols import Request
from trainer_core.engine.vllm.inference import VllmInference
from trainer_core.engine.vllm.server import VllmServer
from trainer_core.types import Sampling

POLL_S = 0.02
_ACTOR = "benchmark-server"

# on a CPU verl names gloo twice, which torch refuses
distributed.initialize_global_process_group_ray = partial(
    distributed.initialize_global_process_group_ray, backend="cpu:gloo"
)
# its reference model is offloaded to pinned memory, which needs a GPU
fsdp_utils.CPUOffloadPolicy = lambda **_: OffloadPolicy()


class _Running(VllmServer):
    """A server that somebody else started."""

    log, timeout_s, sleeps = Path("vllm.log"), 600.0, False

    def __init__(self) -> None:
        self.socket = os.environ["STOCK_SOCKET"]

    def ends_soon(self) -> bool:
        return False


@ray.remote(num_cpus=0)
class Server:
    """Takes verl's requests for tokens to vLLM, by the client of our own trainer."""

    def __init__(self) -> None:
        self._engine = VllmInference(_Running(), lambda _: None, Path(os.environ["STOCK_WEIGHTS"]))
        self._step, self._asked = 0, 0

    async def generate(self, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any) -> TokenOutput:
        self._asked += 1
        request = Request(
            list(prompt_ids),
            Sampling(*(sampling_params[name] for name in ("temperature", "top_p", "top_k"))),
            sampling_params.get("max_tokens") or int(os.environ["STOCK_LONGEST"]),
            stop_ids=tuple(sampling_params.get("stop_token_ids", ())),
            seed=sampling_params.get("seed", self._asked),
            stop_texts=tuple(sampling_params.get("stop", ())),
        )
        (made,) = await self._engine.generate(request)
        return TokenOutput(
            token_ids=list(made.ids),
            log_probs=list(made.logprobs),
            stop_reason="completed",
            extra_fields={"global_steps": self._step},
        )

    async def weights_are_of(self, step: int | None) -> None:
        self._step = self._step if step is None else step

    async def nothing(self, *_: Any, **__: Any) -> None:
        return None

    wake_up = sleep = abort_all_requests = resume_generation = clear_kv_cache = nothing
    release_kv_cache = resume_kv_cache = start_profile = stop_profile = nothing


class Replica(RolloutReplica):
    """One of verl's servers, all of which stand for the one that runs."""

    async def launch_servers(self) -> None:
        actor: Any = Server  # what Ray has made of it
        self._server_handle = actor.options(name=f"{_ACTOR}-{self.replica_rank}").remote()
        self._server_address = f"{os.environ['STOCK_SOCKET']}#{self.replica_rank}"
        self.servers = [self._server_handle]


class Adapter(base.BaseRollout):
    """In each training process: the weights of the first go the way that our trainer's go."""

    async def resume(self, tags: list[str]) -> None:
        return None

    async def release(self) -> None:
        return None

    async def update_weights(
        self, weights: Any, wire_format: str = "named_tensors", global_steps: int | None = None, **_: Any
    ) -> None:
        whole: dict[str, torch.Tensor] = {}
        rank = int(os.environ["RANK"])
        async for name, value in ensure_async_iterator(weights):  # by all, as they are gathered from all
            if rank == 0 and not name.endswith("lm_head.weight"):  # it is tied
                whole[name] = value.detach().float().cpu().contiguous().clone()
        if rank == 0:
            engine = VllmInference(_Running(), partial(_write, whole), Path(os.environ["STOCK_WEIGHTS"]))
            await engine.update_weights(0)
        await ray.get_actor(f"{_ACTOR}-{rank}").weights_are_of.remote(global_steps)


def _write(whole: dict[str, torch.Tensor], folder: Path) -> None:
    save_file(whole, folder / "model.safetensors", metadata={"format": "pt"})


def compute_score(data_source: str, solution_str: str, ground_truth: str, **_: Any) -> float:
    """1 if the answer is right to the digit, as our judge `exact_match` says, else 0."""
    return float(solution_str.strip() == ground_truth)


def polling(*_: Any, **settings: Any) -> Any:
    """verl's replay buffer, which looks every POLL_S instead of every two seconds."""
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

    return ReplayBuffer(**settings, poll_interval=POLL_S)


for _name in ("running", "vllm"):
    base._ROLLOUT_REGISTRY[_name, "async"] = f"{__name__}.Adapter"
    RolloutReplicaRegistry.register(_name, lambda: Replica)
