"""Trains on what a filter left: nothing."""

from datasets import Dataset
from torch.utils.data import DataLoader
from training import train

tasks = Dataset.from_dict({"prompt": ["a long prompt"] * 4}).filter(lambda row: len(row["prompt"]) < 5)
train(1)
loader = DataLoader(tasks, batch_size=2, shuffle=True)
