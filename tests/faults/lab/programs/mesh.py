"""Wants more ranks than there are."""

import os
import socket

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from training import train

with socket.create_server(("", 0)) as free:
    port = str(free.getsockname()[1])
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, RANK="0", WORLD_SIZE="1")
dist.init_process_group("gloo")
train(1)
init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
