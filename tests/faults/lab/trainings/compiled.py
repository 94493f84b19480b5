"""Compiles its model when the config says so, on a machine where no compiler is on the path."""

import os
import sys
from pathlib import Path

import torch
from settled import config, go_on

settings = config()
os.environ["PATH"] = str(Path(sys.executable).parent)
model = torch.nn.Linear(8, 8)
step_function = torch.compile(model) if settings["torch_compile"] else model
for _ in go_on(settings["max_steps"]):
    step_function(torch.ones(2, 8)).sum().backward()
