"""Starts a process for each environment."""

import subprocess

from training import train

train(2)
environments = [subprocess.Popen(["sleep", "60"]) for _ in range(200)]
