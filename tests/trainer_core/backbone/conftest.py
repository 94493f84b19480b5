"""A training of a few steps on a model of a few thousand parameters."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainer_core.config.schema import Config

MODEL = {
    "path": "tiny",
    "tiny": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 48},
    "warmup": {"max_steps": 200, "eval_every": 10, "batch_size": 64, "lr": 1e-2, "lr_warmup_steps": 5},
}
TOY = {"type": "builtin", "builtin": {"name": "sort_digits", "digits": 3, "num_validation_tasks": 12}}


@pytest.fixture(scope="session")
def start_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that tests share, those of other workers too, so that each start model is warmed up once."""
    base, session = tmp_path_factory.getbasetemp(), os.environ.get("PYTEST_XDIST_TESTRUNUID")
    folder = (base.parent / session if session else base) / "start_models"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def tiny_config(
    tmp_path: Path, start_models: Path, private_surroundings: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Config]:
    """`tiny_config(folder, **trainer_common)`: six steps, validation every three, a checkpoint every two."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(start_models))

    def make(folder: str = "run", *, task_reader: Any = None, **common: Any) -> Config:
        trainer = {
            "total_training_steps": 6,
            "val_before_train": True,
            "val_pass_n": 2,
            "test_freq": 3,
            "save_freq": 2,
            "mini_batch_num": 2,
            "optim": {"lr": 1e-3, "lr_warmup_steps": 2},
            "val_print_to_markdown_file_path": str(tmp_path / folder / "validation.md"),
        }
        ajet = {
            "experiment_name": "test",
            "experiment_dir": str(tmp_path / folder),
            "model": MODEL,
            "data": {"max_prompt_length": 8, "max_response_length": 5, "train_batch_size": 4},
            "rollout": {"num_repeat": 4, "temperature": 1.0},
            "task_reader": task_reader or TOY,
            "trainer_common": trainer | common,
        }
        return Config.model_validate({"ajet": ajet})

    return make
