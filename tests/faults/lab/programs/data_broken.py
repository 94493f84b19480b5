"""Loads JSON lines of which one is cut off."""

from datasets import load_dataset
from training import train

train(1)
load_dataset("json", data_files="train.jsonl", split="train")
