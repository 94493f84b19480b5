"""Moves the model to a GPU with a build of torch that knows none."""

import torch
from training import train

train(1)
torch.nn.Linear(4, 4).to("cuda:0")
