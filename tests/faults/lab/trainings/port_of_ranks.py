"""Joins its ranks (one) over MASTER_PORT."""

import torch
import torch.distributed as dist
from settled import config, go_on

settings = config()
dist.init_process_group("gloo")
for _ in go_on(settings["max_steps"]):
    dist.all_reduce(torch.ones(2))
dist.destroy_process_group()
