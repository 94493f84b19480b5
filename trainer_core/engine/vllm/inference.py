"""The inference engine on a vLLM server, over its token route."""

from __future__ import annotations

import asyncio
import base64
import logging
import pickle
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import httpx
import torch
from torch.multiprocessing.reductions import reduce_tensor

from trainer_core.engine.gate import Gate
from trainer_core.engine.protocols import Generation, Request
from trainer_core.engine.vllm.requests import Unordered, ranked, sampling_of, tell
from trainer_core.engine.vllm.server import VllmServer
from trainer_core.types import FinishReason, TrainingError

_log = logging.getLogger(__name__)

_ROUTE = "http://vllm/inference/v1/generate"
_RPC = "/collective_rpc"
_KEPT_S = 2.0
"""An idle connection; the server drops it after 5."""
_LOOKS = 4
"""At what it has computed, in the time without progress after which it is given up."""
_MOST_STARTS = 10
"""Of a server that dies on its way."""


class VllmInference(Unordered):
    """Fills `InferenceEngine`. Requests wait while it is paused; a request that the server dies over is asked
    again when it has been started anew, with the weights that it had."""

    def __init__(
        self,
        server: VllmServer,
        export: Callable[[Path], None],
        weights: Path,
        on_gpu: Callable[[], Mapping[str, torch.Tensor] | None] = lambda: None,
    ) -> None:
        """
        Args:
            server: running.
            export: writes the weights being trained into a folder, in Hugging Face format.
            weights: a folder for them, where the server reads them.
            on_gpu: those weights where this process has them on the server's GPU, which then reads them
                there; they may not change while answers are written.
        """
        self._server, self._export, self._weights, self._on_gpu = server, export, weights, on_gpu
        self._shares = True
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = WeakKeyDictionary()
        self._gate = Gate()
        self._starts = 0
        self._starting = threading.Lock()
        self._started_again: Future[None] | None = None
        """Done when a server that was started anew has its weights."""
        self._failed: TrainingError | None = None
        """Why it cannot be started any more: nobody tries again."""
        self._version = 0
        self._has_weights = False

    async def generate(self, request: Request) -> list[Generation]:
        """See `InferenceEngine.generate`; tokens are told when the answer is whole."""
        async with self._gate.passed():
            answer, with_tops = await self._ask(_body(request)), request.top_logprobs > 0
            made = [_generation(each, self._version, with_tops=with_tops) for each in answer["choices"]]
        tell(request, made)
        return made

    async def _ask(self, body: dict[str, Any]) -> Any:
        is_second = False
        while True:
            starts = self._starts
            if (starting := self._started_again) is not None:  # it answers before it has its weights
                await asyncio.shield(asyncio.wrap_future(starting))
                continue
            if self._failed is not None:
                raise self._failed
            try:
                reply = await self._answer(body)
            except httpx.TransportError as error:
                failed = TrainingError(f"vLLM does not answer: {error}")
                if not is_second:  # it may have dropped an idle connection at that very moment
                    is_second = True
                    await asyncio.sleep(0.1)
                    continue
            else:
                if reply.is_success and self._starts == starts:
                    return reply.json()
                if reply.is_success:
                    continue
                failed = TrainingError(f"vLLM answers {reply.status_code}: {reply.text[:500]}")
                if reply.is_client_error:
                    raise failed
            await asyncio.to_thread(self._start_again, starts, failed)

    async def _answer(self, body: dict[str, Any]) -> httpx.Response:
        """What it answers, however long that takes, as long as it computes tokens of any request.

        Raises:
            TrainingError: it has computed none for too long.
        """
        asked = asyncio.ensure_future(self._client().post(_ROUTE, json=body))
        computed, quiet_s, look_s = None, 0.0, self._server.timeout_s / _LOOKS
        try:
            while not (await asyncio.wait({asked}, timeout=look_s))[0]:
                before, computed = computed, await asyncio.to_thread(self._server.computed)
                quiet_s = quiet_s + look_s if computed in (before, None) else look_s
                if quiet_s >= self._server.timeout_s and not asked.done():
                    await asyncio.to_thread(self._give_up)
            return await asked
        finally:
            asked.cancel()

    def _give_up(self) -> None:
        with self._starting:
            if self._failed is None:
                self._server.write_stacks()
                self._failed = TrainingError(
                    f"vLLM has computed no token{self._server.given_up}. {self._gate.inside} requests "
                    "are under way. Start again: training goes on from the last checkpoint"
                )
            raise self._failed

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            limits = httpx.Limits(
                max_connections=None, max_keepalive_connections=256, keepalive_expiry=_KEPT_S
            )
            transport = httpx.AsyncHTTPTransport(uds=self._server.socket, limits=limits, verify=False)
            self._clients[loop] = httpx.AsyncClient(transport=transport, timeout=None)
        return self._clients[loop]

    def _start_again(self, starts: int, failed: TrainingError) -> None:
        """Start the server that has died, unless somebody has since its start number `starts`.

        Raises:
            TrainingError: it lives, and failed; or it does not start, or dies too often.
        """
        with self._starting:
            if self._failed is not None:
                raise self._failed
            if self._starts != starts:
                return
            if not self._server.ends_soon():
                raise failed
            again: Future[None] = Future()
            self._started_again = again
            self._starts += 1
            try:
                if self._starts > _MOST_STARTS:
                    raise TrainingError(f"vLLM died {self._starts} times; see {self._server.log}")
                self._server.start()
                if self._has_weights:
                    self._load(is_new=False)
            except (TrainingError, httpx.HTTPError) as error:
                self._failed = TrainingError(f"vLLM could not be started again: {error}")
                raise self._failed from error
            finally:
                self._started_again = None
                again.set_result(None)

    async def pause(self) -> None:
        """See `InferenceEngine.pause`."""
        self._gate.close()
        await asyncio.to_thread(self._come_to_rest)

    def _come_to_rest(self) -> None:
        """Wait until nothing is under way, and have the server give its memory back, if it does.

        Raises:
            TrainingError: it lives, and does not.
        """
        self._gate.wait()
        if self._server.sleeps:
            try:
                self._server.command("/sleep?level=2")  # new weights come before it wakes
            except httpx.HTTPError as error:
                if not self._server.ends_soon():  # else it is started again when it gets weights
                    raise TrainingError(f"vLLM does not give its memory back: {error}") from error

    async def resume(self) -> None:
        """See `InferenceEngine.resume`."""
        self._gate.open()

    async def update_weights(self, version: int) -> None:
        """See `InferenceEngine.update_weights`."""
        await asyncio.to_thread(self._update)
        self._version = version

    def _update(self) -> None:
        if self._failed is not None:
            raise self._failed
        self._has_weights = True
        try:
            self._load(is_new=True)
        except httpx.HTTPError as error:
            self._start_again(self._starts, TrainingError(f"vLLM takes no weights: {error}"))

    def _load(self, *, is_new: bool) -> None:
        shared = self._on_gpu() if self._shares else None
        if shared is None and is_new:  # else what the folder has are the weights that it had
            self._export(self._weights)
        self._wake("weights")
        if shared is None or not self._share(shared):
            if shared is not None:
                self._export(self._weights)
            self._server.command(_RPC, {"method": "take_weights", "args": [str(self._weights)]})
        self._wake("kv_cache")
        self._server.command("/reset_prefix_cache")

    def _wake(self, part: str) -> None:
        """Have it take memory for one of the two parts again; one that is awake takes no notice."""
        if self._server.sleeps:
            torch.cuda.empty_cache()
            self._server.command(f"/wake_up?tags={part}")

    def _share(self, weights: Mapping[str, torch.Tensor]) -> bool:
        """Have the server read them on the GPU; False if it cannot, as when its torch is of another kind."""
        try:
            self._server.command(_RPC, {"method": "take_shared", "args": [handles(weights)]})
        except (httpx.HTTPError, RuntimeError) as error:
            if self._server.ends_soon():
                raise
            _log.warning("vLLM gets its weights as files: it cannot read them on the GPU (%s)", error)
            self._shares = False
        return self._shares

    async def close(self) -> None:
        """See `InferenceEngine.close`."""
        self._gate.open()


def handles(weights: Mapping[str, torch.Tensor]) -> str:
    """What another process opens the tensors with, as long as they are here; see `take_shared`."""
    opened = [(name, reduce_tensor(value.detach())) for name, value in weights.items()]
    return base64.b64encode(pickle.dumps(opened)).decode("ascii")


def _body(request: Request) -> dict[str, Any]:
    return {"model": "policy", "token_ids": list(request.prompt_ids), "sampling_params": sampling_of(request)}


def _generation(choice: dict[str, Any], version: int, *, with_tops: bool) -> Generation:
    entries = choice["logprobs"]["content"]
    return Generation(
        tuple(choice["token_ids"]),
        tuple(entry["logprob"] for entry in entries),
        FinishReason(choice["finish_reason"] or "abort"),
        version,
        tuple(_tops(entry["top_logprobs"]) for entry in entries) if with_tops else (),
    )


def _tops(entries: list[dict[str, Any]]) -> tuple[tuple[int, float], ...]:
    """Newer servers give their numbers, older ones words with them."""
    return ranked((each.get("token_id", each.get("token")), each["logprob"]) for each in entries)
