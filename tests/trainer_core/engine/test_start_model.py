"""The cache of start models: one entry per recipe, rebuilt when damaged, shared by processes that build at
once.
"""

import json
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.trainer_core.engine.conftest import RECIPE
from trainer_core.config.model import Warmup
from trainer_core.engine.start_model import StartModel, load_model, tiny_start_model, weights_digest
from trainer_core.tasks.builtin import make_toy
from trainer_core.types import Task, TaskSplits, TrainingError

TASKS = make_toy("sort_digits", digits=3, num_validation_tasks=16, split_seed=0)
WARMUP = Warmup(until_pass_rate=0.9, max_steps=4, eval_every=2, batch_size=32, lr=2e-3, lr_warmup_steps=2)


def start(cache: Path, said: list[str], **changes: Any) -> StartModel:
    torch.set_num_threads(1)
    arguments: dict[str, Any] = {"recipe": RECIPE, "warmup": WARMUP, "tasks": TASKS} | changes
    return tiny_start_model(**arguments, cache_root=cache, say=said.append, safe_point=lambda: None)


def test_second_time_comes_from_the_cache_with_the_same_bits(tmp_path: Path) -> None:
    first_said: list[str] = []
    second_said: list[str] = []
    first, second = start(tmp_path, first_said), start(tmp_path, second_said)
    assert first_said[1].startswith("warm-up 2/4, loss ")
    assert first_said[-1] == f"warm-up ended at pass rate {0:.3f}, below 0.9"
    assert second_said == [f"start model {first.cache_key} taken from the cache"]
    assert weights_digest(first.model) == weights_digest(second.model)
    assert [path.name for path in tmp_path.iterdir()] == [first.cache_key]


@pytest.mark.parametrize(
    "changes",
    [
        {"recipe": replace(RECIPE, seed=1)},
        {"recipe": replace(RECIPE, intermediate_size=64)},
        {"warmup": WARMUP.model_copy(update={"lr": 1e-3})},
        {"warmup": None},
        {"tasks": make_toy("reverse_digits", digits=3, num_validation_tasks=16, split_seed=0)},
    ],
)
def test_another_recipe_is_another_entry(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert start(tmp_path, []).cache_key != start(tmp_path, [], **changes).cache_key


def _truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-7])


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("model.safetensors", _truncate),
        ("tokenizer.json", Path.unlink),
        ("recipe.json", Path.unlink),
        ("recipe.json", lambda file: file.write_text("{")),
    ],
)
def test_a_damaged_entry_is_rebuilt(tmp_path: Path, name: str, damage: Callable[[Path], Any]) -> None:
    intact = start(tmp_path, [])
    expected = weights_digest(intact.model)  # before the damage, because weights are mapped from the file
    damage(tmp_path / str(intact.cache_key) / name)
    said: list[str] = []
    rebuilt = start(tmp_path, said)
    assert not any("from the cache" in line for line in said)
    assert weights_digest(rebuilt.model) == expected
    assert [path.name for path in tmp_path.iterdir()] == [intact.cache_key]


def _key_and_digest(cache: Path) -> tuple[str | None, str]:
    made = start(cache, [])
    return made.cache_key, weights_digest(made.model)


def test_two_processes_building_at_once_give_one_entry(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
        first, second = pool.map(_key_and_digest, [tmp_path] * 2)
    assert first == second
    assert [path.name for path in tmp_path.iterdir()] == [first[0]]


def test_warmup_reaches_the_pass_rate_it_was_asked_for(tmp_path: Path) -> None:
    same = TaskSplits(
        *[tuple(Task(f"t{n}", str(n), "1") for n in span) for span in (range(9), (), range(9, 12))]
    )
    changes = {"max_steps": 200, "eval_every": 5, "lr": 1e-2, "until_pass_rate": 0.5}
    warmup = WARMUP.model_copy(update=changes)
    said: list[str] = []
    made = start(tmp_path, said, tasks=same, warmup=warmup)
    outcome = json.loads((tmp_path / str(made.cache_key) / "recipe.json").read_text())["outcome"]
    assert outcome["pass_rate"] >= 0.5
    assert 5 <= outcome["steps"] < 200
    assert not any("below" in line for line in said)


def test_warmup_can_be_stopped_and_leaves_nothing(tmp_path: Path) -> None:
    class Stop(Exception):  # noqa: N818
        pass

    calls = iter([None, None, Stop()])

    def safe_point() -> None:
        if (error := next(calls)) is not None:
            raise error

    with pytest.raises(Stop):
        tiny_start_model(RECIPE, WARMUP, TASKS, tmp_path, say=lambda _: None, safe_point=safe_point)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingError, match=r"file.*XDG_CACHE_HOME"):
        start(tmp_path / "file" / "cache", [], warmup=None)


def test_loading_a_folder_that_is_no_model_is_explained(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"model.path: cannot load"):
        load_model(str(tmp_path))
