"""Courses of trainings as they are published and reported, made from a seed: healthy and sick ones.

In: nothing. Out: `HEALTHY`, name → rows; `SICK`, name → (kind of the alarm, step at which it begins to show,
the most steps until it is told, rows). Shapes whose real counterpart is easily made are in `curves/`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from monitors.metrics import Row
from monitors.rules import AlarmKind

Maker = Callable[[random.Random], list[Row]]


def verl(step: int, chance: random.Random, **other: float) -> Row:
    """A row of a good verl run at this step; `other` replaces values, `__` stands for a slash."""
    gained = 1 - math.exp(-step / 120)
    reward = 0.2 + 0.5 * gained + chance.gauss(0, 0.04)
    length = 400 + 100 * gained + chance.gauss(0, 15)
    seconds = 40 + chance.gauss(0, 2)
    values = {
        "actor/pg_loss": chance.gauss(0, 0.01),
        "actor/kl_loss": 0.02 * gained * (1 + chance.gauss(0, 0.1)),
        "actor/entropy": 0.5 - 0.3 * gained + chance.gauss(0, 0.01),
        "actor/ppo_kl": chance.gauss(0, 3e-4),
        "actor/pg_clipfrac": abs(chance.gauss(0, 2e-3)),
        "actor/grad_norm": 0.15 * math.exp(chance.gauss(0, 0.3)),
        "critic/score/mean": reward,
        "critic/score/max": 1.0,
        "critic/score/min": 0.0,
        "critic/rewards/mean": reward - 0.001,
        "critic/advantages/max": 2.4,
        "critic/advantages/min": -2.4,
        "response_length/mean": length,
        "response_length/max": 1024.0,
        "response_length/min": 30.0,
        "response_length/clip_ratio": 0.02,
        "timing_s/step": seconds,
        "perf/throughput": 900 * length / (10 * seconds),
    }
    return Row(step, values | {name.replace("__", "/"): value for name, value in other.items()})


def run(steps: int, change: Callable[[int, random.Random], dict[str, float]]) -> Maker:
    """A verl run of so many steps, with what `change` says of each."""
    return lambda chance: [verl(step, chance, **change(step, chance)) for step in range(1, steps + 1)]


def trl(steps: int, change: Callable[[int, random.Random], dict[str, float]]) -> Maker:
    """A GRPO run as TRL prints it: no step, an epoch."""

    def make(chance: random.Random) -> list[Row]:
        rows = []
        for step in range(1, steps + 1):
            reward = 0.3 + 0.4 * step / steps + chance.gauss(0, 0.08)
            values = {
                "loss": 0.0 if step < 5 else round(4e-5 * step + chance.gauss(0, 1e-4), 4),
                "grad_norm": 0.3 * math.exp(chance.gauss(0, 0.4)),
                "learning_rate": 1e-6,
                "completions/mean_length": 232 + chance.gauss(0, 9),
                "completions/max_length": 512.0,
                "completions/min_length": 40.0,
                "completions/clipped_ratio": 0.05,
                "rewards/accuracy/mean": reward,
                "rewards/format/mean": math.nan,
                "reward": reward,
                "reward_std": 0.3 + chance.gauss(0, 0.03),
                "frac_reward_zero_std": 0.25,
                "entropy": 0.4 + chance.gauss(0, 0.02),
                "kl": 5e-4 * step,
                "clip_ratio/region_mean": 0.002,
            }
            rows.append(Row(None, values | change(step, chance), epoch=round(step / steps, 4)))
        return rows

    return make


def nothing(step: int, chance: random.Random) -> dict[str, float]:
    return {}


# --- healthy --------------------------------------------------------------------------------------------


def spikes_while_warming_up(step: int, chance: random.Random) -> dict[str, float]:
    isolated = step < 15 or step in (90, 180, 181, 270)
    return {"actor__grad_norm": 40 * chance.random() if isolated else 0.2 * math.exp(chance.gauss(0, 0.4))}


def kl_without_penalty(step: int, chance: random.Random) -> dict[str, float]:
    return {"actor__kl_loss": 1e-4 + 5 * (step / 400) ** 2 * math.exp(chance.gauss(0, 0.2))}


def sparse(step: int, chance: random.Random) -> dict[str, float]:
    reward = 0.0 if step <= 60 else min(0.6, (step - 60) / 150) * (1 + chance.gauss(0, 0.2))
    found = reward > 0
    return {
        "critic__score__mean": reward,
        "critic__score__max": float(found),
        "critic__rewards__mean": reward,
        "critic__advantages__max": 3.7 * found,
        "critic__advantages__min": -1.1 * found,
        "actor__pg_loss": chance.gauss(0, 0.01) * found,
        "actor__grad_norm": 0.4 if found else 1e-6,
    }


def entropy_slowly(step: int, chance: random.Random) -> dict[str, float]:
    return {"actor__entropy": 0.9 * math.exp(-step / 90)}


def longer_answers(step: int, chance: random.Random) -> dict[str, float]:
    length = 300 + 6 * step
    seconds = 30 + length / 8 + chance.gauss(0, 5)
    return {
        "response_length__mean": length,
        "response_length__max": 4096.0,
        "response_length__clip_ratio": min(0.3, step / 1000),
        "timing_s__step": seconds,
        "perf__throughput": 20 * length / seconds,
    }


def evaluation_pauses(step: int, chance: random.Random) -> dict[str, float]:
    if step % 20:
        return {}
    return {"timing_s__step": 700.0, "perf__throughput": 20.0, "val__aime__acc__mean@1": 0.1 + step / 2000}


def negative_noise(step: int, chance: random.Random) -> dict[str, float]:
    reward = -3 + step / 300 + chance.gauss(0, 2)
    return {"critic__score__mean": reward, "critic__score__max": reward + 4, "critic__score__min": reward - 4}


def solved(step: int, chance: random.Random) -> dict[str, float]:
    return {
        "critic__score__mean": 1.0,
        "critic__score__min": 1.0,
        "critic__advantages__max": 0.0,
        "critic__advantages__min": 0.0,
        "actor__pg_loss": 0.0,
        "actor__grad_norm": 0.0,
        "actor__entropy": 0.3 * math.exp(-step / 20),
    }


def curriculum(step: int, chance: random.Random) -> dict[str, float]:
    return {
        "critic__score__mean": 0.85 - 0.2 * (step // 100) + 0.15 * (step % 100) / 100 + chance.gauss(0, 0.05)
    }


def returns_grow(step: int, chance: random.Random) -> dict[str, float]:
    value = min(500.0, 1.02**step)
    return {"critic__score__mean": value, "critic__vf_loss": 0.2 * value**2 * math.exp(chance.gauss(0, 0.5))}


def hard_validation(step: int, chance: random.Random) -> dict[str, float]:
    return {} if step % 25 else {"val__aime__acc__mean@8": 0.0 if step <= 100 else step / 3000}


def answers_of_one_length(step: int, chance: random.Random) -> dict[str, float]:
    reward = 0.1 + 0.6 * max(0, step - 60) / 200 + chance.gauss(0, 0.02)
    length = {f"response_length__{part}": 8.0 for part in ("mean", "max", "min")}
    return {**length, "response_length__clip_ratio": 1.0, "critic__score__mean": reward}


def loss_scale_comes_down(chance: random.Random) -> list[Row]:
    return [
        Row(
            step, {"loss": 2 - step / 200 + chance.gauss(0, 0.1), "grad_norm": math.inf if step < 17 else 0.8}
        )
        for step in range(1, 200)
    ]


def ever_faster(chance: random.Random) -> list[Row]:
    """Lightning's names, and a first step that compiles."""
    return [
        Row(
            step,
            {"train/loss": 3 / step**0.3, "step_time": 95.0 if step == 1 else 0.4, "grad_norm": 1 / step},
        )
        for step in range(1, 200)
    ]


