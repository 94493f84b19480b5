"""Rollout correction beside verl's."""

from typing import Any, get_args

import pytest
import torch

from tests.trainer_core.algorithm.conftest import Frozen, close
from trainer_core.algorithm.correction import Correction, rollout_correction
from trainer_core.types import RejectionStatistic

REJECTION_STATISTICS = get_args(RejectionStatistic)
PREFIX = "rollout_corr/"


def corrected(frozen: Frozen, correction: Correction) -> Any:
    return rollout_correction(
        frozen.flat("new"), frozen.flat("old"), frozen.trained, frozen.segment, correction
    )


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize(("lower", "name"), [(None, "2.0"), (0.5, "0.5 to 2.0")])
def test_factors_and_metrics_are_verls(frozen: Frozen, level: Any, lower: Any, name: str) -> None:
    got = corrected(frozen, Correction(level=level, lower=lower))
    factors, mask, *metrics = frozen.verl(f"correction {level}, {name}")
    close(frozen.padded(got.factors), factors)
    close(frozen.padded(got.kept), mask)
    chosen = [key for key in sorted(got.metrics) if level == "token" or "fraction" not in key]
    for key, expected in zip(chosen, metrics, strict=True):
        close(torch.tensor(got.metrics[key]), expected)


@pytest.mark.parametrize("statistic", REJECTION_STATISTICS)
def test_what_is_rejected_is_verls(frozen: Frozen, statistic: Any) -> None:
    below, above = (0.7, 1.4) if "k1" in statistic else (None, 0.2)
    chosen = Correction(level=None, reject=statistic, reject_above=above, reject_below=below)
    got = corrected(frozen, chosen)
    mask, *_ = frozen.verl(f"rejection {statistic}")
    close(frozen.padded(got.kept), mask, 0)
    assert torch.equal(got.factors, frozen.trained.double())
    share = 1 - mask.sum() / frozen.trained.sum()
    assert got.metrics[f"{PREFIX}rollout_rs_masked_fraction"] == pytest.approx(float(share))


def test_the_oracle_rejects_some_and_keeps_some(frozen: Frozen) -> None:
    assert all(0 < frozen.verl(f"rejection {name}")[0].sum() < frozen.trained.sum() for name in
               REJECTION_STATISTICS if "sum" not in name)  # fmt: skip


@pytest.mark.parametrize("statistic", REJECTION_STATISTICS)
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_equal_policies_are_left_alone(level: Any, statistic: Any) -> None:
    logprobs, trained = torch.tensor([-0.3, -2.1, torch.nan]), torch.tensor([True, True, False])
    chosen = Correction(level=level, reject=statistic, reject_above=1.001)
    got = rollout_correction(logprobs, logprobs.clone(), trained, torch.tensor([0, 0, 1]), chosen)
    assert got.factors.tolist() == [1.0, 1.0, 0.0] and got.factors.dtype == torch.float32
    assert torch.equal(got.kept, trained)
    assert got.metrics[f"{PREFIX}rollout_is_eff_sample_size"] == 1.0
    assert got.metrics[f"{PREFIX}kl"] == got.metrics[f"{PREFIX}k3_kl"] == 0.0


def test_the_smallest_ratio_that_stays_is_one_over_the_largest() -> None:
    log_ratio = torch.tensor([0.0, 0.69, 0.7, -0.69, -0.7])
    got = rollout_correction(torch.zeros(5), log_ratio, torch.ones(5).bool(), torch.zeros(5).long(),
                             Correction(reject="token_k1", reject_above=2.0))  # fmt: skip
    assert got.kept.tolist() == [True, True, False, True, False]


def test_nothing_trained_is_no_error() -> None:
    none = torch.zeros(2)
    got = rollout_correction(none, none, none.bool(), none.long(), Correction(reject="seq_mean_k3"))
    assert not got.factors.any() and not got.kept.any()


@pytest.mark.parametrize(
    ("correction", "said"),
    [
        (Correction(reject="token_k4"), "token_k4.*token_k1"),  # type: ignore[arg-type]
        (Correction(upper=0.0), "above 0"),
        (Correction(reject="token_k1", reject_below=0.0), "above 0"),
    ],
)
def test_a_correction_that_makes_no_sense_is_refused(correction: Correction, said: str) -> None:
    one = torch.ones(1)
    with pytest.raises(ValueError, match=said):
        rollout_correction(one, one, one.bool(), torch.zeros(1).long(), correction)
