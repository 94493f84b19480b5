"""Loads a model that is not in the cache while the hub is out of reach."""

from training import train
from transformers import AutoTokenizer

train(1)
AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B-Instruct")
