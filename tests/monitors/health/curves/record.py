"""Records the curves beside this file: small trainings that are really made, on a CPU, in a few minutes.

`python tests/monitors/health/curves/record.py [NAME …]`. In: nothing but seeds. Out: `healthy/NAME.jsonl` and
`sick/NAME.jsonl`, one row of metrics per line, under the names that the trainers they stand for print.
Those of the bundled trainer are made by `ajet` from the quickstart's config; the others by the loops below.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]
CONFIG = ROOT / "blueprints" / "quickstart" / "config.yaml"
COMMON = "ajet.trainer_common"
TOY = "ajet.task_reader.builtin"
DIGITS = 5
Row = dict[str, float]

TRAINER: dict[str, list[str]] = {
    "healthy/sort_digits": [f"{COMMON}.seed=1", f"{COMMON}.total_training_steps=160"],
    "healthy/reverse_digits_no_kl": [
        f"{COMMON}.seed=2",
        f"{TOY}.name=reverse_digits",
        f"{COMMON}.use_kl_loss=false",
        f"{COMMON}.algorithm.norm_adv_by_std=false",
        f"{COMMON}.total_training_steps=160",
    ],
    "healthy/even_digits_fast": [
        f"{COMMON}.seed=3",
        f"{TOY}.name=even_digits",
        f"{COMMON}.optim.lr=1e-3",
        f"{COMMON}.total_training_steps=160",
    ],
    "healthy/sort_digits_weak_start": [
        f"{COMMON}.seed=4",
        "ajet.model.warmup.until_pass_rate=0.01",
        "ajet.data.train_batch_size=8",
        f"{COMMON}.total_training_steps=160",
    ],
    "sick/reward_stuck": [
        f"{COMMON}.seed=5",
        f"{TOY}.digits=8",
        "ajet.model.warmup.max_steps=1",
        "ajet.model.warmup.until_pass_rate=0.0001",
        "ajet.data.max_response_length=10",
        "ajet.data.train_batch_size=4",
        f"{COMMON}.total_training_steps=130",
    ],
    "sick/length_runs_away": [
        f"{COMMON}.seed=7",
        f"{COMMON}.optim.lr=0.03",
        f"{COMMON}.optim.grad_clip=1000",
        f"{COMMON}.use_kl_loss=false",
        f"{COMMON}.total_training_steps=100",
    ],
    "sick/reward_collapse": [
        f"{COMMON}.seed=7",
        f"{COMMON}.optim.lr=0.03",
        f"{COMMON}.optim.lr_warmup_steps=300",
        f"{COMMON}.optim.grad_clip=1000",
        f"{COMMON}.use_kl_loss=false",
        "ajet.data.train_batch_size=8",
        f"{COMMON}.total_training_steps=160",
    ],
}


def bundled(settings: list[str]) -> Iterator[Row]:
    """Train with the bundled trainer."""
    with tempfile.TemporaryDirectory() as folder:
        fixed = [
            "ajet.experiment_name=curve",
            f"{COMMON}.save_freq=100000",
            f"{COMMON}.val_pass_n=1",
            f"{TOY}.num_validation_tasks=64",
        ]
        ajet = Path(sys.executable).with_name("ajet")
        subprocess.run([ajet, "--conf", CONFIG, "--exp-dir", folder, *fixed, *settings], check=True)
        (file,) = Path(folder).rglob("metrics.jsonl")
        for line in file.read_text().splitlines():
            yield json.loads(line)


# --- supervised -----------------------------------------------------------------------------------------


class TinyModel(nn.Module):
    """Next digit from the two before: enough to have a loss that falls."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 16)
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 10))

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        return self.layers(self.embed(pairs).flatten(1))


def supervised(
    steps: int, seed: int, rate: Callable[[int], float], masked: bool = False, clip: float = 1.0
) -> Iterator[Row]:
    """Fine-tune as the transformers Trainer reports it; `masked`: every label is ignored, as by a wrong
    template."""
    torch.manual_seed(seed)
    model = TinyModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(1, steps + 1):
        pairs = torch.randint(0, 10, (32, 2))
        wanted = (pairs[:, 0] + pairs[:, 1]) % 10
        logits = model(pairs)
        if masked:
            loss = functional.cross_entropy(logits, torch.full_like(wanted, -100), reduction="sum")
        else:
            loss = functional.cross_entropy(logits, wanted)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.param_groups[0]["lr"] = rate(step)
        optimizer.step()
        yield {
            "loss": round(loss.item(), 4),
            "grad_norm": norm.item(),
            "learning_rate": rate(step),
            "epoch": round(step / steps, 4),
        }


def preferences(steps: int, seed: int) -> Iterator[Row]:
    """Direct preference optimisation of a table of logits, as TRL reports it."""
    torch.manual_seed(seed)
    logits = torch.zeros(32, 10, requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.05)
    for step in range(1, steps + 1):
        prompts = torch.randint(0, 32, (16,))
        chosen = (prompts * 3) % 10
        rejected = (chosen + torch.randint(1, 10, (16,))) % 10
        flipped = torch.rand(16) < 0.15  # annotators err
        chosen, rejected = torch.where(flipped, rejected, chosen), torch.where(flipped, chosen, rejected)
        logprobs = logits.log_softmax(-1)[prompts]
        reference = -torch.log(torch.tensor(10.0))
        good = 0.5 * (logprobs.gather(1, chosen[:, None])[:, 0] - reference)
        bad = 0.5 * (logprobs.gather(1, rejected[:, None])[:, 0] - reference)
        loss = -functional.logsigmoid(good - bad).mean()
        optimizer.zero_grad()
        loss.backward()
        norm = float(logits.grad.norm())
        optimizer.step()
        yield {
            "loss": loss.item(),
            "grad_norm": norm,
            "rewards/chosen": float(good.mean()),
            "rewards/rejected": float(bad.mean()),
            "rewards/accuracies": float((good > bad).float().mean()),
            "rewards/margins": float((good - bad).mean()),
            "epoch": round(step / steps, 4),
        }


