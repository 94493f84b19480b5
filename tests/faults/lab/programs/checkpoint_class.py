"""Loads a checkpoint that holds an object of its own."""

import torch
from training import train


class TrainState:
    step = 40


torch.save({"state": TrainState()}, "global_step_40.pt")
train(1)
torch.load("global_step_40.pt")
