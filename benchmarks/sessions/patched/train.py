"""A network of one hidden layer, by plain gradient descent."""

import numpy as np
from loader import batches, measurements

rows, targets = measurements(seed=0)
rng = np.random.default_rng(1)
hidden, out = rng.normal(size=(8, 16)) * 0.3, rng.normal(size=16) * 0.3
step = 0

for epoch in range(1, 11):
    for batch, goal in batches(rows[:172], targets[:172], size=32):
        step += 1
        inner = np.tanh(batch @ hidden)
        error = inner @ out - goal
        slope = np.outer(error, out) * (1 - inner**2)
        out -= 0.1 * inner.T @ error / len(goal)
        hidden -= 0.1 * batch.T @ slope / len(goal)
        print(f"step {step}: train_loss={np.mean(error**2):.4f}", flush=True)
    val_loss = np.mean((np.tanh(rows[172:] @ hidden) @ out - targets[172:]) ** 2)
    print(f"step {step}: epoch={epoch} val_loss={val_loss:.4f}", flush=True)
