"""The estimate of memory against arithmetic by hand, and what is told where it does not fit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from trainer_core.backbone.plan import Plan, make_plan, told
from trainer_core.config.schema import Config
from trainer_core.types import TrainingError

QWEN_7B = {
    **{"hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4},
    **{"intermediate_size": 18944, "vocab_size": 152064, "tie_word_embeddings": False},
    "max_position_embeddings": 32768,
}
QWEN_HALF_B = {
    **{"hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2},
    **{"intermediate_size": 4864, "vocab_size": 151936, "tie_word_embeddings": True},
    "max_position_embeddings": 32768,
}
GPUS: dict[str, Any] = {"model_dtype": "bf16", "enable_gradient_checkpointing": True}
MEGATRON = {"strategy": "megatron"}
CPU = {"device": "cpu", "n_gpus_per_node": 2}


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of the GPUs that are seen here."""
    seen: list[int] = []
    monkeypatch.setattr("trainer_core.backbone.plan.gpu_memory", lambda: seen)
    monkeypatch.setattr("trainer_core.backbone.capacity.main_memory", lambda: 10**13)
    return seen


def config_of(folder: Path, shape: Mapping[str, Any], common: Mapping[str, Any], **ajet: Any) -> Config:
    (folder / "config.json").write_text(json.dumps(shape))
    tree = {"model": {"path": str(folder)}, "task_reader": {"type": "builtin"}, "trainer_common": common}
    return Config.model_validate({"ajet": {"backbone": "verl", **tree, **ajet}})


def plan_of(folder: Path, shape: Mapping[str, Any], common: Mapping[str, Any], **ajet: Any) -> Plan:
    return make_plan(config_of(folder, shape, common, **ajet).ajet)


def doubts(plan: Plan) -> dict[str, str]:
    return {each.key.removeprefix("ajet."): f"{each.why}. {each.fix}" for each in plan.doubts}


def test_7b_on_eight_gpus_by_hand(tmp_path: Path, gpus: list[int]) -> None:
    plan = plan_of(tmp_path, QWEN_7B, GPUS, rollout={"ppo_max_token_len_per_gpu": 18_000})
    layer, table = 233_057_792, 152064 * 3584
    assert plan.parameters == 28 * layer + 2 * table + 3584 == 7_615_616_512  # as Qwen counts it
    assert plan.memory == pytest.approx({
        "logits": 3 * 18_000 * 152064 * 2,  # logits in bfloat16, tempered, and their gradient
        "optimizer": 2 * 4 * 7_615_616_512 // 8,
        "gathered layers": (table + 2 * layer) * 2 + table * 4,
        "activations": 18_000 * 2 * (28 * 3584 + 11 * 3584 + 2 * 512 + 4 * 18944),
        "weights": 4 * 7_615_616_512 // 8,  # float32
        "gradients": 4 * 7_615_616_512 // 8,
        "reference copy": 4 * 7_615_616_512 // 8,
    }, rel=1e-6)  # fmt: skip
    assert plan.main_memory is not None
    assert plan.main_memory["offloaded between updates"] == 3 * 4 * 7_615_616_512
    assert plan.main_memory["weights on their way to vLLM"] == 4 * 7_615_616_512
    away = plan_of(tmp_path, QWEN_7B, {**GPUS, "ref_param_offload": True})
    assert away.main_memory is not None and away.main_memory["reference copy"] == 4 * 7_615_616_512
    assert away.memory is not None and "reference copy" not in away.memory


def test_half_a_billion_on_a_cpu_by_hand(tmp_path: Path, gpus: list[int]) -> None:
    data = {"max_prompt_length": 512, "max_response_length": 512, "train_batch_size": 2}
    rollout = {"inference": "transformers", "temperature": 1.0, "num_repeat": 2}
    plan = plan_of(tmp_path, QWEN_HALF_B, {**CPU, "use_kl_loss": False}, data=data, rollout=rollout)
    parameters, tokens = 494_032_768, 2 * 1024  # of each of two ranks
    assert plan.parameters == parameters and plan.memory is not None and plan.main_memory == {}
    assert plan.memory["logits"] == 2 * 3 * tokens * 151936 * 4
    assert plan.memory["activations"] == 2 * tokens * 4 * (24 * (9 * 896 + 2 * 128 + 4 * 4864) + 2 * 896)
    assert {plan.memory[part] for part in ("weights", "gradients", "sampling copy")} == {4 * parameters}
    assert plan.memory["optimizer"] == 8 * parameters
    assert list(plan.memory)[:2] == ["activations", "logits"]
    adapted = plan_of(tmp_path, QWEN_HALF_B, CPU, data=data, rollout=rollout, lora={"lora_rank": 8})
    assert adapted.memory is not None and "reference copy" not in adapted.memory
    assert adapted.memory["optimizer"] < plan.memory["optimizer"] / 50


