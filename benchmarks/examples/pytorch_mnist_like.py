"""Plain PyTorch, printing what PyTorch's MNIST example prints, on images made here."""

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
digits = torch.randint(10, (2400,))
images = torch.randn(10, 64)[digits] + 2 * torch.randn(2400, 64)
train = DataLoader(TensorDataset(images[:1920], digits[:1920]), 64, shuffle=True)
image, digit = images[1920:], digits[1920:]
model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
optimizer = torch.optim.Adadelta(model.parameters(), lr=0.3)
for epoch in range(1, 6):
    for at, (batch, labels) in enumerate(train):
        optimizer.zero_grad()
        loss = cross_entropy(model(batch), labels)
        loss.backward()
        optimizer.step()
        if at % 10 == 0:
            share = f"[{at * 64}/1920 ({100.0 * at / len(train):.0f}%)]"
            print(f"Train Epoch: {epoch} {share}\tLoss: {loss.item():.6f}", flush=True)
    with torch.no_grad():
        loss, right = cross_entropy(model(image), digit), int((model(image).argmax(1) == digit).sum())
    print(f"\nTest set: Average loss: {loss:.4f}, Accuracy: {right}/480 ({right / 4.8:.0f}%)\n")
