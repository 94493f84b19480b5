"""Two ranks; one of them does not find its shard, the other one only sees it go away."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from ranks import join
from training import train

rank = join(2)
if rank == 0:
    train(2)
for step in range(1, 4):
    dist.all_reduce(torch.ones(4))
    if step == 2 and rank == 1:
        Path("data/shard-00001-of-00002.jsonl").read_text()
sys.exit(0)
