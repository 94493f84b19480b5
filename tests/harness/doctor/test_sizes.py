"""Sizes that do not fit each other."""

from pathlib import Path

import pytest

from harness.doctor import sizes
from tests.harness.doctor.planning import bad, examined, launch, model

ROLLOUT = "actor_rollout_ref.rollout"
VERL = f"python -m verl.trainer.main_ppo {ROLLOUT}.n=4 trainer.n_gpus_per_node=8 trainer.nnodes=1 "
ACTOR = "actor_rollout_ref.actor"
MINI = f"data.train_batch_size=64 {ACTOR}.ppo_mini_batch_size=16"
MICRO = f"{ACTOR}.ppo_micro_batch_size_per_gpu"


@pytest.mark.parametrize(
    ("words", "severities"),
    [
        (f"{MINI} {MICRO}=4", []),
        (f"{MINI} {MICRO}=3", ["problem"]),
        (f"{MINI} {MICRO}=3 {ACTOR}.use_dynamic_bsz=True", []),
        ("data.train_batch_size=33", ["problem"]),
        (f"data.train_batch_size=33 {ACTOR}.ulysses_sequence_parallel_size=2", []),
        (f"data.train_batch_size=16 {ACTOR}.ppo_mini_batch_size=32", ["problem"]),
        (f"data.train_batch_size=64 {ACTOR}.ppo_mini_batch_size=1", ["problem"]),
        (f"data.train_batch_size=33 {ACTOR}.strategy=megatron", []),
    ],
)
def test_batches_of_verl(tmp_path: Path, words: str, severities: list[str]) -> None:
    found = bad(examined(sizes.batches_divide, launch(tmp_path, VERL + words)))
    assert found == [(severity, "batch_divisibility") for severity in severities]


@pytest.mark.parametrize(
    ("words", "severities"),
    [("--num_generations 8", []), ("--num_generations 6", ["problem"]), ("--num_generations 1", ["problem"])],
)
def test_groups_of_trl(tmp_path: Path, words: str, severities: list[str]) -> None:
    command = f"torchrun --nproc_per_node 2 t.py --per_device_train_batch_size 4 {words}"
    found = bad(examined(sizes.batches_divide, launch(tmp_path, command)))
    assert found == [(severity, "batch_divisibility") for severity in severities]


@pytest.mark.parametrize(("tp", "count"), [(4, 0), (8, 1), (16, 2), (1, 0)])
def test_tensor_parallelism(tmp_path: Path, tp: int, count: int) -> None:
    model(tmp_path / "model", num_attention_heads=12)
    words = f"actor_rollout_ref.model.path=./model actor_rollout_ref.rollout.tensor_model_parallel_size={tp}"
    found = bad(examined(sizes.parallelism_fits, launch(tmp_path, VERL + words)))
    assert found == [("problem", "parallelism_config")] * count


def test_heads_of_a_model_with_several_parts(tmp_path: Path) -> None:
    model(tmp_path / "model", num_attention_heads=None, text_config={"num_attention_heads": 10})
    words = "actor_rollout_ref.model.path=./model actor_rollout_ref.rollout.tensor_model_parallel_size=4"
    found = examined(sizes.parallelism_fits, launch(tmp_path, VERL + words))
    assert bad(found) == [("problem", "parallelism_config")] and "such as 2" in found[0].fix


HALVES = "data.max_prompt_length=256 data.max_response_length=256"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (HALVES, []),
        ("data.max_prompt_length=256 data.max_response_length=512", ["warning"]),
        (f"{HALVES} {ROLLOUT}.max_model_len=400", ["warning"]),
        (
            f"{HALVES} {ROLLOUT}.max_num_batched_tokens=300 {ROLLOUT}.enable_chunked_prefill=False",
            ["problem"],
        ),
        (f"{HALVES} {ROLLOUT}.max_num_batched_tokens=300", []),
    ],
)
def test_lengths(tmp_path: Path, words: str, expected: list[str]) -> None:
    model(tmp_path / "model", max_position_embeddings=512)
    given = launch(tmp_path, VERL + "actor_rollout_ref.model.path=./model " + words)
    assert bad(examined(sizes.lengths_fit, given)) == [(severity, "length_limit") for severity in expected]


def test_a_model_whose_positions_are_scaled(tmp_path: Path) -> None:
    model(tmp_path / "model", max_position_embeddings=512, rope_scaling={"type": "yarn", "factor": 4.0})
    words = "actor_rollout_ref.model.path=./model data.max_prompt_length=256 data.max_response_length=512"
    assert examined(sizes.lengths_fit, launch(tmp_path, VERL + words)) == []
