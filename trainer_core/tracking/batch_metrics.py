"""What a step's batch says: rewards, advantages, lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from trainer_core.types import Batch, Episode

_LARGE_DRIFT = 0.05
"""Between a token's probability as sampled and the trainer's own, before the first update. Where both are of
the same weights, only rounding makes one: up to 2e-6 in float32 and 0.003 in bfloat16 (measured). At 0.05 a
token of probability 1/4 starts at the edge of the usual clip range, ratios 0.8 to 1.2."""


def batch_metrics(episodes: Sequence[Episode], batch: Batch, longest_response: int) -> dict[str, float]:
    """Metrics of one step, under verl's names; episodes that failed are counted and left out.

    `critic/advantages` are those of trained tokens. `prompt_length` and `response_length` are of calls;
    `response_length/clip_ratio` is the share of answers that reached the limit of `longest_response` tokens.
    """
    judged = [one for one in episodes if one.error is None and one.reward is not None]
    calls = [call for one in judged for call in one.calls]
    prompts = torch.tensor([float(len(call.prompt_ids)) for call in calls])
    responses = torch.tensor([float(len(call.completion_ids)) for call in calls])
    return {
        **_spread("critic/rewards", torch.tensor([float(one.reward or 0.0) for one in judged])),
        **_spread("critic/advantages", batch.advantage[batch.trained]),
        "critic/success_rate": sum(one.is_success for one in judged) / len(judged),
        "critic/failed_episodes": len(episodes) - len(judged),
        **_spread("response_length", responses),
        "response_length/clip_ratio": float((responses >= longest_response).float().mean()),
        "prompt_length/mean": float(prompts.mean()),
        "perf/total_num_tokens": int(prompts.sum() + responses.sum()),
    }


def drift_warning(step: int, row: Mapping[str, float]) -> str | None:
    """What to do where ratios are taken to log-probabilities as sampled, and those are not the trainer's."""
    drift = row["training/rollout_probs_diff_max"]
    if drift <= _LARGE_DRIFT:
        return None
    return (
        f"warning: step {step}: a sampled token's probability differs by {drift:.2g} from the trainer's own, "
        "so ratios are off before the first update. Set ajet.trainer_common.old_logprobs: recompute"
    )


def mean_of(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each metric over rows that have the same ones."""
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}


def _spread(name: str, values: torch.Tensor) -> dict[str, float]:
    return {
        f"{name}/mean": float(values.mean()),
        f"{name}/max": float(values.max()),
        f"{name}/min": float(values.min()),
    }
