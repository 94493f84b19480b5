"""A training in one file that prints what nanoGPT prints."""

import time

import torch
from torch.nn.functional import cross_entropy

torch.manual_seed(0)
text = "to be or not to be that is the question whether tis nobler in the mind to suffer " * 40
letters = sorted(set(text))
data = torch.tensor([letters.index(letter) for letter in text])
train, val = data[: int(len(data) * 0.9)], data[int(len(data) * 0.9) :]
embed, head = torch.nn.Embedding(len(letters), 16), torch.nn.Linear(3 * 16, len(letters))
model = torch.nn.Sequential(embed, torch.nn.Flatten(), head)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
print(f"number of parameters: {sum(p.numel() for p in model.parameters()) / 1e6:.2f}M")


def loss_on(split):
    begins = torch.randint(len(split) - 4, (64,))
    inputs = torch.stack([split[at : at + 3] for at in begins])
    return cross_entropy(model(inputs), split[begins + 3])


for step in range(301):
    if step % 50 == 0:
        with torch.no_grad():
            losses = [sum(loss_on(split).item() for _ in range(10)) / 10 for split in (train, val)]
        print(f"step {step}: train loss {losses[0]:.4f}, val loss {losses[1]:.4f}", flush=True)
    began = time.time()
    loss = loss_on(train)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"iter {step}: loss {loss.item():.4f}, time {(time.time() - began) * 1000:.2f}ms, mfu -100.00%")
