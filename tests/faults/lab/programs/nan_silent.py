"""The loss becomes no number, and nobody minds."""

from training import row, train

train(6)
weight, rate = 1.0, 1e200
for step in range(7, 30):
    weight = weight * rate - weight
    row(step, 0.2, weight * 0.0 if weight == float("inf") else weight)
print("Training finished.")
