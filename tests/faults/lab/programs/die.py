"""Trains, says that it goes on, and waits for its fate."""

import time

from training import train

train(3)
print("rollout of step 4 begins", flush=True)
time.sleep(60)
