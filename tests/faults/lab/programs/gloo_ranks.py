"""Two ranks; one of them does not find its shard, the other one only sees it go away."""

import os
import socket
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from training import train

if "RANK" not in os.environ:
    with socket.create_server(("", 0)) as free:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]), WORLD_SIZE="2")
    other = os.fork()
    os.environ["RANK"] = "1" if other == 0 else "0"
dist.init_process_group("gloo")
rank = dist.get_rank()
if rank == 0:
    train(2)
for step in range(1, 4):
    dist.all_reduce(torch.ones(4))
    if step == 2 and rank == 1:
        Path("data/shard-00001-of-00002.jsonl").read_text()
sys.exit(0)