@pytest.mark.parametrize(
    ("common", "ajet", "key", "fix"),
    [
        (GPUS, {}, "rollout.ppo_max_token_len_per_gpu", "to 7096 at the least"),
        (
            GPUS,
            {"rollout": {"ppo_max_token_len_per_gpu": 7096}},
            "trainer_common.n_gpus_per_node",
            "offload_policy: true",
        ),
        (
            {"model_dtype": "bf16"},
            {"rollout": {"temperature": 1.0}},
            "trainer_common.enable_gradient_checkpointing",
            "Write true",
        ),
    ],
)
def test_the_key_to_turn_is_that_of_the_largest_part(
    common: dict[str, Any], ajet: dict[str, Any], key: str, fix: str, tmp_path: Path, gpus: list[int]
) -> None:
    gpus += [16 * 10**9] * 8
    told_of = doubts(plan_of(tmp_path, QWEN_7B, common, data={"max_response_length": 4096}, **ajet))
    assert "the training may need" in told_of[key] and "of each GPU, which has 16.0 GB" in told_of[key]
    assert fix in told_of[key]


def test_state_that_verl_keeps_in_main_memory_is_not_on_the_gpu(tmp_path: Path, gpus: list[int]) -> None:
    config = config_of(tmp_path, QWEN_7B, GPUS)
    raw = {"actor_rollout_ref": {"actor": {"fsdp_config": {"offload_policy": True}}}}
    plan = make_plan(config.ajet, raw)
    assert plan.memory is not None and plan.main_memory is not None
    assert "optimizer" not in plan.memory and plan.main_memory["optimizer"] == 8 * 7_615_616_512


def test_vllm_on_a_gpu_that_trains_and_on_more_than_there_are(tmp_path: Path, gpus: list[int]) -> None:
    gpus += [80 * 10**9] * 2
    rollout = {"ppo_max_token_len_per_gpu": 18_000, "tensor_model_parallel_size": 4}
    plan = plan_of(tmp_path, QWEN_7B, GPUS, rollout=rollout)
    told_of = doubts(plan)
    needed = sum((plan.memory or {}).values())
    assert f"Lower it to {(80 - needed / 1e9) / 80 - 0.005:.2f}" in told_of["rollout.gpu_memory_utilization"]
    assert "which has 2 GPUs. Write 2 or less" in told_of["rollout.tensor_model_parallel_size"]
    lines = list(told(plan, config_of(tmp_path, QWEN_7B, GPUS).ajet))
    assert lines[-3].startswith("GPU memory  about 4") and "most of it logits 16.4 GB" in lines[-3]
    assert lines[-1].startswith("memory      about ")


def test_what_megatron_takes_is_not_estimated(tmp_path: Path, gpus: list[int]) -> None:
    config = config_of(tmp_path, QWEN_7B, {**GPUS, **MEGATRON})
    plan = make_plan(config.ajet)
    assert plan.memory is None and plan.parameters == 7_615_616_512
    assert list(told(plan, config.ajet))[-1] == "memory      not estimated: Megatron shares it out"


def test_vllm_that_sleeps_has_room_beside_what_the_training_keeps(tmp_path: Path, gpus: list[int]) -> None:
    gpus += [24 * 10**9]

    def doubt(**rollout: Any) -> str:
        rollout |= {"inference": "vllm"}
        common = {**GPUS, "device": "cuda", "use_kl_loss": False}
        plan = plan_of(tmp_path, QWEN_HALF_B, common, backbone="local", rollout=rollout)
        return doubts(plan).get("rollout.gpu_memory_utilization", "")

    awake = doubt(gpu_memory_utilization=0.6)
    assert "training needs 11.2 GB" in awake and "or set rollout.free_cache_engine: true" in awake
    assert doubt(gpu_memory_utilization=0.6, free_cache_engine=True) == ""
    parameters = 494_032_768  # in bfloat16, in float32, and with two running means
    kept = (2 + 4 + 8) * parameters / 1e9
    asleep = doubt(gpu_memory_utilization=0.85, free_cache_engine=True)
    assert f"training keeps {kept:.1f} GB" in asleep and f"Lower it to {1 - kept / 24 - 0.005:.2f}" in asleep


@pytest.mark.parametrize(
    ("common", "rollout", "error"),
    [
        (
            {"ulysses_sequence_parallel_size": 8},
            {},
            "8 GPUs cannot share the model's 28 .*1 or 2",
        ),
        ({}, {"tensor_model_parallel_size": 3}, "tensor_model_parallel_size: 3: 3 GPUs cannot share"),
        (
            {**MEGATRON, "megatron": {"tensor_model_parallel_size": 8}},
            {},
            "megatron.tensor_model.*8 GPUs cannot",
        ),
        (
            {**MEGATRON, "megatron": {"pipeline_model_parallel_size": 8}},
            {},
            "28 layers are not divided by 8. Write a divisor of 28",
        ),
        ({}, {"max_model_len": 40_000}, "max_model_len: 40000: the model has 32768 positions"),
    ],
)
def test_what_the_model_does_not_allow_is_refused(
    common: dict[str, Any], rollout: dict[str, Any], error: str, tmp_path: Path, gpus: list[int]
) -> None:
    with pytest.raises(TrainingError, match=error):
        plan_of(tmp_path, QWEN_7B, {**GPUS, **common}, rollout=rollout)
    stretched = {**QWEN_7B, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}}
    if "max_model_len" in rollout:
        assert plan_of(tmp_path, stretched, GPUS, rollout=rollout).memory
