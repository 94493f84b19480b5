"""Every text that a model wrote, checked against the raw files: numbers, differences, outcomes, omissions.

Read in this order:

* the words: `types`, `quantity`, `reading`;
* a sentence taken apart: `quantities` and `number_words` (its numbers as a reader understands them),
  `mentions` and `levels` (what it is about), `binding` and `going_together` (which number belongs to what),
  `readings` (what else may be meant: a sentence is wrong only where no plausible reading is borne out);
* what may be said: `naming`, `of_run` with `journal_of_run`; `naming_points`, `of_comparison` with
  `counts_of_comparison` and `duties_of_comparison`;
* numbers: `lookup`, `fitting`, `counting` and `quoting` (found in the raw files), `derived` (follow
  from them);
* differences: `wording`; `in_run` with `significance`, `shapes` and `outcomes`; `in_comparison` with
  `spoken_of` and `in_all_runs`; of both `failures`;
* the whole text: `passages`, `checking`, `striking`.

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
