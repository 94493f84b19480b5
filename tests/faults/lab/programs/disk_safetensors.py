"""Saves weights on a disk that is too small for them."""

import torch
from safetensors.torch import save_file
from training import train

train(3)
save_file({"lm_head.weight": torch.ones(4 << 20)}, "disk/model.safetensors")
