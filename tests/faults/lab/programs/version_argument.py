"""Passes an argument that the library no longer takes."""

from datasets import Dataset
from training import train

train(1)
Dataset.from_dict({"prompt": ["a"]}).map(lambda row: row, use_threads=True)
