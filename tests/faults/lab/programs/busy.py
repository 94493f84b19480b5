"""Computes for ever."""

from training import train

train(3)
while True:
    sum(range(100_000))
