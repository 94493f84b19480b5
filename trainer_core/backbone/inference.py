"""Where a backbone samples: on transformers in this process, or on a vLLM server."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors.torch import load_file

from trainer_core.engine.local_inference import LocalInference
from trainer_core.engine.protocols import InferenceEngine, TrainingEngine

if TYPE_CHECKING:
    import torch

    from trainer_core.config.schema import Ajet

Export = Callable[[Path], None]
"""Writes the weights being trained into a folder, in Hugging Face format."""
_UNKNOWN_SIZE = 8 * 2**30


def on_transformers(
    ajet: Ajet, model: Any, tokenizer: Any, weights: Callable[[], Mapping[str, torch.Tensor]] | None
) -> InferenceEngine:
    """`weights`: those being trained, where `model` is not the one that is trained."""
    rollout = ajet.rollout
    return LocalInference(
        model,
        tokenizer,
        deterministic=rollout.deterministic,
        cache_bytes=rollout.kv_cache_memory_bytes,
        max_length=rollout.max_model_len,
        weights=weights,
    )


def exported(export: Export) -> Mapping[str, torch.Tensor]:
    """The weights that `export` writes."""
    with tempfile.TemporaryDirectory() as folder:
        export(Path(folder))
        paths = sorted(Path(folder).glob("*.safetensors"))
        return {name: value for path in paths for name, value in load_file(path).items()}


def _memory_folder(model: Path) -> str | None:
    """A folder in memory, where there is one that has room for the weights of a model as float32."""
    size = sum(path.stat().st_size for path in model.glob("*.safetensors")) or _UNKNOWN_SIZE
    in_memory = Path("/dev/shm")
    return str(in_memory) if in_memory.is_dir() and shutil.disk_usage(in_memory).free > 2 * size else None


def on_vllm(
    ajet: Ajet,
    folder: str,
    training: TrainingEngine,
    closing: ExitStack,
    *,
    say: Callable[[str], None],
    safe_point: Callable[[], None] = lambda: None,
) -> InferenceEngine:
    """A vLLM server, started here, that gets the weights of `training`; `closing` ends it.

    Raises:
        TrainingError: it cannot be started.
    """
    from trainer_core.engine.vllm.inference import VllmInference
    from trainer_core.engine.vllm.server import VllmServer

    rollout = ajet.rollout
    place = tempfile.TemporaryDirectory(prefix="ajet-weights-", dir=_memory_folder(Path(folder)))
    weights = Path(closing.enter_context(place))
    server = VllmServer(ajet, folder, Path(ajet.experiment_dir, "vllm.log"), weights)
    closing.callback(server.close)
    say(f"vLLM starts, on {server.python}; it prints to {server.log}")
    server.start(safe_point)
    # it must read them on the GPU again when it has died, which it may at any time
    is_still = not ajet.trainer_common.one_step_off_policy and rollout.tensor_model_parallel_size == 1
    return VllmInference(server, training.export, weights, training.on_gpu if is_still else lambda: None)


def closes(engine: InferenceEngine) -> Callable[[], None]:
    """What ends an engine."""
    return lambda: asyncio.run(engine.close())
