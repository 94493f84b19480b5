"""The schema: defaults people know from AgentJet, defaults that depend on other keys, rules between keys."""

from typing import Any

import pytest
from pydantic import ValidationError

from trainer_core.config.keys import all_keys
from trainer_core.config.schema import Config


def config(**ajet: Any) -> Config:
    return Config.model_validate({"ajet": ajet})


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("project_name", "ajet_default_project"),
        ("experiment_name", "read_yaml_name"),
        ("experiment_dir", "auto"),
        ("backbone", "local"),
        ("data.max_prompt_length", 3000),
        ("data.max_response_length", 15000),
        ("data.train_batch_size", 32),
        ("rollout.max_env_worker", 64),
        ("rollout.compute_madness_checklist", ["nonsense"]),
        ("rollout.agent_madness_reward", -1.0),
        ("rollout.max_model_len", 18000),
        ("rollout.max_response_length_in_one_turn", 4096),
        ("rollout.num_repeat", 4),
        ("rollout.temperature", 0.9),
        ("rollout.multi_turn.max_steps", 30),
        ("task_reader.type", "huggingface_dat_repo"),
        ("task_reader.huggingface_dat_repo.dataset_path", "gsm8k"),
        ("task_reader.data_generation.deduplication_filter.params.similarity_threshold", 0.8),
        ("task_judge.rubrics_auto_grader.grader_mode", "pointwise"),
        ("context_tracker.timeline_merging_policy.timeline_compare_level", "token"),
        ("debug.debug_vllm_seed", 12345),
        ("trainer_common.val_pass_n", 4),
        ("trainer_common.save_freq", 20),
        ("trainer_common.test_freq", 20),
        ("trainer_common.total_epochs", 50),
        ("trainer_common.seed", 0),
        ("trainer_common.logger", "console"),
        ("trainer_common.algorithm.adv_estimator", "grpo"),
        ("trainer_common.kl_loss_coef", 0.002),
        ("trainer_common.optim.lr", 1e-6),
        ("lora.lora_rank", 0),
        ("interchange_server.interchange_server_port", "auto"),
        ("task_runner.wrapper_multiprocessing_timeout", 3600),
        ("execute_test", False),
    ],
)
def test_defaults(key: str, default: object) -> None:
    assert all_keys()[f"ajet.{key}"].default == default


def test_every_key_is_described() -> None:
    assert [key.path for key in all_keys().values() if not key.description] == []


def test_nothing_can_be_changed_later() -> None:
    with pytest.raises(ValidationError):
        config().ajet.data.train_batch_size = 3


def test_lengths_nobody_set_follow_from_those_that_are_set() -> None:
    rollout = config(data={"max_prompt_length": 20, "max_response_length": 10}).ajet.rollout
    assert (rollout.max_model_len, rollout.max_response_length_in_one_turn) == (30, 10)


@pytest.mark.parametrize(("attempts", "temperature", "samples"), [(1, 0.0, False), (4, 1.0, True)])
def test_validation_samples_only_for_several_attempts(
    attempts: int, temperature: float, samples: bool
) -> None:
    sampling = config(trainer_common={"val_pass_n": attempts}).ajet.rollout.val_kwargs
    assert (sampling.temperature, sampling.do_sample) == (temperature, samples)
    told = config(trainer_common={"val_pass_n": attempts}, rollout={"val_kwargs": {"temperature": 0.7}})
    assert told.ajet.rollout.val_kwargs.temperature == 0.7
    assert told.ajet.rollout.val_kwargs.do_sample


@pytest.mark.parametrize(
    ("reader", "judge", "expected"),
    [
        ("builtin", {}, "exact_match"),
        ("huggingface_dat_repo", {}, "customized_protocol"),
        ("builtin", {"judge_protocol": "mine->Judge"}, "customized_protocol"),
        ("huggingface_dat_repo", {"judge_type": "exact_match"}, "exact_match"),
    ],
)
def test_judge_follows_from_the_reader(reader: str, judge: dict[str, str], expected: str) -> None:
    assert config(task_reader={"type": reader}, task_judge=judge).ajet.task_judge.judge_type == expected


def test_checks_of_abnormal_answers_are_off_where_there_are_none() -> None:
    assert config().ajet.rollout.compute_madness_checklist == []
    assert config(backbone="trinity").ajet.rollout.compute_madness_checklist == ["nonsense"]


