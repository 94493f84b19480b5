"""Builds an extension on a machine without the tools for it."""

import os
from pathlib import Path

from torch.utils.cpp_extension import load_inline
from training import train

train(1)
os.environ["PATH"] = "/nowhere"
load_inline(
    "fused_adam", cpp_sources="int f() { return 1; }", functions=["f"], build_directory=str(Path.cwd())
)
