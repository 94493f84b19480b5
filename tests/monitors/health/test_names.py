"""What metrics mean under the names of several trainers."""

from __future__ import annotations

import math

import pytest

from monitors.health.names import MOST_SHAPES, names_to_read, read
from monitors.metrics import Row

TRAINERS = {
    "verl": (
        {"critic/rewards/mean": 0.2, "critic/score/mean": 0.5, "critic/score/max": 1.0, "actor/entropy": 0.3}
        | {
            "actor/kl_loss": 0.01,
            "actor/ppo_kl": 2e-4,
            "actor/pg_clipfrac": 0.02,
            "actor/pg_clipfrac_lower": 0.9,
        }
        | {"response_length/mean": 300.0, "response_length/clip_ratio": 0.1, "timing_s/step": 41.0}
        | {"actor/entropy_coeff": 7.0, "actor/kl_coef": 7.0, "perf/throughput": 900.0, "actor/pg_loss": 0.1},
        {"reward": 0.5, "reward_max": 1.0, "entropy": 0.3, "kl": 0.01, "update_kl": 2e-4, "clipped": 0.02}
        | {"length_mean": 300.0, "cut_off": 0.1, "step_time": 41.0, "throughput": 900.0},
    ),
    "trl": (
        {
            "loss": 0.0,
            "reward": 1.7,
            "reward_std": 0.6,
            "frac_reward_zero_std": 0.5,
            "kl": 5e-4,
            "entropy": 0.4,
        }
        | {"rewards/format/mean": 1.0, "completions/mean_length": 232.0, "completions/clipped_ratio": 0.05}
        | {"clip_ratio/low_mean": 9.0, "clip_ratio/region_mean": 0.01, "step_time": 12.0},
        {"reward": 1.7, "group_std": 0.6, "groups_equal": 0.5, "kl": 5e-4, "entropy": 0.4}
        | {"length_mean": 232.0, "cut_off": 0.05, "clipped": 0.01, "step_time": 12.0},
    ),
    "trl ppo": (
        {
            "objective/scores": 0.3,
            "objective/kl": 12.0,
            "policy/approxkl_avg": 0.01,
            "policy/clipfrac_avg": 0.1,
        }
        | {"loss/policy_avg": 0.2, "objective/entropy": 30.0},
        {"reward": 0.3, "kl": 12.0, "update_kl": 0.01, "clipped": 0.1, "entropy": 30.0},
    ),
    "openrlhf": (
        {"reward": 0.4, "kl": 0.02, "policy_loss": 0.1, "response_length": 210.0, "total_length": 400.0},
        {"reward": 0.4, "kl": 0.02, "length_mean": 210.0},
    ),
    "supervised": ({"train/loss": 2.0, "train/grad_norm": 1.0, "train/lr": 1e-5}, {}),
    "validation": ({"val/reward/mean": 0.5, "eval_loss": 1.0, "val/entropy": 0.2}, {}),
}


@pytest.mark.parametrize("trainer", TRAINERS)
def test_meanings(trainer: str) -> None:
    values, meanings = TRAINERS[trainer]
    assert read(Row(1, values), 1, 1).of == meanings


def test_what_is_vital_and_what_is_a_loss() -> None:
    values = {"actor/pg_loss": 1.0, "actor/kl_loss": 2.0, "loss_scale": 3.0, "critic/grad_norm": 4.0}
    parts = {
        "reward": 5.0,
        "rewards/format/mean": math.nan,
        "reward_std": math.nan,
        "timing_s/step": math.nan,
    }
    seen = read(Row(1, {**values, **parts, "val/reward/mean": 6.0, "val/loss": 7.0}), 3, 2)
    assert set(seen.vital) == {"actor/pg_loss", "actor/kl_loss", "loss_scale", "critic/grad_norm", "reward"}
    assert (set(seen.losses), set(seen.gradients)) == ({"actor/pg_loss"}, {"critic/grad_norm"})
    assert seen.scores == {"val/reward/mean": 6.0, "val/loss": 7.0}
    assert (seen.step, seen.line, seen.number) == (1, 3, 2)


def test_sizes_of_a_validation_are_no_scores() -> None:
    sizes = {"val/total_tasks": 0.0, "val/pass_n": 4.0, "val/std_reward": 0.0, "val/num_pass_n_tasks": 0.0}
    results = {"val/task_pass_rate@1": 0.0, "val/mean_reward": 0.0, "val/aime/acc/mean@32": 0.1}
    assert read(Row(1, {**sizes, **results}), 1, 1).scores == results


def test_rows_that_never_look_alike_do_not_pile_up() -> None:
    for step in range(3 * MOST_SHAPES):
        seen = read(Row(step, {f"loss_{step}": 1.0}), step, step)
        assert seen.losses == {f"loss_{step}": 1.0}
    assert names_to_read.cache_info().currsize <= MOST_SHAPES