def test_vllm_takes_turns_where_it_shares_the_gpus_with_verl() -> None:
    def turns(**ajet: Any) -> bool:
        return config(backbone="verl", **ajet).ajet.rollout.free_cache_engine

    verls, on_cpu = {"inference": "verl"}, {"device": "cpu"}
    assert turns(rollout=verls) and not turns(rollout=verls, trainer_common=on_cpu) and not turns()


def test_what_computes_the_same_samples_follows_from_the_strategy() -> None:
    sizes = {"tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2, "context_parallel_size": 2}
    chosen = config(**megatron(megatron=sizes)).ajet.trainer_common
    assert (chosen.model_parallel_size, chosen.sequence_parallel_size) == (8, 2)
    other = config(**shared()).ajet.trainer_common
    assert (other.model_parallel_size, other.sequence_parallel_size) == (8, 8)


def test_checkpoints_go_into_the_output_folder() -> None:
    assert config(experiment_dir="/out").ajet.trainer_common.checkpoint_base_dir == "/out/checkpoints"
    told = config(experiment_dir="/out", trainer_common={"checkpoint_base_dir": "/big"})
    assert told.ajet.trainer_common.checkpoint_base_dir == "/big"


RECOMPUTED = {"old_logprobs": "recompute"}


def shared(**common: Any) -> dict[str, Any]:
    common = {"ulysses_sequence_parallel_size": 8, "model_dtype": "bf16"} | common
    return {"backbone": "verl", "trainer_common": common}


def hybrid(**rollout: Any) -> dict[str, Any]:
    return {"backbone": "verl", "rollout": {"inference": "verl", **rollout}}


def megatron(**common: Any) -> dict[str, Any]:
    sizes = {"tensor_model_parallel_size": 2, "context_parallel_size": 2}
    common = {"strategy": "megatron", "megatron": sizes, "model_dtype": "bf16", "n_gpus_per_node": 8} | common
    return {"backbone": "verl", "trainer_common": common}


def corrected(common: dict[str, Any] = RECOMPUTED, **algorithm: Any) -> dict[str, Any]:
    """Tokens are rejected by their ratio."""
    return {"trainer_common": {**common, "algorithm": {"rollout_rs": "token_k1", **algorithm}}}


@pytest.mark.parametrize(
    ("key", "ajet"),
    [
        ("experiment_name", {"experiment_name": "a/b"}),
        ("experiment_name", {"experiment_name": ".."}),
        ("rollout.max_model_len", {"rollout": {"max_model_len": 17999}}),
        ("rollout.max_response_length_in_one_turn", {"rollout": {"max_response_length_in_one_turn": 15001}}),
        ("rollout.gamma", {"rollout": {"gamma": 0.99}}),
        ("trainer_common.mini_batch_num", {"trainer_common": {"mini_batch_num": 3}}),
        ("trainer_common.old_logprobs", {"rollout": {"inference": "vllm", "top_p": 0.9}}),
        ("trainer_common.old_logprobs", {"rollout": {"inference": "vllm", "top_k": 20}}),
        (
            "trainer_common.ulysses_sequence_parallel_size",
            {"trainer_common": {"n_gpus_per_node": 6, "ulysses_sequence_parallel_size": 4}},
        ),
        ("trainer_common.ulysses_sequence_parallel_size", shared(model_dtype="fp32")),
        ("rollout.free_cache_engine", {"rollout": {"inference": "vllm", "free_cache_engine": True}}),
        ("rollout.inference", {"rollout": {"inference": "verl"}, "trainer_common": {"device": "cuda"}}),
        ("rollout.tensor_model_parallel_size", hybrid(tensor_model_parallel_size=3)),
        ("rollout.name", hybrid(name="sglang")),
        ("rollout.vllm_python", hybrid(vllm_python="python3")),
        ("rollout.vllm_arguments", hybrid(vllm_arguments=["--enforce-eager"])),
        ("trainer_common.model_dtype", {**hybrid(), "lora": {"lora_rank": 8}}),
        ("trainer_common.strategy", megatron(model_dtype="fp32")),
        ("trainer_common.strategy", megatron(device="cpu")),
        ("trainer_common.megatron", megatron(strategy="fsdp2")),
        ("trainer_common.megatron", megatron(n_gpus_per_node=6)),
        ("trainer_common.ulysses_sequence_parallel_size", megatron(ulysses_sequence_parallel_size=2)),
        ("lora.lora_rank", {**megatron(), "lora": {"lora_rank": 8}}),
        (
            "rollout.free_cache_engine",
            {
                "rollout": {"inference": "vllm", "free_cache_engine": True},
                "trainer_common": {
                    "device": "cuda",
                    "one_step_off_policy": True,
                    **RECOMPUTED,
                    "algorithm": {"rollout_is": "token"},
                },
            },
        ),
        ("trainer_common.ulysses_sequence_parallel_size", shared(device="cpu", n_gpus_per_node=8)),
        ("trainer_common.algorithm.rollout_rs", corrected(common={}, rollout_rs_threshold=2.0)),
        ("trainer_common.algorithm.rollout_rs_threshold", corrected()),
        ("trainer_common.algorithm.rollout_rs_threshold", corrected(rollout_rs_threshold=0.9)),
        (
            "trainer_common.algorithm.rollout_rs_threshold_lower",
            corrected(rollout_rs_threshold=2.0, rollout_rs_threshold_lower=2.0),
        ),
        (
            "trainer_common.algorithm.rollout_is_threshold_lower",
            {"trainer_common": {"algorithm": {"rollout_is_threshold_lower": 2.0}}},
        ),
        ("model.tiny.hidden_size", {"model": {"path": "tiny", "tiny": {"hidden_size": 36}}}),
        ("model.tiny.num_key_value_heads", {"model": {"path": "tiny", "tiny": {"num_key_value_heads": 3}}}),
        (
            "task_reader.jsonl_dataset_file.validation.file_path",
            {
                "task_reader": {
                    "type": "jsonl_dataset_file",
                    "jsonl_dataset_file": {"training": {"file_path": "a"}},
                }
            },
        ),
    ],
)
def test_rules_between_keys(key: str, ajet: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        config(**ajet)
    (error,) = caught.value.errors()
    assert [broken.key for broken in error["ctx"]["violations"]] == [f"ajet.{key}"]


@pytest.mark.parametrize(
    "ajet",
    [
        {"rollout": {"max_model_len": 18000, "max_response_length_in_one_turn": 15000, "gamma": 1}},
        {"trainer_common": {"mini_batch_num": 128}},
        shared(),
        megatron(),
        hybrid(tensor_model_parallel_size=8),
        {**hybrid(vllm_python="python3"), "backbone": "debug"},
        {"model": {"path": "tiny", "tiny": {"hidden_size": 40, "num_key_value_heads": 2}}},
        {
            "task_reader": {
                "type": "jsonl_dataset_file",
                "jsonl_dataset_file": {"training": {"file_path": "a"}},
            },
            "trainer_common": {"test_freq": -1},
        },
    ],
)
def test_the_edge_of_a_rule_is_allowed(ajet: dict[str, Any]) -> None:
    config(**ajet)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("data", "train_batch_size", 0),
        ("data", "train_batch_size", True),
        ("data", "train_batch_size", "32"),
        ("data", "train_batch_size", 1e3),
        ("rollout", "temperature", 0),
        ("rollout", "top_p", 0),
        ("rollout", "top_k", -2),
        ("trainer_common", "val_before_train", "on"),
        ("trainer_common", "val_before_train", 1),
        ("trainer_common", "kl_loss_coef", float("nan")),
        ("trainer_common", "test_freq", None),
        ("trainer_common", "seed", -1),
    ],
)
def test_values_are_neither_guessed_nor_converted(section: str, key: str, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        config(**{section: {key: value}})
    assert [error["loc"] for error in caught.value.errors()] == [("ajet", section, key)]


def test_toys_are_those_the_reader_knows() -> None:
    from trainer_core.tasks.builtin import TOYS

    assert set(all_keys()["ajet.task_reader.builtin.name"].type.split(" | ")) == set(TOYS)


def test_kl_estimators_are_those_the_algorithm_knows() -> None:
    from trainer_core.algorithm.kl import KL_ESTIMATORS

    known = {name + plus for name in KL_ESTIMATORS for plus in ("", "+")}
    assert set(all_keys()["ajet.trainer_common.kl_loss_type"].type.split(" | ")) == known
