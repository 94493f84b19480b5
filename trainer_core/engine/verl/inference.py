"""The inference engine on verl's own servers, which take turns with the training on the same GPUs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from verl.checkpoint_engine import CheckpointEngineManager
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.rollout.llm_server import LLMServerManager

from trainer_core.engine.gate import Gate
from trainer_core.engine.protocols import Generation, Request
from trainer_core.engine.sampling import end_ids, has_stop_text
from trainer_core.engine.verl.settings import made
from trainer_core.engine.verl.watch import WatchedGroup, in_words
from trainer_core.engine.vllm.requests import Unordered, sampling_of, tell
from trainer_core.types import FinishReason, TrainingError


class VerlInference(Unordered):
    """Fills `InferenceEngine` through verl's server client. Of a request for n answers it makes n. An answer
    that nobody waits for any more is computed to its end: verl's client cannot take it back."""

    def __init__(self, client: Any, sleep: Callable[[], Any], update: Callable[[int], Any], model: Any, *,
                 max_length: int, limit_s: float) -> None:  # fmt: skip
        """
        Args:
            client: an `LLMServerClient` of verl.
            sleep: has the servers give their memory back, if they do.
            update: brings them the weights being trained, and wakes them; gets the number of the weights.
            model: verl's `HFModelConfig`.
            max_length: prompt and answer together, in tokens.
            limit_s: without any answer for so long they are given up.
        """
        self._client, self._sleep, self._update = client, sleep, update
        self._max_length, self._limit_s, self._tokenizer = max_length, limit_s, model.tokenizer
        self._ends = end_ids(model.generation_config, model.tokenizer)
        self._gate, self._answered = Gate(), 0

    async def generate(self, request: Request) -> list[Generation]:
        """See `InferenceEngine.generate`; tokens are told when all answers are whole.

        Raises:
            TrainingError: the prompt does not fit; alternatives are asked for; or a server fails.
        """
        room = self._max_length - len(request.prompt_ids)
        if room < 1:
            raise TrainingError(
                f"the prompt has {len(request.prompt_ids)} tokens; with rollout.max_model_len = "
                f"{self._max_length} no room is left for an answer. Shorten the prompt"
            )
        if request.top_logprobs:
            raise TrainingError("verl's servers tell no top_logprobs. Ask for none, or set inference: vllm")
        answers = asyncio.ensure_future(self._all(request, min(request.max_tokens, room)))
        made = await asyncio.shield(answers)  # who gives up leaves them under way, and counted
        tell(request, made)
        return made

    async def _all(self, request: Request, limit: int) -> list[Generation]:
        async with self._gate.passed():
            return await asyncio.gather(*(self._one(request, limit, index) for index in range(request.n)))

    async def _one(self, request: Request, limit: int, index: int) -> Generation:
        sampling = sampling_of(request) | {"n": 1, "seed": request.seed + index, "max_tokens": limit}
        key = "-".join(map(str, request.session[:2])) or uuid4().hex  # an episode's calls go to one server
        asked = self._client.generate(
            key, prompt_ids=list(request.prompt_ids), sampling_params=sampling | {"logprobs": True}
        )
        with in_words("a server"):
            made = await self._watched(asyncio.ensure_future(asked))
        self._answered += 1
        ids = tuple(made.token_ids)
        finish = FinishReason.ABORT if made.stop_reason == "aborted" else self._finish(request, ids, limit)
        return Generation(ids, tuple(made.log_probs or ()), finish, made.extra_fields["global_steps"])

    async def _watched(self, asked: asyncio.Future[Any]) -> Any:
        """What it answers, however long that takes, as long as others are answered.

        Raises:
            TrainingError: nobody is.
        """
        seen = self._answered
        while not (await asyncio.wait({asked}, timeout=self._limit_s))[0]:
            if seen == self._answered:
                raise TrainingError(
                    "verl's servers have answered nothing for trainer_common.worker_timeout = "
                    f"{self._limit_s:g} s. Raise it if an answer takes that long; else start again: training "
                    "goes on from the last checkpoint"
                )
            seen = self._answered
        return await asked

    def _finish(self, request: Request, ids: tuple[int, ...], limit: int) -> FinishReason:
        """Why it ended, which verl's client does not pass on."""
        if len(ids) < limit or ids[-1] in self._ends.union(request.stop_ids):
            return FinishReason.STOP
        is_stopped = has_stop_text(self._tokenizer, ids, request.stop_texts)
        return FinishReason.STOP if is_stopped else FinishReason.LENGTH

    async def pause(self) -> None:
        """See `InferenceEngine.pause`."""
        self._gate.close()
        await asyncio.to_thread(self._gate.wait)
        await self._in_thread(self._sleep)

    async def resume(self) -> None:
        """See `InferenceEngine.resume`."""
        self._gate.open()

    async def update_weights(self, version: int) -> None:
        """See `InferenceEngine.update_weights`."""
        await self._in_thread(self._update, version)

    @staticmethod
    async def _in_thread(method: Callable[..., Any], *arguments: Any) -> None:
        with in_words("a server or worker"):
            await asyncio.to_thread(method, *arguments)

    async def close(self) -> None:
        """See `InferenceEngine.close`; the servers end with Ray."""
        self._gate.open()


def start_servers(tree: Any, workers: WatchedGroup, *, limit_s: float) -> VerlInference:
    """Start verl's servers, each on the GPUs of as many workers as verl's `tree` says; they sleep until they
    get weights.

    Raises:
        TrainingError: one cannot be started.
    """
    settings = tree.actor_rollout_ref.rollout
    with in_words("a server"):
        servers = LLMServerManager.create(config=tree, worker_group=workers.group)
        weights = CheckpointEngineManager(
            omega_conf_to_dataclass(settings.checkpoint_engine), workers.group, servers.get_replicas()
        )
        weights.sleep_replicas()
    sleep, update = (workers.method(name, weights) for name in ("sleep_replicas", "update_weights"))
    model = made(tree, "model")
    return VerlInference(
        servers.get_client(), sleep, update, model, max_length=settings.max_model_len, limit_s=limit_s
    )
