"""Reads a setting that the config does not hold."""

from pathlib import Path

import yaml
from training import train

config = yaml.safe_load(Path("config.yaml").read_text())
train(int(config["trainer"]["total_training_steps"]))
