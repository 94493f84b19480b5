"""A linear fit over sharded data, one shard or more for each worker."""

import argparse

import numpy as np

SHARDS = 48

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--epochs", type=int, default=15)
parser.add_argument("--num-workers", type=int, default=4, help="loaders; does not change what is learned")
options = parser.parse_args()

rng = np.random.default_rng(3)
data = rng.normal(size=(SHARDS, 20, 5))
truth = rng.normal(size=5)
shares = np.array_split(np.arange(SHARDS), options.num_workers)
print(f"{SHARDS} shards for {options.num_workers} workers", flush=True)
for number, share in enumerate(shares):
    if not len(share):
        raise ValueError(f"worker {number} of {options.num_workers} has no shard: there are only {SHARDS}")

weights = np.zeros(5)
for epoch in range(1, options.epochs + 1):
    for shard in np.concatenate(shares)[:40]:
        error = data[shard] @ (weights - truth)
        weights -= options.lr * data[shard].T @ error / 20
    val_loss = np.mean((data[40:].reshape(-1, 5) @ (weights - truth)) ** 2)
    print(f"epoch {epoch}: val_loss={val_loss:.6f}", flush=True)
