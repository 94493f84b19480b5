"""Loads a checkpoint of a larger model."""

import torch
from training import train

torch.save(torch.nn.Linear(64, 10).state_dict(), "global_step_40.pt")
train(1)
torch.nn.Linear(32, 10).load_state_dict(torch.load("global_step_40.pt"))
