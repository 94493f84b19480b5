"""The same agent, whatever it is written with, leaves the same tokens and trains the same step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainer_core.backbone.main import train
from trainer_core.config.schema import Config

AGENTS = Path(__file__).with_name("agents.py")
WAYS = [
    "WithOpenAI",
    "with_responses",
    "with_anthropic",
    "with_langchain",
    "with_the_standard_library",
    "with_curl",
]
MODEL = {
    "path": "tiny",
    "tiny": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 48},
    "warmup": {"enabled": False},
}


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return {}


@pytest.mark.parametrize(
    ("way", "place"),
    [
        *((way, "asyncio-with-gc") for way in WAYS),
        ("WithOpenAI", "asyncio"),
        ("with_langchain", "multi-processing"),
    ],
)
def test_one_step(
    way: str, place: str, expected: dict[str, Any], tmp_path: Path, private_surroundings: Path
) -> None:
    toy = {"type": "builtin", "builtin": {"name": "sort_digits", "digits": 3, "num_validation_tasks": 4}}
    ajet = {
        "experiment_name": "ways",
        "experiment_dir": str(tmp_path / "run"),
        "model": MODEL,
        "data": {"max_prompt_length": 60, "max_response_length": 60, "train_batch_size": 2},
        "rollout": {
            "num_repeat": 2,
            "max_env_worker": 3,
            "max_response_length_in_one_turn": 8,
            "user_workflow": f"{AGENTS}->{way}",
        },
        "task_reader": toy,
        "task_runner": {"wrapper_type": place},
        "trainer_common": {
            "total_training_steps": 1,
            "val_before_train": False,
            "test_freq": 0,
            "val_pass_n": 1,
        },
    }
    assert train(Config.model_validate({"ajet": ajet})) == 0
    row = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    timed = ("timing_s/", "perf/", "rollout/seconds")
    numbers = {name: value for name, value in row.items() if not name.startswith(timed)}
    assert numbers["rollout/calls/mean"] == 2 and numbers["timeline/sequences"] == 4
    assert numbers["actor/grad_norm"] > 0 and numbers["critic/failed_episodes"] == 0
    assert expected.setdefault("row", numbers) == numbers
