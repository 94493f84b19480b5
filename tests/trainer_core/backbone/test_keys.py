"""Keys of the config in a training: what each changes, and what is said of one that cannot be done."""

import math
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.trainer_core.backbone.test_local import numbers, rows, weights
from trainer_core.backbone.main import train
from trainer_core.backbone.run import Run
from trainer_core.config.schema import Config
from trainer_core.engine import decoding

TinyConfig = Callable[..., Config]


@pytest.mark.parametrize(
    "common",
    [
        {"algorithm": {"rollout_is": "token"}, "old_logprobs": "recompute"},
        {"use_kl_loss": False, "algorithm": {"use_kl_in_reward": True}},
        {"algorithm": {"adv_estimator": "opo", "policy_loss": "gspo", "loss_agg_mode": "episode-mean"}},
        {"algorithm": {"adv_estimator": "rloo", "loss_agg_mode": "seq-mean-token-sum-norm"}},
        {"mini_batch_of": "group", "ppo_epochs": 2, "seed": 20261122123456},
        {"advantage_estimation_episode_level": False, "loss_weight_normalization_episode_level": False},
    ],
    ids=str,
)
def test_what_can_be_chosen_trains(tiny_config: TinyConfig, tmp_path: Path, common: dict[str, Any]) -> None:
    assert train(tiny_config(total_training_steps=3, test_freq=-1, **common)) == 0
    row = rows(tmp_path / "run")[-1]
    assert row["step"] == 3 and row["actor/grad_norm"] > 0
    assert row["training/rollout_probs_diff_max"] < 1e-5
    assert ("rollout_corr/kl" in row) == ("rollout_is" in common.get("algorithm", {}))


RECOMPUTED = {"old_logprobs": "recompute"}
REJECTING = {"rollout_rs": "token_k3", "rollout_rs_threshold": 1e-15}


@pytest.mark.parametrize(
    ("common", "changed"),
    [
        ({"algorithm": {"adv_estimator": "remax"}}, {}),
        ({"algorithm": {"adv_estimator": "reinforce_plus_plus", "gamma": 0.5}}, {"gamma": 1.0}),
        (
            {"algorithm": {"use_kl_in_reward": True, "kl_ctrl": {"kl_coef": 100.0}}},
            {"use_kl_in_reward": False},
        ),
        ({"algorithm": {"policy_loss": "sapo", "tau_pos": 9.0}}, {"tau_pos": 1.0}),
        ({"algorithm": {"policy_loss": "sapo", "tau_neg": 9.0}}, {"tau_neg": 1.05}),
        ({"algorithm": {"policy_loss": "dro", "dro_beta": 1000.0}}, {"dro_beta": 0.05}),
        ({**RECOMPUTED, "algorithm": REJECTING}, {"rollout_rs_threshold": 1.0}),
        (
            {**RECOMPUTED, "algorithm": {"rollout_is": "token", "rollout_is_threshold_lower": 1.0}},
            {"rollout_is_threshold_lower": None},
        ),
        ({"model_dtype": "bf16", "algorithm": {}}, {"model_dtype": "fp32"}),
    ],
    ids=str,
)
def test_what_is_set_reaches_the_update(
    tiny_config: TinyConfig, tmp_path: Path, common: dict[str, Any], changed: dict[str, Any]
) -> None:
    short = {"total_training_steps": 2, "test_freq": -1, "val_before_train": False}
    assert train(tiny_config("set", **short, **common)) == 0
    tree = tiny_config("other", **short, **common).model_dump()
    chosen = tree["ajet"]["trainer_common"]
    for name, value in (changed or {"adv_estimator": "grpo"}).items():
        (chosen if name in chosen else chosen["algorithm"])[name] = value
    assert train(Config.model_validate(tree)) == 0
    ours, others = rows(tmp_path / "set"), rows(tmp_path / "other")
    assert ours[0]["critic/rewards/mean"] == others[0]["critic/rewards/mean"] or "model_dtype" in common
    assert [row["actor/grad_norm"] for row in ours] != [row["actor/grad_norm"] for row in others]


