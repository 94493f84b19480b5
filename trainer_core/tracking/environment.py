"""`environment.json`: what the numbers of a run depend on beside its config."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from trainer_core.tracking.atomic import write_atomically

_PACKAGES = [
    *("torch", "transformers", "tokenizers", "safetensors", "numpy", "datasets", "pydantic", "ajet-harness")
]


def write_environment(path: Path, facts: Mapping[str, Any]) -> None:
    """Write versions, machine and threads, together with facts of the run (seed, device, …)."""
    environment = {
        "packages": {name: _version(name) for name in _PACKAGES},
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "torch_threads": torch.get_num_threads(),
        **facts,
    }
    write_atomically(path, json.dumps(environment, indent=2) + "\n")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
