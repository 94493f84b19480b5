"""Each step's micro-batches go through the model one after the other; a large one does not fit."""

import numpy as np
from settled import config, go_on

settings = config()


def forward_backward(micro_batch: int) -> float:
    activations = np.ones((micro_batch, 10_000_000), dtype=np.float32)
    return float(activations[:, 0].mean())


for _ in go_on(settings["max_steps"]):
    for _ in range(settings["gradient_accumulation_steps"]):
        forward_backward(settings["per_device_train_batch_size"])
