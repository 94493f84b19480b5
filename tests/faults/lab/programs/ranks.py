"""Ranks of a process group on this machine, without a launcher."""

import datetime
import os
import socket

import torch.distributed as dist


def join(count: int, timeout_s: float = 1800.0) -> int:
    """Become `count` (one or two) ranks of a gloo group on a free port; the rank of this process."""
    with socket.create_server(("", 0)) as free:
        port = str(free.getsockname()[1])
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, WORLD_SIZE=str(count))
    rank = int(count == 2 and os.fork() == 0)
    os.environ["RANK"] = str(rank)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=timeout_s))
    return rank
