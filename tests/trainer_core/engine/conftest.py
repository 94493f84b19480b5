"""A model of a few thousand parameters, made once."""

from typing import Any

import pytest
import torch

from trainer_core.engine.tiny_model import TinyModel, make_model

RECIPE = TinyModel("qwen2", 32, 2, 2, 1, 48, 64, seed=0)


@pytest.fixture(autouse=True)
def sharing_is_always_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of tests are small."""
    monkeypatch.setattr("trainer_core.engine.micro_batches._SHARING", 1)


@pytest.fixture
def model(tokenizer: Any) -> Any:
    torch.set_num_threads(1)
    made = make_model(RECIPE, tokenizer)
    with torch.no_grad():  # random weights of 0.02 give a flat distribution; sharpen it
        for parameter in made.parameters():
            parameter.mul_(4.0)
    made.generation_config.eos_token_id = [tokenizer.eos_token_id, *range(40, 80)]  # so that it ends often
    return made.eval()
