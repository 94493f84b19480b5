"""Asks for a split that the dataset does not have."""

from datasets import load_dataset
from training import train

train(1)
load_dataset("json", data_files={"train": "train.jsonl"}, split="validation")
