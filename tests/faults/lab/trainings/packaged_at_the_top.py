"""Needs einops."""

import einops
from training import row

print(f"einops {einops.__version__}", flush=True)
for step in range(1, 6):
    row(step, 0.3 + 0.02 * step, 0.03)
