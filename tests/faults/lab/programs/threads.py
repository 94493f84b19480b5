"""Starts a thread for each rollout."""

import threading

from training import train

train(2)
done = threading.Event()
workers = [threading.Thread(target=done.wait, args=(20,), daemon=True) for _ in range(200)]
for worker in workers:
    worker.start()
