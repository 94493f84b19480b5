"""Renames a column that is not there."""

from datasets import Dataset
from training import train

train(1)
Dataset.from_dict({"question": ["2+2?"], "answer": ["4"]}).rename_column("problem", "prompt")
