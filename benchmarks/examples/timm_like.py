"""A training of images that prints what timm's train.py prints, and writes its summary.csv."""

import logging
import time
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

logging.basicConfig(level=logging.INFO, format="%(message)s")
torch.manual_seed(0)
labels = torch.randint(10, (640,))
images = torch.randn(10, 128)[labels] + 3 * torch.randn(640, 128)
batches = list(zip(images.split(32), labels.split(32), strict=True))
train, test = batches[:16], batches[16:]
model = torch.nn.Sequential(torch.nn.Linear(128, 64), torch.nn.GELU(), torch.nn.Linear(64, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
summary = ["epoch,train_loss,eval_loss,eval_top1,eval_top5"]
logging.info("Scheduled epochs: 5. LR stepped per epoch.")
for epoch in range(5):
    losses, began = [], time.time()
    for at, (image, label) in enumerate(train):
        loss = cross_entropy(model(image), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if at % 5 == 0:
            speed = (
                f"{(time.time() - began) / (at + 1):.3f}s, {32 * (at + 1) / (time.time() - began):>7.2f}/s"
            )
            logging.info(
                f"Train: {epoch} [{at:>4d}/16 ({100 * at / 15:>3.0f}%)]  Loss: {loss.item():#.3g} "
                f"({sum(losses) / len(losses):#.3g})  Time: {speed}  ({speed})  LR: 2.000e-03  Data: 0 (0)"
            )
    mean = torch.zeros(3)
    for at, (image, label) in enumerate(test):
        output = model(image).detach()
        hits = [100 * (output.topk(k).indices == label[:, None]).any(1).float().mean() for k in (1, 5)]
        now = torch.stack([cross_entropy(output, label), *hits])
        mean += (now - mean) / (at + 1)
        shown = zip(("Loss", "Acc@1", "Acc@5"), now, mean, strict=True)
        text = "  ".join(f"{name}: {value:>7.3f} ({average:>7.3f})" for name, value, average in shown)
        logging.info(f"Test: [{at:>4d}/{len(test) - 1}]  Time: 0.001 (0.001)  {text}")
    summary.append(",".join(map(str, [epoch, sum(losses) / 16, *mean.tolist()])))
    Path("summary.csv").write_text("\n".join(summary) + "\n")
