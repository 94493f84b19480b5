"""Loads the model of a folder."""

import sys

from training import train
from transformers import AutoModelForCausalLM

train(1)
AutoModelForCausalLM.from_pretrained(sys.argv[1])
