"""Grows until the kernel ends it."""

import sys

from training import train

train(3)
megabytes = int(sys.argv[1])
rollouts = [bytearray(b"x" * (1 << 20)) for _ in range(megabytes)]
print(len(rollouts))
