"""One rank needs longer for its data than the other one waits."""

import datetime
import os
import socket
import time

import torch
import torch.distributed as dist
from settled import config, go_on

settings = config()
with socket.create_server(("", 0)) as free:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]), WORLD_SIZE="2")
child = os.fork()
os.environ["RANK"] = "1" if child == 0 else "0"
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=settings["ddp_timeout"]))
if child == 0:
    time.sleep(3)
    dist.all_reduce(torch.ones(2))
    os._exit(0)
dist.all_reduce(torch.ones(2))
for _ in go_on(settings["max_steps"]):
    pass
