"""Reads a parquet file that is none."""

import pandas
from training import train

train(1)
pandas.read_parquet("train.parquet")
