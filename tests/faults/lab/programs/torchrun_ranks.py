"""Two ranks under torchrun; one meets a bug in the reward code."""

import os

import torch
import torch.distributed as dist
from training import train


def compute_score(solution: str, truth: str) -> float:
    words = solution.split()
    return sum(word == truth for word in words) / len(words)


dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
if rank == 0:
    train(2)
dist.all_reduce(torch.ones(2))
compute_score("" if rank == 1 else "four", "four")
dist.all_reduce(torch.ones(2))
