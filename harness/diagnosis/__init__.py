"""From the end of a training to its cause, with evidence, and on to what would mend it.

`reading` makes faults of a log of any size, `signatures` are the known failures (YAML), `matching` holds one
against the other, `ranking` finds the root, `confidence` says how sure that is, `ends` reads exit records,
`diagnose` puts it all together. `remedies` are typed repairs; nothing here carries one out.
"""

from harness.diagnosis.diagnose import diagnose, diagnose_log
from harness.diagnosis.types import Diagnosis, Evidence

__all__ = ["Diagnosis", "Evidence", "diagnose", "diagnose_log"]
