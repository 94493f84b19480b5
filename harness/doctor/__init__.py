"""What would make a launch fail, found before it: `examine` looks, `outcome` is what the journal keeps.

Rooms, in reading order: `findings` (the words), `settings`, `launch` (all that the checks look at, read once;
`probe` runs in the experiment's own interpreter), a file of checks per subject, and `examine` (their list,
and how they are run). Nothing is trained or downloaded.
"""

from harness.doctor.examine import examine, of_language_model, of_paths
from harness.doctor.findings import Finding, outcome

__all__ = ["Finding", "examine", "of_language_model", "of_paths", "outcome"]
