"""A worker of the data loader meets a task without the field it reads."""

from torch.utils.data import DataLoader, Dataset
from training import train

ROWS = [{"prompt": "2+2", "answer": "4"}, {"prompt": "3+3"}]


class Tasks(Dataset):
    def __len__(self) -> int:
        return len(ROWS)

    def __getitem__(self, index: int) -> tuple[str, str]:
        row = ROWS[index]
        return row["prompt"], row["answer"]


train(2)
for batch in DataLoader(Tasks(), num_workers=1):
    print(batch, flush=True)
