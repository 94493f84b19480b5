"""Needs a package that is not installed."""

from training import train

train(1)

import flashinfer_rollout  # noqa: E402, F401
