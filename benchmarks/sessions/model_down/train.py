"""Logistic regression on two overlapping clouds of points, with a validation set of its own."""

import time

import numpy as np

rng = np.random.default_rng(0)
labels = rng.integers(0, 2, 600)
points = rng.normal(size=(600, 8)) + 0.5 * labels[:, None]
train, valid = slice(0, 400), slice(400, 600)
weights, bias = np.zeros(8), 0.0

for epoch in range(1, 21):
    time.sleep(0.5)
    chance = 1 / (1 + np.exp(-(points[train] @ weights + bias)))
    loss = -np.mean(np.log(np.where(labels[train] == 1, chance, 1 - chance)))
    error = chance - labels[train]
    weights -= 0.3 * points[train].T @ error / 400
    bias -= 0.3 * error.mean()
    accuracy = np.mean((points[valid] @ weights + bias > 0) == labels[valid])
    print(f"epoch {epoch}: train_loss={loss:.4f} val_accuracy={accuracy:.4f}", flush=True)
