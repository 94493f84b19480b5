"""Imports a name that the library no longer has."""

from training import train
from transformers import AutoModelForVision2Seq

train(1)
print(AutoModelForVision2Seq)
