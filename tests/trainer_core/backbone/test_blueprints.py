"""The agents among the blueprints play and train, to the same digits each time."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from trainer_core.backbone.main import train
from trainer_core.config.load import load_config

BLUEPRINTS = Path(__file__).parents[3] / "blueprints"


@pytest.mark.parametrize("name", ["frozen_lake", "guessing_game"])
def test_two_steps(
    name: str, tmp_path: Path, private_surroundings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(BLUEPRINTS / name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rows: list[list[dict[str, Any]]] = []
    for again in range(2):
        smaller = ("model.warmup.max_steps=30", "rollout.num_repeat=8", "data.train_batch_size=6")
        shorter = ("total_training_steps=2", "test_freq=2", "val_pass_n=2")
        overrides = [
            f"ajet.{change}" for change in (*smaller, *(f"trainer_common.{each}" for each in shorter))
        ]
        loaded = load_config(
            Path("config.yaml"), now=datetime.now(UTC), overrides=overrides, exp_dir=f"{tmp_path}/{again}"
        )
        folder = Path(loaded.config.ajet.experiment_dir)
        assert train(loaded.config) == 0
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        rows.append([_without_times(json.loads(line)) for line in lines])
    assert rows[0] == rows[1]
    assert [row["step"] for row in rows[0]] == [0, 1, 2]
    assert rows[0][1]["critic/failed_episodes"] == 0 and rows[0][1]["actor/grad_norm"] > 0


def _without_times(row: dict[str, Any]) -> dict[str, Any]:
    timed = ("timing_s/", "perf/", "rollout/seconds", "val/rollout/seconds")
    return {name: value for name, value in row.items() if not name.startswith(timed)}
