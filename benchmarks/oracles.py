"""The trainer's formulas beside verl 0.9.1's: the worst difference over random batches, in float64.

Runs where verl can be imported (`pip install --no-deps verl==0.9.1`, and torch, transformers==5.10.4,
tensordict, ray, omegaconf, hydra-core, codetiming, pyvers, datasets, peft, torchdata). verl takes padded
tensors [B, R], ours the same tokens flat with prompts before them. `--freeze` writes what the tests use.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf, isnan
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import torch
from _claim import Row, parser, publish

from trainer_core.algorithm.advantages import Outcomes, advantages, gae
from trainer_core.algorithm.correction import Correction, rollout_correction
from trainer_core.algorithm.kl import kl_estimate, kl_penalty
from trainer_core.algorithm.logits import logprobs_and_entropy
from trainer_core.algorithm.losses import policy_loss
from trainer_core.algorithm.names import KL_ESTIMATORS
from trainer_core.algorithm.weights import token_weights
from trainer_core.types import Aggregation, Loss, LossName, RejectionStatistic

FROZEN = 144
"""Seed of the batch that is frozen: two sequences have no trained tokens; no group of one."""
Pair = tuple[torch.Tensor, torch.Tensor]
"""Ours and verl's."""


class RandomBatch:
    """B sequences of R places: padded tensors for verl, and the flat tokens of the same."""

    def __init__(self, seed: int) -> None:
        self._random = torch.Generator().manual_seed(seed)
        sizes = torch.randint(1, 6, (4,), generator=self._random) + (seed % 3 == 0)
        self.groups = torch.repeat_interleave(torch.arange(4), sizes)
        self.groups = self.groups[torch.randperm(len(self.groups), generator=self._random)]
        self.shape = len(self.groups), int(torch.randint(2, 12, (1,), generator=self._random))
        lengths = torch.randint(1, self.shape[1] + 1, (self.shape[0], 1), generator=self._random)
        inside = torch.arange(self.shape[1]) < lengths
        self.mask = inside & (torch.rand(self.shape, generator=self._random) < 0.8)
        self.mask[0, 0] = self.mask[1, 0] = True
        if seed % 4 == 0:
            self.mask[-1] = False
        self.old = -torch.rand(self.shape, generator=self._random, dtype=torch.float64) * 4
        noise = self.normal(self.shape) * (20.0 if seed % 10 == 0 else 0.4)
        self.new = self.old + noise
        self.ref = self.old + self.normal(self.shape)
        self.advantage = self.normal(self.shape)
        graded = torch.randint(0, 5, (self.shape[0],), generator=self._random) / 4
        self.rewards = (self.normal((self.shape[0],)) if seed % 2 else graded).double()
        self.values = self.normal(self.shape)
        prompts = torch.randint(1, 4, (self.shape[0],), generator=self._random)
        self._flat = torch.cat([torch.tensor([False] * int(p) + [True] * self.shape[1]) for p in prompts])
        self.segment = torch.repeat_interleave(torch.arange(self.shape[0]), prompts + self.shape[1])
        self.trained = self.flat(self.mask)

    def normal(self, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.randn(shape, generator=self._random, dtype=torch.float64)

    def flat(self, padded: torch.Tensor) -> torch.Tensor:
        """[B, R] → [T]; the places of prompts hold NaN, which must not matter."""
        filler = False if padded.dtype == torch.bool else torch.nan
        tokens = torch.full((len(self._flat),), filler, dtype=padded.dtype)
        tokens[self._flat] = padded.reshape(-1)
        return tokens

    def padded(self, tokens: torch.Tensor) -> torch.Tensor:
        return tokens[self._flat].reshape(self.shape)

    def outcomes(self, **more: Any) -> Outcomes:
        alone = torch.arange(self.shape[0])
        return Outcomes(self.rewards, self.groups, self.trained, self.segment, alone, **more)

    def last_place_rewards(self) -> torch.Tensor:
        """[B, R] the reward on the last trained place of each sequence (the last of all where none is), as
        verl is given it."""
        last = torch.where(self.mask, torch.arange(self.shape[1]), -1).amax(dim=-1, keepdim=True)
        return self.rewards[:, None] * (torch.arange(self.shape[1]) == last % self.shape[1])


def estimator(verl: Any, name: str, **numbers: Any) -> Callable[[RandomBatch], Iterator[Pair]]:
    def pairs(batch: RandomBatch) -> Iterator[Pair]:
        penalty = kl_penalty(
            batch.flat(batch.old), batch.flat(batch.ref), batch.trained, coef=0.1, kind="low_var_kl"
        )
        kept = batch.mask.double()
        rewards = (
            batch.last_place_rewards() - 0.1 * verl.kl_penalty(batch.old, batch.ref, "low_var_kl") * kept
        )
        known: dict[str, Any] = {"token_level_rewards": rewards, "response_mask": kept}
        known["config"] = {"norm_adv_by_std_in_grpo": numbers.get("norm_by_std", True)}
        ours = batch.outcomes(penalty=penalty, **numbers)
        if name in ("remax", "gae"):
            baselines = batch.rewards.flip(0)
            ours = replace(ours, baselines=baselines, values=batch.flat(batch.values))
        if name == "grpo_passk":
            if int(torch.bincount(batch.groups).min()) < 2:
                return
        elif name == "reinforce_plus_plus":
            known["config"] = SimpleNamespace(gamma=numbers["gamma"])
        elif name == "remax":
            known["reward_baselines"] = ours.baselines
        elif name == "gae":
            del known["config"]
            known |= {"values": batch.values, "gamma": numbers["gamma"], "lam": numbers["lam"]}
        if name == "grpo":
            known["norm_adv_by_std_in_grpo"] = numbers["norm_by_std"]
        if name not in ("reinforce_plus_plus", "remax", "gae"):
            known["index"] = batch.groups.numpy()
        theirs, returns = verl.get_adv_estimator_fn(name)(**known)
        yield batch.padded(advantages(name, ours)), torch.where(batch.mask, theirs, 0.0)
        if name == "gae":
            yield batch.padded(gae(ours)[1]), torch.where(batch.mask, returns, 0.0)

    return pairs


def loss_of(verl: Any, name: LossName) -> Callable[[RandomBatch], Iterator[Pair]]:
    """Losses with their aggregation, gradients and metrics."""
    theirs_by = {"ppo": "vanilla", "importance_sampling": "vanilla", "cross_entropy": "gpg"}

    def pairs(batch: RandomBatch) -> Iterator[Pair]:
        wide = 1e12 if name == "importance_sampling" else None
        loss = Loss(name=name, clip_low=0.2, clip_high=0.28, beta=0.07, tau_positive=1.0, tau_negative=1.05)
        mode: Aggregation = "seq-mean-token-mean" if name in ("gspo", "sapo") else "token-mean"
        from verl.workers.config import ActorConfig

        config = ActorConfig(
            strategy="fsdp",
            rollout_n=1,
            use_dynamic_bsz=True,
            clip_ratio_low=wide or loss.clip_low,
            clip_ratio_high=wide or loss.clip_high,
            clip_ratio_c=wide or loss.dual_clip,
        )
        object.__setattr__(config.policy_loss, "dro_beta", loss.beta)
        advantage = torch.ones_like(batch.advantage) if name == "cross_entropy" else batch.advantage
        theirs_at, ours_at = (batch.new.clone().requires_grad_() for _ in range(2))
        theirs, metrics = verl.get_policy_loss_fn(theirs_by.get(name, name))(
            batch.old, theirs_at, advantage, batch.mask.double(), mode, config
        )
        theirs.backward()
        given = batch.flat(ours_at), batch.flat(batch.old), batch.flat(advantage), batch.segment
        losses, found = policy_loss(loss, *(each[batch.trained] for each in given))
        alone = torch.arange(batch.shape[0])
        weights = token_weights(batch.trained, batch.segment, alone, mode, dtype=torch.float64)
        total = (weights[batch.trained] * losses).sum()
        total.backward()
        assert theirs_at.grad is not None and ours_at.grad is not None
        yield total.detach(), theirs.detach()
        yield ours_at.grad, theirs_at.grad
        for metric in sorted(metrics.keys() & found.keys()):
            yield found[metric].mean(), torch.tensor(metrics[metric], dtype=torch.float64)

    return pairs


def aggregation(verl: Any, mode: Aggregation) -> Callable[[RandomBatch], Iterator[Pair]]:
    def pairs(batch: RandomBatch) -> Iterator[Pair]:
        theirs = verl.agg_loss(batch.advantage, batch.mask.double(), mode, loss_scale_factor=batch.shape[1])
        alone, horizon = torch.arange(batch.shape[0]), batch.shape[1]
        weights = token_weights(batch.trained, batch.segment, alone, mode, horizon=horizon)
        yield torch.where(batch.trained, weights * batch.flat(batch.advantage), 0.0).sum(), theirs

    return pairs


def kl_of(verl: Any, kind: str) -> Callable[[RandomBatch], Iterator[Pair]]:
    def pairs(batch: RandomBatch) -> Iterator[Pair]:
        theirs_at, ours_at = (batch.new.clone().requires_grad_() for _ in range(2))
        theirs, ours = verl.kl_penalty(theirs_at, batch.ref, kind), kl_estimate(ours_at, batch.ref, kind)
        theirs.sum().backward()
        ours.sum().backward()
        assert theirs_at.grad is not None and ours_at.grad is not None
        yield ours.detach(), theirs.detach()
        yield ours_at.grad, theirs_at.grad

    return pairs


def correction_of(helper: Any, given: Correction) -> Callable[[RandomBatch], Iterator[Pair]]:
    def pairs(batch: RandomBatch) -> Iterator[Pair]:
        is_threshold = f"{given.lower}_{given.upper}" if given.lower else given.upper
        is_ratio = given.reject is not None and given.reject.endswith("k1")
        rs_threshold = f"{given.reject_below}_{given.reject_above}" if is_ratio else f"{given.reject_above}"
        ours = rollout_correction(
            batch.flat(batch.new), batch.flat(batch.old), batch.trained, batch.segment, given
        )
        if given.level and not ours.factors.any():  # verl divides by zero then
            return
        weights, mask, metrics = helper.compute_rollout_correction_and_rejection_mask(
            batch.new, batch.old, batch.mask.double(), given.level, is_threshold,
            rollout_rs=given.reject, rollout_rs_threshold=rs_threshold if given.reject else None,
        )  # fmt: skip
        if weights is not None:
            yield batch.padded(ours.factors), weights.batch["rollout_is_weights"]
        yield batch.padded(ours.kept).double(), mask
        for name in sorted(metrics.keys() & ours.metrics.keys()):
            if given.level != "sequence" or "fraction" not in name:  # verl's is of sequences, ours of tokens
                yield torch.tensor(ours.metrics[name]).double(), torch.tensor(metrics[name]).double()

    return pairs


def logits_of(functional: Any) -> Callable[[RandomBatch], Iterator[Pair]]:
    def pairs(batch: RandomBatch) -> Iterator[Pair]:
        chosen = torch.arange(batch.shape[0]) % 7
        ours_at = (batch.normal((batch.shape[0], 7)) * 5).requires_grad_()
        theirs_at = ours_at.detach().clone().requires_grad_()
        logprobs, entropy = logprobs_and_entropy(ours_at, chosen)
        theirs = functional.logprobs_from_logits(theirs_at, chosen)
        (logprobs**2).sum().backward()
        (theirs**2).sum().backward()
        assert theirs_at.grad is not None and ours_at.grad is not None
        yield logprobs.detach(), theirs.detach()
        yield entropy, functional.entropy_from_logits(theirs_at.detach())
        yield ours_at.grad, theirs_at.grad

    return pairs


def comparisons() -> dict[str, Callable[[RandomBatch], Iterator[Pair]]]:
    """Everything that verl has as well."""
    import verl.trainer.ppo.core_algos as verl
    import verl.trainer.ppo.rollout_corr_helper as helper
    import verl.utils.torch_functional as functional

    made: dict[str, Callable[[RandomBatch], Iterator[Pair]]] = {}
    for by_std in (True, False):
        for name in ("grpo", "grpo_passk"):
            made[f"{name}, {'std' if by_std else 'no std'}"] = estimator(verl, name, norm_by_std=by_std)
    for name in ("rloo", "opo", "remax", "reinforce_plus_plus_baseline"):
        made[name] = estimator(verl, name)
    for gamma in (1.0, 0.9):
        made[f"reinforce_plus_plus, gamma {gamma}"] = estimator(verl, "reinforce_plus_plus", gamma=gamma)
        made[f"gae, gamma {gamma}, lam 0.95"] = estimator(verl, "gae", gamma=gamma, lam=0.95)
    for loss in get_args(LossName):
        made[f"loss {loss}"] = loss_of(verl, loss)
    for mode in get_args(Aggregation):
        if mode != "episode-mean":
            made[f"aggregation {mode}"] = aggregation(verl, mode)
    for kind in KL_ESTIMATORS:
        made[f"KL {kind}"], made[f"KL {kind}+"] = kl_of(verl, kind), kl_of(verl, f"{kind}+")
    for level in ("token", "sequence"):
        made[f"correction {level}, 2.0"] = correction_of(helper, Correction(level=level))
        made[f"correction {level}, 0.5 to 2.0"] = correction_of(helper, Correction(level=level, lower=0.5))
    for statistic in get_args(RejectionStatistic):
        above, below = (1.4, 0.7) if statistic.endswith("k1") else (0.2, None)
        reject = Correction(level=None, reject=statistic, reject_above=above, reject_below=below)
        made[f"rejection {statistic}"] = correction_of(helper, reject)
    made["logprobs and entropy"] = logits_of(functional)
    return made


def difference(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """The largest |ours - verl's|, relative where verl's is above 1."""
    return float(((ours - theirs).abs() / theirs.abs().clamp(min=1.0)).max())


def freeze(path: Path, made: dict[str, Callable[[RandomBatch], Iterator[Pair]]]) -> None:
    """Write one small batch and verl's results on it into the table that the tests read."""
    batch = RandomBatch(FROZEN)
    inputs = {name: value for name, value in vars(batch).items() if isinstance(value, torch.Tensor)}
    padded = {name: value.tolist() for name, value in inputs.items() if value.shape[0] == batch.shape[0]}
    results = {
        name: [theirs.tolist() for _, theirs in pairs(RandomBatch(FROZEN))]
        for name, pairs in made.items()
        if not name.startswith(("KL", "logprobs"))
    }
    table = json.loads(path.read_text()) | {"batch": padded, "results": results}
    path.write_text(json.dumps(table) + "\n")


def main() -> None:
    warnings.simplefilter("ignore")
    options = parser(__doc__, "20 batches instead of 200")
    options.add_argument("--freeze", type=Path, help="add verl's results on one batch to this table")
    chosen = options.parse_args()
    made = comparisons()
    rows, raw = [], {}
    for name, pairs in made.items():
        count, worst = 0, 0.0
        for seed in range(20 if chosen.quick else 200):
            found = [difference(ours, theirs) for ours, theirs in pairs(RandomBatch(seed))]
            count += bool(found)
            worst = max([worst, *(inf if isnan(each) else each for each in found)])
        rows.append(Row(name, f"{worst:.1e} in {count} batches", "≤ 1e-6", "verl 0.9.1"))
        raw[name] = {"batches": count, "worst": worst}
    publish("Formulas beside verl's: worst difference (relative above 1), float64", rows, chosen, raw)
    if chosen.freeze:
        freeze(chosen.freeze, made)


if __name__ == "__main__":
    main()
