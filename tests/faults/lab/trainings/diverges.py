"""Diverges, and does not mind."""

from settled import config
from training import row

settings = config()
weight = 1.0
for step in range(1, settings["max_steps"] + 1):
    weight = weight * settings["learning_rate"] - weight
    row(step, 0.2, weight)
