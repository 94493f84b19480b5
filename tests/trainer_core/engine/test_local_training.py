"""The update against a plain rewrite of it, and micro-batches against one batch."""

import copy
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from trainer_core.engine.batch import collate
from trainer_core.engine.local_inference import LocalInference
from trainer_core.engine.local_training import LocalTraining, UpdateSettings
from trainer_core.types import Sample, Sampling, Task, TokenBatch, TrainingError

SETTINGS = UpdateSettings(
    lr=1e-2,
    betas=(0.9, 0.95),
    weight_decay=0.0,
    grad_clip=1.0,
    lr_warmup_steps=0,
    temperature=0.8,
    mini_batch_num=1,
    ppo_epochs=1,
    clip_ratio_low=0.2,
    clip_ratio_high=0.2,
    kl_loss_coef=0.1,
    kl_loss_type="low_var_kl",
    seed=0,
)
PROMPTS = [[4, 20, 21, 22, 1, 5], [4, 30, 1, 5]]


@pytest.fixture
def batch(model: Any, tokenizer: Any) -> TokenBatch:
    groups = LocalInference(model, tokenizer).generate(
        PROMPTS, repeats=4, sampling=Sampling(SETTINGS.temperature), max_new_tokens=10, seed=3
    )
    samples = [
        Sample(Task("t", "q"), 0, tuple(prompt), completion, "", 0.0, False)
        for prompt, group in zip(PROMPTS, groups, strict=True)
        for completion in group
    ]
    return collate(samples, tokenizer.pad_token_id)


ADVANTAGES = torch.tensor([1.0, -1.0, 0.5, -0.5, 2.0, 0.0, -1.5, 0.3])


def test_both_engines_agree_on_the_logprobs(model: Any, batch: TokenBatch) -> None:
    logprobs = LocalTraining(model, None, SETTINGS).logprobs(batch)
    torch.testing.assert_close(logprobs, batch.rollout_logprobs, atol=1e-5, rtol=0)
    assert len({int(length) for length in batch.response_mask.sum(1)}) > 1  # so that padding was tested


def update(engine: LocalTraining, batch: TokenBatch, step: int = 1) -> dict[str, float]:
    ref = engine.reference_logprobs(batch)
    return engine.update(
        batch, old_logprobs=engine.logprobs(batch), ref_logprobs=ref, advantages=ADVANTAGES, step=step
    )


def test_one_step_is_the_textbook_step(model: Any, batch: TokenBatch) -> None:
    """Against a loop over single sequences, without padding, masks or our loss functions."""
    reference = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.mul_(1.05)
    twin = copy.deepcopy(model)
    engine = LocalTraining(model, copy.deepcopy(reference), SETTINGS)
    metrics = update(engine, batch)

    pg, kl, tokens = torch.tensor(0.0), torch.tensor(0.0), 0
    for row in range(len(batch)):
        ids = batch.input_ids[row][batch.attention_mask[row].bool()][None]
        length = int(batch.response_mask[row].sum())
        chosen = ids[0, -length:, None]
        logprobs, ref = (
            (net(ids).logits[0, -length - 1 : -1] / SETTINGS.temperature).log_softmax(-1).gather(-1, chosen)
            for net in (twin, reference)
        )
        pg = pg - (ADVANTAGES[row] * (logprobs - logprobs.detach()).exp()).sum()
        kl = kl + ((ref.detach() - logprobs).exp() - (ref.detach() - logprobs) - 1).sum()
        tokens += length
    optimizer = torch.optim.AdamW(twin.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.0)
    (pg / tokens + 0.1 * kl / tokens).backward()
    norm = torch.nn.utils.clip_grad_norm_(twin.parameters(), 1.0)
    optimizer.step()
    assert metrics["actor/pg_loss"] == pytest.approx((pg / tokens).item(), abs=1e-5)
    assert metrics["actor/kl_loss"] == pytest.approx((kl / tokens).item(), rel=1e-4)
    assert metrics["actor/grad_norm"] == pytest.approx(float(norm), rel=1e-4)
    for ours, plain in zip(model.parameters(), twin.parameters(), strict=True):
        # Adam's first step is the gradient's sign times lr: entries with a gradient near zero are left out
        firm = plain.grad.abs() > 1e-5
        torch.testing.assert_close(ours[firm], plain[firm], atol=2e-4, rtol=0)


def test_micro_batches_change_nothing(model: Any, batch: TokenBatch, monkeypatch: pytest.MonkeyPatch) -> None:
    twin = copy.deepcopy(model)
    whole = update(LocalTraining(model, copy.deepcopy(model), SETTINGS), batch)
    monkeypatch.setattr("trainer_core.engine.local_training._LOGITS_AT_ONCE", 3 * 10 * 264)
    parts = update(LocalTraining(twin, copy.deepcopy(twin), SETTINGS), batch)
    assert parts == pytest.approx(whole, abs=1e-5, rel=1e-3)


def test_learning_rate_ramps_up_and_mini_batches_are_counted(model: Any, batch: TokenBatch) -> None:
    settings = replace(SETTINGS, lr_warmup_steps=4, mini_batch_num=3, ppo_epochs=2)
    engine = LocalTraining(model, copy.deepcopy(model), settings)
    assert [update(engine, batch, step)["actor/lr"] for step in (1, 2, 4, 9)] == [0.0025, 0.005, 0.01, 0.01]
    taken = engine.state()["optimizer"]["state"][0]["step"]
    assert taken == 4 * 3 * 2


def test_the_good_becomes_likelier_and_kl_holds_back(model: Any, batch: TokenBatch) -> None:
    free, tied = copy.deepcopy(model), copy.deepcopy(model)
    drift = {}
    for name, net, coefficient in (("free", free, 0.0), ("tied", tied, 100.0)):
        engine = LocalTraining(
            net, copy.deepcopy(model), replace(SETTINGS, lr=1e-3, kl_loss_coef=coefficient)
        )
        before = engine.logprobs(batch)
        for step in range(1, 11):
            metrics = update(engine, batch, step)
        change = ((engine.logprobs(batch) - before) * ADVANTAGES[:, None] * batch.response_mask).sum()
        drift[name] = metrics["actor/kl_loss"]
        if name == "free":
            assert change > 1.0
    assert drift["tied"] < 0.5 * drift["free"]


def test_divergence_is_an_error_and_leaves_the_weights(model: Any, batch: TokenBatch) -> None:
    engine = LocalTraining(model, copy.deepcopy(model), SETTINGS)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(TrainingError, match=r"actor/pg_loss is nan at step 7.*Lower.*optim\.lr"):
        engine.update(
            batch,
            old_logprobs=engine.logprobs(batch),
            ref_logprobs=None,
            advantages=torch.full((8,), math.nan),
            step=7,
        )
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_restored_engine_goes_on_exactly(
    model: Any, tokenizer: Any, batch: TokenBatch, tmp_path: Path
) -> None:
    start = copy.deepcopy(model)
    engine = LocalTraining(model, copy.deepcopy(start), SETTINGS)
    update(engine, batch, 1)
    engine.save_model(tmp_path)
    torch.save(engine.state(), tmp_path / "state.pt")
    expected = update(engine, batch, 2)

    resumed = LocalTraining(copy.deepcopy(start), copy.deepcopy(start), SETTINGS)
    resumed.restore(tmp_path, torch.load(tmp_path / "state.pt", weights_only=True))
    assert update(resumed, batch, 2) == expected
