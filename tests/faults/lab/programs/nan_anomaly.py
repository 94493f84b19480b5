"""Anomaly detection finds where the gradient became no number."""

import torch
from training import train

train(2)
log_probs = torch.zeros(4, requires_grad=True)
with torch.autograd.set_detect_anomaly(True):
    (torch.sqrt(log_probs) * 0.0).sum().backward()
