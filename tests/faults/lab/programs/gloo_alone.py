"""One rank never comes to the collective."""

import datetime
import os
import socket
import time

import torch
import torch.distributed as dist
from training import train

with socket.create_server(("", 0)) as free:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]), WORLD_SIZE="2")
child = os.fork()
os.environ["RANK"] = "1" if child == 0 else "0"
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=1))
if child == 0:
    time.sleep(3)
    os._exit(0)
train(2)
dist.all_reduce(torch.ones(4))
