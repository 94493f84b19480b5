"""Imports a compiled extension that was built against another library."""

import subprocess
from pathlib import Path

from training import train

source = Path("flash_attn_2_cuda.c")
source.write_text(
    "extern void at_tensor_abi_21(void); void PyInit_flash_attn_2_cuda(void) { at_tensor_abi_21(); }"
)
subprocess.run(["gcc", "-shared", "-fPIC", "-o", "flash_attn_2_cuda.so", source], check=True)
train(1)

import flash_attn_2_cuda  # noqa: E402, F401
