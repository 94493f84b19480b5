"""A vLLM server of our own: started, watched, started again when it dies, and ended with the trainer."""

from __future__ import annotations

import logging
import math
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psutil

from trainer_core.child_process import ChildProcess, answers
from trainer_core.config.section import path_of
from trainer_core.engine.shape import shape_of_folder
from trainer_core.types import TrainingError

if TYPE_CHECKING:
    from trainer_core.config.schema import Ajet

_log = logging.getLogger(__name__)

_IN_SERVER = Path(__file__).with_name("in_server")
_HEALTH = "http://vllm/health"
_STARTS_IN_S = 1800.0
_GIGABYTE = 2**30
_CPU_HEAD_SIZES = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
"""Of vLLM 0.32's attention on a CPU; others fail at the first request."""
_ENDS_IN_S = 10.0
_METRICS_S = 30.0
_TOKENS = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total")


class VllmServer:
    """It listens on a Unix socket in a folder of its own: nobody else reaches it, and no port is taken."""

    def __init__(self, ajet: Ajet, model: str, log: Path, weights: Path) -> None:
        """`model`: a folder, or a name of the hub. `weights`: a folder that goes with the trainer.

        Raises:
            TrainingError: there is no such interpreter, or its cache cannot hold one conversation.
        """
        rollout, self.log = ajet.rollout, log
        given = rollout.vllm_python or sys.executable
        self.python = shutil.which(str(path_of(given)) if "/" in given else given)
        if self.python is None:
            raise TrainingError(f"ajet.rollout.vllm_python: there is no interpreter {given}")
        self._is_on_cpu = ajet.trainer_common.device == "cpu"
        self._cache_bytes = rollout.kv_cache_memory_bytes
        self.sleeps = rollout.free_cache_engine
        """It gives its memory back between `/sleep` and `/wake_up`."""
        if self._is_on_cpu:
            _check_capacity(ajet, Path(model))
        self._folder = tempfile.mkdtemp(prefix="ajet-vllm-")
        self._leaves = (self._folder, str(weights))
        self.socket = str(Path(self._folder, "socket"))
        """Where it listens."""
        self._arguments = [
            *("--model", model, "--served-model-name", "policy", "--uds", self.socket),
            *("--dtype", "float32" if ajet.trainer_common.model_dtype == "fp32" else "bfloat16"),
            *("--max-model-len", str(rollout.max_model_len), "--max-num-seqs", str(self._most_rows(ajet))),
            *("--logprobs-mode", "processed_logprobs", "--worker-extension-cls", "ajet_vllm.TakeWeights"),
            "--disable-uvicorn-access-log",
            *self._for_device(ajet),
            *rollout.vllm_arguments,
        ]
        self._process: ChildProcess | None = None
        self.timeout_s = ajet.trainer_common.worker_timeout
        """Without progress for so long it is given up."""

    @staticmethod
    def _most_rows(ajet: Ajet) -> int:
        """A request that asks for more answers than this is refused."""
        return max(ajet.rollout.max_num_seqs, ajet.rollout.num_repeat, ajet.trainer_common.val_pass_n)

    def _for_device(self, ajet: Ajet) -> list[str]:
        if self._is_on_cpu:
            return ["--enforce-eager"]
        share, size = ajet.rollout.gpu_memory_utilization, ajet.rollout.tensor_model_parallel_size
        sleeps = ["--enable-sleep-mode"] if self.sleeps else []
        return ["--gpu-memory-utilization", str(share), "--tensor-parallel-size", str(size), *sleeps]

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.is_running

    def ends_soon(self) -> bool:
        """Wait a while, and tell whether it has ended: a server whose engine dies fails requests first."""
        deadline = time.monotonic() + _ENDS_IN_S
        while self.is_running and time.monotonic() < deadline:
            time.sleep(0.1)
        return not self.is_running

    def start(self, safe_point: Callable[[], None] = lambda: None) -> None:
        """Start it, after one that died too, and wait until it answers or `safe_point` raises.

        Raises:
            TrainingError: it ended or did not get ready; its last lines are told.
        """
        if self._process is None:
            command = [str(self.python), str(_IN_SERVER / "ajet_vllm.py"), *self._arguments]
            own = self._environment()
            self._process = ChildProcess(command, "vLLM", self.log, own, grace_s=15.0, leaves=self._leaves)
        else:
            _log.warning("vLLM ended; its last lines:\n%s", self._process.tail())
            Path(self.socket).unlink(missing_ok=True)
            self._process.restart()
        self._process.wait_until(lambda: answers(_HEALTH, self.socket), _STARTS_IN_S, safe_point)

    @property
    def given_up(self) -> str:
        """How long it was waited for, and where to look."""
        return f" for trainer_common.worker_timeout = {self.timeout_s:g} s; its stacks are in {self.log}"

    def _environment(self) -> Mapping[str, str]:
        own = {"PYTHONPATH": str(_IN_SERVER), "VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1"}
        if self._is_on_cpu:
            own["VLLM_CPU_KVCACHE_SPACE"] = str(max(1, math.ceil(self._cache_bytes / _GIGABYTE)))
        return own

    def computed(self) -> float | None:
        """Tokens that it has read and generated since its start; None: it does not answer."""
        try:
            with self._client(timeout=_METRICS_S) as client:
                lines = client.get("http://vllm/metrics").text.splitlines()
        except httpx.TransportError:
            return None
        counts = [float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(_TOKENS)]
        return sum(counts) if counts else time.monotonic()  # it lives, and was told not to count

    def write_stacks(self) -> None:
        """Have its processes write their stacks to its log, those that know how to."""
        with suppress(OSError, psutil.Error):
            for each in psutil.Process(self._process.pid).children(recursive=True) if self._process else ():
                status = Path(f"/proc/{each.pid}/status").read_text(encoding="ascii")
                caught = int(status.split("SigCgt:")[1].split()[0], 16)
                if caught >> (signal.SIGUSR1 - 1) & 1:  # others would end
                    each.send_signal(signal.SIGUSR1)

    def command(self, path: str, body: Any = None) -> Any:
        """Have it do something between answers.

        Raises:
            httpx.HTTPError: it does not answer, or refuses.
        """
        with self._client(timeout=self.timeout_s) as client:
            try:
                reply = client.post(f"http://vllm{path}", json=body)
            except httpx.TimeoutException as error:
                self.write_stacks()
                raise httpx.HTTPError(f"{path} had no answer{self.given_up}") from error
            if reply.is_error:
                raise httpx.HTTPError(f"vLLM's {path} answered {reply.status_code}: {reply.text[:500]}")
            return reply.json() if reply.content else None

    def _client(self, timeout: float | None) -> httpx.Client:
        """Without certificates, which a socket does not need and take 50 ms to read."""
        return httpx.Client(transport=httpx.HTTPTransport(uds=self.socket, verify=False), timeout=timeout)

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _check_capacity(ajet: Ajet, folder: Path) -> None:
    """vLLM's cache must hold one conversation of full length; vLLM says so too, half a minute later."""
    shape = shape_of_folder(folder)
    if shape is None:
        return
    if shape.head_size not in _CPU_HEAD_SIZES:
        raise TrainingError(
            f"ajet.model: its attention heads have size {shape.head_size}, and on a CPU vLLM computes "
            f"{', '.join(map(str, _CPU_HEAD_SIZES))}. With model.tiny choose hidden_size and "
            "num_attention_heads so, or set ajet.rollout.inference: transformers"
        )
    number = 4 if ajet.trainer_common.model_dtype == "fp32" else 2
    needed = ajet.rollout.max_model_len * shape.layers * 2 * shape.key_value_size * number
    there = max(_GIGABYTE, ajet.rollout.kv_cache_memory_bytes)
    if needed > there:
        raise TrainingError(
            f"ajet.rollout.kv_cache_memory_bytes: one conversation of max_model_len = "
            f"{ajet.rollout.max_model_len} tokens takes {needed:,} bytes of keys and values, and there are "
            f"{there:,}. Raise it, or lower data.max_prompt_length and max_response_length"
        )
