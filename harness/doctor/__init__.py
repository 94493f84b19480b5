"""What would make a launch fail, found before it: `examine` looks, `outcome` is what the journal keeps.

Rooms, in reading order: `findings` (the words), `settings`, `asking` (the experiment's own interpreter, in
which `probe` runs), `launch` (all that the checks look at, read once), a file of checks per subject,
`examine` (their list, and how they are run), and `language_model` (asked for a word). Nothing is trained or
downloaded.
"""

from harness.doctor.examine import examine, of_paths
from harness.doctor.findings import Finding, outcome
from harness.doctor.language_model import of_language_model

__all__ = ["Finding", "examine", "of_language_model", "of_paths", "outcome"]
