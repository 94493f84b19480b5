"""Every text that a model wrote, checked against the raw files: numbers, differences, outcomes, omissions.

Read in this order: `types` (the words), `quantities` (numbers as a reader understands them), `mentions` (what
a sentence is about), `of_run` and `of_comparison` (what may be said), `lookup` and `derived` (numbers),
`in_run` and `in_comparison` (claims of difference), `passages` and `checking` (the whole text).

Other rooms import from here: `evidence_of_run`, `evidence_of_folder`, `evidence_of_comparison`, `check`,
`check_sections`, and the types. It loads numpy.
"""

from harness.results.claims.checking import check, check_sections, check_tokens, omissions
from harness.results.claims.of_comparison import evidence_of_comparison
from harness.results.claims.of_run import evidence_of_folder, evidence_of_run
from harness.results.claims.types import Checked, Claim, Evidence, Omission

__all__ = [
    "Checked",
    "Claim",
    "Evidence",
    "Omission",
    "check",
    "check_sections",
    "check_tokens",
    "evidence_of_comparison",
    "evidence_of_folder",
    "evidence_of_run",
    "omissions",
]
