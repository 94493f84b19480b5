"""A straight line through a table, by gradient descent."""

import argparse
from pathlib import Path

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--data", type=Path, required=True)
parser.add_argument("--epochs", type=int, default=20)
options = parser.parse_args()

table = np.loadtxt(options.data, delimiter=",", skiprows=1)
inputs, targets = table[:, 0], table[:, 1]
slope = offset = 0.0
for epoch in range(1, options.epochs + 1):
    error = slope * inputs[:24] + offset - targets[:24]
    slope, offset = slope - 0.3 * np.mean(error * inputs[:24]), offset - 0.3 * np.mean(error)
    val_loss = np.mean((slope * inputs[24:] + offset - targets[24:]) ** 2)
    print(f"epoch {epoch}: val_loss={val_loss:.5f}", flush=True)