@pytest.mark.parametrize("old_logprobs", ["rollout", "recompute"])
def test_sampling_by_other_weights_than_the_trainers_is_said_once(
    tiny_config: TinyConfig,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    old_logprobs: str,
) -> None:
    drawn = decoding.draw
    monkeypatch.setattr(decoding, "draw", lambda *given: (drawn(*given)[0], drawn(*given)[1] - 1.0))
    assert train(tiny_config(old_logprobs=old_logprobs)) == 0
    console = capsys.readouterr().out
    told = console.count("warning: step 1: a sampled token's probability differs by 0.")
    assert told == console.count("old_logprobs: recompute") == (old_logprobs == "rollout")


def test_kl_in_the_reward_is_reported(tiny_config: TinyConfig, tmp_path: Path) -> None:
    algorithm = {"use_kl_in_reward": True, "kl_ctrl": {"kl_coef": 0.25}}
    assert train(tiny_config(algorithm=algorithm, kl_penalty_type="low_var_kl")) == 0
    first, *_, last = rows(tmp_path / "run")[1:]
    assert first["actor/reward_kl_penalty"] < 1e-9 < last["actor/reward_kl_penalty"]
    assert last["actor/reward_kl_penalty_coeff"] == 0.25


def test_a_rejection_that_leaves_nothing_is_an_error(
    tiny_config: TinyConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    never = {"rollout_rs": "token_k1", "rollout_rs_threshold": 0.5, "rollout_rs_threshold_lower": 0.4}
    assert train(tiny_config(old_logprobs="recompute", algorithm=never)) == 1
    assert "rollout_rs left nothing; raise rollout_rs_threshold" in capsys.readouterr().err


def test_an_adapter_is_trained_saved_and_gone_on_with(tiny_config: TinyConfig, tmp_path: Path) -> None:
    pytest.importorskip("peft")

    def adapted(folder: str, **common: Any) -> Config:
        tree = tiny_config(folder, test_freq=-1, val_before_train=False, **common).model_dump()
        tree["ajet"]["lora"] |= {"lora_rank": 2, "target_modules": ["q_proj", "v_proj"]}
        return Config.model_validate(tree)

    assert train(adapted("whole")) == 0
    assert train(adapted("cut", total_training_steps=4)) == 0
    assert train(adapted("cut")) == 0
    assert numbers(tmp_path / "cut") == numbers(tmp_path / "whole")
    first, *_, last = rows(tmp_path / "whole")
    assert first["actor/kl_loss"] < 1e-3 < last["actor/kl_loss"]  # the reference has no adapter
    before, after = (weights(tmp_path / f"whole/checkpoints/step_00000{n}") for n in (2, 6))
    moved = {name for name, value in before.items() if not torch.equal(value, after[name])}
    assert moved == {f"model.layers.0.self_attn.{name}_proj.weight" for name in "qv"}


def test_what_engines_are_told(tiny_config: TinyConfig, tmp_path: Path) -> None:
    common = {"enable_gradient_checkpointing": True, "ref_param_offload": True}
    tree = tiny_config(**common).model_dump()
    tree["ajet"]["rollout"] |= {"deterministic": False, "kv_cache_memory_bytes": 12345}
    with ExitStack() as closing:
        run = Run(Config.model_validate(tree), closing, say=print, safe_point=lambda: None)
        training, inference = run.training, run.inference
        assert training._checkpointing and training._offload
        assert not inference._deterministic and inference._decoder._cache_bytes == 12345
        assert inference._decoder._max_length == 13


def test_a_gpu_that_is_not_there_is_one_clear_error(
    tiny_config: TinyConfig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert train(tiny_config(device="cuda")) == 1
    assert "ajet.trainer_common.device: torch sees no GPU here" in capsys.readouterr().err


def test_the_rate_rises_and_falls_as_the_schedule_says(tiny_config: TinyConfig, tmp_path: Path) -> None:
    optim = {"lr": 1e-3, "lr_warmup_steps": 2, "lr_scheduler_type": "cosine"}
    assert train(tiny_config(optim=optim, test_freq=-1, val_before_train=False)) == 0
    rates = [row["actor/lr"] for row in rows(tmp_path / "run")]
    cosine = [0.5 * (1 + math.cos(math.pi * done / 4)) * 1e-3 for done in (0, 1, 2, 3, 4)]
    assert rates == pytest.approx([0.5e-3, *cosine])