HEALTHY: dict[str, Maker] = {
    "verl": run(400, nothing),
    "trl": trl(300, nothing),
    "spikes_while_warming_up": run(300, spikes_while_warming_up),
    "kl_without_penalty": run(400, kl_without_penalty),
    "sparse": run(250, sparse),
    "entropy_slowly": run(400, entropy_slowly),
    "longer_answers": run(500, longer_answers),
    "evaluation_pauses": run(300, evaluation_pauses),
    "negative_noise": run(500, negative_noise),
    "solved": run(200, solved),
    "curriculum": run(300, curriculum),
    "returns_grow": run(400, returns_grow),
    "hard_validation": run(300, hard_validation),
    "answers_of_one_length": run(260, answers_of_one_length),
    "loss_scale_comes_down": loss_scale_comes_down,
    "ever_faster": ever_faster,
    "smoke_test": run(8, lambda step, chance: sparse(step, chance)),
}


# --- sick -----------------------------------------------------------------------------------------------


def after(
    start: int, values: Callable[[int, random.Random], dict[str, float]]
) -> Callable[..., dict[str, float]]:
    """Healthy up to and with the step before `start`."""
    return lambda step, chance: values(step, chance) if step >= start else {}


def collapse(step: int, chance: random.Random) -> dict[str, float]:
    reward = max(0.0, 0.45 - 0.03 * (step - 100))
    return {"critic__score__mean": reward + abs(chance.gauss(0, 0.01)), "critic__rewards__mean": reward}


