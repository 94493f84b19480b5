"""Reads a column that the dataset calls otherwise."""

from datasets import load_dataset
from training import train

tasks = load_dataset("json", data_files="train.jsonl", split="train")
train(2)
tasks = tasks.filter(lambda row: len(row["prompt"]) < 512)
