"""AdamW on float32 copies of weights that are computed with in bfloat16."""

from __future__ import annotations

import torch

from trainer_core.engine.adamw import AdamW


def test_small_steps_of_bfloat16_weights_add_up() -> None:
    ours = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
    plain = torch.nn.Parameter(ours.detach().clone())
    adamw, torchs = AdamW([ours], (0.9, 0.999), 0.0), torch.optim.AdamW([plain], lr=1e-4, weight_decay=0.0)
    for _ in range(1000):  # of a gradient that is always the same AdamW makes steps of lr
        ours.sum().backward()
        adamw.step(1e-4)
        plain.sum().backward()
        torchs.step()
        torchs.zero_grad()
    torch.testing.assert_close(ours.detach().float(), torch.full((4,), 0.9), atol=2e-3, rtol=0)
    assert (plain == 1.0).all()


def test_gradients_of_bfloat16_weights_are_gathered_in_float32() -> None:
    weights = torch.nn.Parameter(torch.zeros(1, dtype=torch.bfloat16))
    adamw = AdamW([weights], (0.9, 0.999), 0.0)
    weights.sum().backward()
    for _ in range(1000):
        (weights * 2**-10).sum().backward()  # in bfloat16 1 + 1/1024 is 1
    assert weights.grad is None
    assert abs(adamw.clip(1.0) - (1 + 1000 / 1024)) < 1e-6
