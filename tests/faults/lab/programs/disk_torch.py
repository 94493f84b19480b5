"""Saves a checkpoint on a disk that is too small for it."""

import torch
from training import train

train(3)
torch.save({"model": torch.ones(4 << 20), "step": 3}, "disk/model_world_size_1_rank_0.pt")
