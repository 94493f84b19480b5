"""Preflight: what can be seen in seconds before a launch, so that it does not fail after twenty minutes.

`examine` is what others call; `types` says what comes out. `launch` is what all checks look at; every other
file holds the checks of one theme, each a small function that yields findings.
"""

from harness.doctor.examine import examine
from harness.doctor.types import Finding, outcome

__all__ = ["Finding", "examine", "outcome"]
