"""Momentum on a noisy regression."""

import argparse

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.02)
parser.add_argument("--momentum", type=float, default=0.0)
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()

rng = np.random.default_rng(options.seed)
inputs, truth = rng.normal(size=(500, 10)), np.ones(10)
targets = inputs @ truth + 0.3 * rng.normal(size=500)
weights, velocity = np.zeros(10), np.zeros(10)
for step in range(1, options.steps + 1):
    chosen = rng.integers(0, 400, 32)
    error = inputs[chosen] @ weights - targets[chosen]
    velocity = options.momentum * velocity - options.lr * inputs[chosen].T @ error / 32
    weights = weights + velocity
    if step % 10 == 0:
        val_loss = np.mean((inputs[400:] @ weights - targets[400:]) ** 2)
        print(f"step {step}: train_loss={np.mean(error**2):.4f} val_loss={val_loss:.4f}", flush=True)
