"""Loads a checkpoint that a crash cut off while it was written: from the disk, or read into memory first."""

import io
import sys
from pathlib import Path

import torch
from training import train

checkpoint = Path("global_step_40.pt")
torch.save({"model": torch.ones(1 << 18)}, checkpoint)
checkpoint.write_bytes(checkpoint.read_bytes()[: 1 << 19])
train(1)
torch.load(checkpoint if sys.argv[1] == "disk" else io.BytesIO(checkpoint.read_bytes()))
