"""Needs einops once it has begun."""

from training import row, say


def layers() -> str:
    import einops

    return einops.__version__


say(f"einops {layers()}")
for step in range(1, 6):
    row(step, 0.3 + 0.02 * step, 0.03)