def entropy_gone(step: int, chance: random.Random) -> dict[str, float]:
    return {"actor__entropy": 0.002, "critic__score__mean": 0.15 + chance.gauss(0, 0.02)}


def no_differences(step: int, chance: random.Random) -> dict[str, float]:
    return {"critic__advantages__max": 0.0, "critic__advantages__min": 0.0, "actor__grad_norm": 0.01}


def spikes(step: int, chance: random.Random) -> dict[str, float]:
    return {"actor__grad_norm": 90.0} if step % 7 == 0 else {}


def cut_off(step: int, chance: random.Random) -> dict[str, float]:
    return {"response_length__clip_ratio": 0.99, "critic__score__mean": 0.1 + chance.gauss(0, 0.02)}


def slow(step: int, chance: random.Random) -> dict[str, float]:
    return {"timing_s__step": 400.0, "perf__throughput": 100.0}


def zeros_at_validation(step: int, chance: random.Random) -> dict[str, float]:
    return {} if step % 10 else {"val__gsm8k__acc__mean@1": 0.0, "val__gsm8k__reward__mean@1": 0.0}


def nan_at_validation(step: int, chance: random.Random) -> dict[str, float]:
    return {} if step % 10 else {"val__loss": math.nan}


def doubling(chance: random.Random) -> list[Row]:
    return [Row(step, {"train/loss": 0.5 * 2 ** max(0, step - 30)}) for step in range(1, 80)]


def unlearning(chance: random.Random) -> list[Row]:
    """A language model that a too high rate ruins: its loss jumps to that of guessing and stays there."""
    losses = [2.5 * math.exp(-step / 50) + 0.5 if step < 100 else 10.4 for step in range(1, 200)]
    return [Row(step, {"loss": loss + chance.gauss(0, 0.05)}) for step, loss in enumerate(losses, start=1)]


def loss_is_nan(step: int, chance: random.Random) -> dict[str, float]:
    return {"actor__pg_loss": math.nan, "actor__grad_norm": math.nan}


SICK: dict[str, tuple[AlarmKind, int, int, Maker]] = {
    "nan": ("nan", 50, 2, run(60, after(50, loss_is_nan))),
    "infinite_gradients": ("nan_gradients", 1, 19, trl(60, lambda step, chance: {"grad_norm": math.inf})),
    "loss_doubles": ("divergence", 31, 24, doubling),
    "unlearning": ("divergence", 100, 19, unlearning),
    "reward_collapse": ("reward_collapse", 100, 55, run(250, after(100, collapse))),
    "reward_stuck": (
        "reward_stuck",
        1,
        99,
        trl(150, lambda step, chance: {"reward": 0.0, "reward_std": 0.0}),
    ),
    "no_differences": ("no_signal", 80, 19, run(150, after(80, no_differences))),
    "groups_equal": ("no_signal", 1, 20, trl(60, lambda step, chance: {"frac_reward_zero_std": 1.0})),
    "gradients_zero": ("no_signal", 1, 20, trl(60, lambda step, chance: {"grad_norm": 0.0, "loss": 0.0})),
    "entropy_gone": ("entropy_collapse", 60, 40, run(200, after(60, entropy_gone))),
    "kl_explodes": (
        "kl_explosion",
        90,
        4,
        run(150, after(90, lambda step, chance: {"actor__kl_loss": 250.0})),
    ),
    "update_too_far": (
        "kl_explosion",
        90,
        4,
        run(150, after(90, lambda step, chance: {"actor__ppo_kl": 3.0})),
    ),
    "gradient_spikes": ("gradient_spikes", 101, 33, run(200, after(101, spikes))),
    "all_clipped": (
        "all_clipped",
        70,
        9,
        run(150, after(70, lambda step, chance: {"actor__pg_clipfrac": 0.99})),
    ),
    "cut_off": ("length_at_cap", 70, 40, run(200, after(70, cut_off))),
    "slow": ("slow_steps", 120, 9, run(180, after(120, slow))),
    "validation_is_zero": ("evaluation_fails", 10, 40, run(120, zeros_at_validation)),
    "validation_is_nan": ("evaluation_fails", 10, 10, run(120, nan_at_validation)),
}
