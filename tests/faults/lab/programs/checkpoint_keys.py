"""Loads a checkpoint that was saved under a wrapper."""

import torch
from training import train

model = torch.nn.Sequential(torch.nn.Linear(4, 4))
torch.save({f"module.{name}": value for name, value in model.state_dict().items()}, "global_step_40.pt")
train(1)
model.load_state_dict(torch.load("global_step_40.pt"))
