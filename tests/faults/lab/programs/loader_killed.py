"""A worker of the data loader is killed while it works."""

import os
import signal
import time

from torch.utils.data import DataLoader, Dataset
from training import train


class Tasks(Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        if index == 3:
            time.sleep(0.5)  # until the items before it have been taken
            os.kill(os.getpid(), signal.SIGKILL)
        return index


train(2)
for batch in DataLoader(Tasks(), num_workers=1):
    print(batch, flush=True)
