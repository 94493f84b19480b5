"""Stops when the loss is no number."""

import math

from training import row, train

train(3)
loss = math.inf - math.inf
row(4, 0.4, loss)
if not math.isfinite(loss):
    raise FloatingPointError(f"loss is {loss} at step 4, stopping training")
