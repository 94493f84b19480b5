"""Backbones: the one training loop and its engines. `local.train(config)` runs it in this process."""
