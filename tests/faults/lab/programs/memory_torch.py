"""Asks torch for activations that do not fit into the memory of the machine."""

import torch
from training import train


def forward(batch: int) -> torch.Tensor:
    return torch.ones(batch, 8192, 151_936).sum()


train(2)
forward(64)
