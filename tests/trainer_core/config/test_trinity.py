"""From `ajet:` to Trinity's configuration, without Trinity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainer_core.config.keys import all_keys
from trainer_core.config.schema import Config
from trainer_core.config.support import findings
from trainer_core.config.trinity import TARGETS, rendered, targets
from trainer_core.types import TrainingError


def config(trinity: dict[str, Any] | None = None, **ajet: Any) -> Config:
    base = {
        "backbone": "trinity",
        "experiment_dir": "out/run",
        "model": {"path": "tiny"},
        "task_reader": {"type": "builtin"},
    }
    return Config.model_validate({"ajet": {**base, **ajet}, "trinity": trinity or {}})


def test_every_key_of_the_table_is_one_of_ours() -> None:
    assert {f"ajet.{path}" for path in TARGETS} <= all_keys().keys()
    assert targets("ajet.rollout.num_repeat") == ("algorithm.repeat_times",)
    assert targets("ajet.judge") == ()


def test_a_plain_config_is_taken_as_it_is() -> None:
    assert findings(config()) == ()


def test_the_tree_says_what_is_set() -> None:
    common = {"algorithm": {"gamma": 0.9, "adv_estimator": "reinforce_plus_plus"}, "kl_loss_type": "mse"}
    rollout = {"num_repeat": 8, "n_vllm_engine": 2, "multi_turn": {"expected_steps": 3}}
    tree = rendered(config(trainer_common=common, rollout=rollout), total_steps=7)
    algorithm, buffer, explorer = tree["algorithm"], tree["buffer"], tree["explorer"]
    assert (algorithm["algorithm_type"], algorithm["advantage_fn_args"]) == (
        "reinforceplusplus",
        {"gamma": 0.9},
    )
    assert (algorithm["kl_loss_fn"], algorithm["kl_loss_fn_args"]) == ("k2", {"kl_coef": 0.002})
    assert (buffer["batch_size"], buffer["train_batch_size"]) == (32, 32 * 8 * 3)
    assert (buffer["total_steps"], tree["trainer"]["total_steps"]) == (7, 7)
    assert (explorer["rollout_model"]["engine_num"], explorer["runner_per_model"]) == (2, 4)
    assert tree["checkpoint_root_dir"] == str(Path("out/run/checkpoints").absolute())
    assert tree["mode"] == "both"


@pytest.mark.parametrize(
    ("common", "place", "value"),
    [
        ({"n_gpus_per_node": 1}, "mode", "colocate"),
        ({"use_kl_loss": False}, "algorithm.kl_loss_fn", "none"),
        ({"advantage_estimation_episode_level": False}, "algorithm.algorithm_type", "grpo"),
        ({"algorithm": {"policy_loss": "gspo"}}, "algorithm.policy_loss_fn_args.clip_ratio_c", None),
        ({"old_logprobs": "recompute"}, "algorithm.bypass_old_logprobs", False),
        ({"save_freq": -1}, "trainer.save_interval", 0),
        ({"test_freq": -1}, "buffer.explorer_input.eval_tasksets", []),
        ({"logger": "wandb"}, "monitor.monitor_type", "wandb"),
        ({"total_training_steps": 5}, "buffer.total_steps", 5),
    ],
)
def test_what_is_not_a_plain_copy(common: dict[str, Any], place: str, value: Any) -> None:
    found: Any = rendered(config(trainer_common=common), total_steps=9)
    for name in place.split("."):
        found = found.get(name)
    assert found == value


def test_raw_keys_come_on_top_but_have_one_name_only() -> None:
    raw = {"synchronizer": {"sync_method": "memory"}}
    assert rendered(config(raw), total_steps=None)["synchronizer"]["sync_method"] == "memory"
    with pytest.raises(
        TrainingError, match=r"trinity\.buffer\.batch_size is set by ajet\.data\.train_batch_size"
    ):
        rendered(config({"buffer": {"batch_size": 3}}), total_steps=None)


@pytest.mark.parametrize(
    ("key", "ajet"),
    [
        (
            "trainer_common.algorithm.adv_estimator",
            {"trainer_common": {"algorithm": {"adv_estimator": "gae"}}},
        ),
        ("trainer_common.algorithm.policy_loss", {"trainer_common": {"algorithm": {"policy_loss": "sapo"}}}),
        (
            "trainer_common.algorithm.loss_agg_mode",
            {"trainer_common": {"algorithm": {"loss_agg_mode": "token-sum"}}},
        ),
        (
            "trainer_common.algorithm.norm_adv_by_std",
            {"trainer_common": {"algorithm": {"norm_adv_by_std": False}}},
        ),
        ("trainer_common.kl_loss_type", {"trainer_common": {"kl_loss_type": "k3+"}}),
        ("trainer_common.ppo_epochs", {"trainer_common": {"ppo_epochs": 2}}),
        ("trainer_common.mini_batch_num", {"trainer_common": {"mini_batch_num": 2}}),
        ("trainer_common.device", {"trainer_common": {"device": "cpu"}}),
        ("trainer_common.model_dtype", {"trainer_common": {"model_dtype": "fp32"}}),
        ("lora.lora_rank", {"lora": {"lora_rank": 8}}),
        ("rollout.inference", {"rollout": {"inference": "transformers"}}),
    ],
)
def test_what_trinity_would_compute_otherwise_is_refused_by_name(key: str, ajet: dict[str, Any]) -> None:
    assert {one.key: one.verdict for one in findings(config(**ajet))} == {f"ajet.{key}": "refused"}


def test_what_is_of_gpus_is_honoured_there_and_what_trinity_decides_is_reported() -> None:
    of_gpus = {"nnodes": 2, "n_gpus_per_node": 4, "ray": "cluster", "trinity_python": "python3"}
    assert findings(config(trainer_common=of_gpus, rollout={"max_num_seqs": 7, "n_vllm_engine": 2})) == ()
    (finding,) = findings(config(trainer_common={"ref_param_offload": True}))
    assert (finding.verdict, finding.why) == ("ignored", "Trinity decides")
