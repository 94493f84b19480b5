"""The real stack: verl in this interpreter, vLLM in another. `make test-stack` brings both."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from trainer_core.config.schema import Config
from trainer_core.engine.tiny_model import TinyModel, make_model, make_tokenizer
from trainer_core.types import Batch


@pytest.fixture(scope="session")
def vllm_python() -> str:
    """The interpreter with vLLM."""
    python = os.environ.get("VLLM_PYTHON")
    if not python:
        pytest.skip("needs VLLM_PYTHON; `make test-stack` sets it")
    return python


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a model with random weights, of 0.1 million parameters."""
    folder, tokenizer = tmp_path_factory.mktemp("model"), make_tokenizer()
    made = make_model(
        TinyModel(
            architecture="qwen2",
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            intermediate_size=192,
            max_position_embeddings=512,
            seed=1,
        ),
        tokenizer,
    )
    made.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def config_of(model: str, **ajet: Any) -> Config:
    """A config of backbone verl on a CPU; sections are merged. Its output folder is there."""
    folder = Path(f"{model}-run")
    folder.mkdir(exist_ok=True)
    tree: dict[str, Any] = {
        "backbone": "verl",
        "experiment_dir": str(folder),
        "model": {"path": model},
        "task_reader": {"type": "builtin"},
        "data": {"max_prompt_length": 100, "max_response_length": 16},
        "rollout": {"inference": "transformers"},
        "trainer_common": {"device": "cpu", "optim": {"lr": 1e-3, "grad_clip": 1.0}},
    }
    for name, value in ajet.items():
        tree[name] = {**tree.get(name, {}), **value} if isinstance(value, dict) else value
    return Config.model_validate({"ajet": tree})


def random_batch(seed: int = 1, lengths: tuple[int, ...] = (5, 17, 9, 30, 12, 3, 22)) -> Batch:
    """Sequences with holes in what is trained."""
    noise = torch.Generator().manual_seed(seed)
    segment = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    positions = torch.cat([torch.arange(length) for length in lengths])
    trained = (torch.rand(len(segment), generator=noise) < 0.6) & (positions > 0)
    advantage = torch.randn(len(lengths), generator=noise)[segment]
    return Batch(
        torch.randint(8, 200, (len(segment),), generator=noise),
        positions,
        segment,
        trained,
        0.05 * torch.randn(len(segment), generator=noise),
        torch.where(trained, advantage, 0.0),
        trained.float() / trained.sum(),
    )
