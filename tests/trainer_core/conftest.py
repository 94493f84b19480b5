from typing import Any

import pytest

from trainer_core.engine.tiny_model import make_tokenizer


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return make_tokenizer()