def broken_backward(steps: int, seed: int) -> Iterator[Row]:
    """A backward pass that divides zero by zero from step 40 on, and a loop that skips such updates."""
    torch.manual_seed(seed)
    model = TinyModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(1, steps + 1):
        pairs = torch.randint(0, 10, (32, 2))
        logits = model(pairs)
        loss = functional.cross_entropy(logits, (pairs[:, 0] + pairs[:, 1]) % 10)
        if step >= 40:
            distance = (logits - logits.detach()).norm()  # its gradient at 0 times infinity is no number
            loss = loss + torch.sqrt(distance) * 1e-3
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if torch.isfinite(norm):
            optimizer.step()
        yield {"step": step, "train/loss": loss.item(), "train/grad_norm": norm.item()}


# --- reinforcement --------------------------------------------------------------------------------------


def policy_gradient(
    steps: int,
    seed: int,
    rate: float = 0.05,
    partial: bool = True,
    noise: float = 0.0,
    groups: int = 8,
    clip: float = 1.0,
) -> Iterator[Row]:
    """Group-relative policy gradient for words of five digits, as verl reports it.

    `partial`: the reward is the share of right digits, else 1 for a word without a fault. `noise`: standard
    deviation of what a judge adds to a reward.
    """
    torch.manual_seed(seed)
    logits = torch.zeros(DIGITS, 10, requires_grad=True)
    with torch.no_grad():
        logits[torch.arange(DIGITS), torch.arange(DIGITS)] += 0.5 if partial else 1.5
    optimizer = torch.optim.Adam([logits], lr=rate)
    reference = logits.detach().log_softmax(-1)
    for step in range(1, steps + 1):
        began = time.perf_counter()
        with torch.no_grad():
            words = torch.multinomial(logits.softmax(-1), groups * 8, replacement=True).T
        right = (words == torch.arange(DIGITS)).float()
        rewards = right.mean(1) if partial else right.prod(1)
        rewards = rewards + noise * torch.randn_like(rewards)
        by_group = rewards.view(groups, 8)
        advantages = (by_group - by_group.mean(1, keepdim=True)) / (by_group.std(1, keepdim=True) + 1e-6)
        logprobs = logits.log_softmax(-1)
        chosen = logprobs[torch.arange(DIGITS), words]
        loss = -(advantages.flatten()[:, None] * chosen).mean()
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_([logits], clip)
        optimizer.step()
        now = logits.detach().log_softmax(-1)
        yield {
            "step": step,
            "actor/pg_loss": loss.item(),
            "actor/entropy": float(-(now.exp() * now).sum(-1).mean()),
            "actor/kl_loss": float((now.exp() * (now - reference)).sum(-1).mean()),
            "actor/grad_norm": norm.item(),
            "critic/score/mean": float(rewards.mean()),
            "critic/score/max": float(rewards.max()),
            "critic/score/min": float(rewards.min()),
            "critic/advantages/max": float(advantages.max()),
            "critic/advantages/min": float(advantages.min()),
            "response_length/mean": float(DIGITS),
            "response_length/max": float(DIGITS),
            "response_length/min": float(DIGITS),
            "timing_s/step": time.perf_counter() - began,
        }


def restarts(step: int) -> float:
    """A rate that falls and starts again every 60 steps."""
    return 3e-3 * (1 - step % 60 / 60)


LOOPS: dict[str, Callable[[], Iterator[Row]]] = {
    "healthy/supervised": lambda: supervised(300, 0, lambda step: min(step / 30, 1) * 2e-3),
    "healthy/supervised_rate_restarts": lambda: supervised(300, 1, restarts),
    "healthy/supervised_overfits": lambda: supervised(1500, 2, lambda step: 5e-3),
    "healthy/preferences": lambda: preferences(250, 3),
    "healthy/policy_gradient": lambda: policy_gradient(250, 4),
    "healthy/policy_gradient_sparse": lambda: policy_gradient(250, 5, partial=False, groups=4),
    "healthy/policy_gradient_noisy_judge": lambda: policy_gradient(250, 6, noise=0.5),
    "healthy/policy_gradient_one_group": lambda: policy_gradient(250, 8, groups=1),
    "sick/divergence": lambda: supervised(80, 7, lambda step: 1e-3 if step < 40 else 50.0, clip=1e9),
    "sick/nothing_trained": lambda: supervised(60, 8, lambda step: 1e-3, masked=True),
    "sick/nan_gradients": lambda: broken_backward(90, 9),
    "sick/entropy_collapse": lambda: policy_gradient(200, 11, rate=1.0, partial=False, noise=0.5, groups=1),
}


def main() -> None:
    for name in sys.argv[1:] or [*TRAINER, *LOOPS]:
        rows = bundled(TRAINER[name]) if name in TRAINER else LOOPS[name]()
        text = "".join(
            json.dumps({key: float(f"{value:.5g}") for key, value in row.items()}) + "\n" for row in rows
        )
        (HERE / f"{name}.jsonl").write_text(text)
        print(name, text.count("\n"), "rows")


if __name__ == "__main__":
    main()
