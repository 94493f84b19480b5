"""Loads its data in as many threads as the config says."""

import threading

from settled import config, go_on

settings = config()
for _ in go_on(settings["max_steps"]):
    done = threading.Event()
    workers = [threading.Thread(target=done.wait) for _ in range(settings["dataloader_num_workers"])]
    try:
        for worker in workers:
            worker.start()
    finally:
        done.set()
