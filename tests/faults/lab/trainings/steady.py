"""Trains slowly enough to be disturbed."""

import time

from settled import config, go_on

for _ in go_on(config()["max_steps"]):
    time.sleep(0.3)
