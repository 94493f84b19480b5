"""From the end of a training to its cause, with evidence, and the names of what could repair it.

`reading` makes faults of a log of any size, `signatures` are the known failures (YAML), `matching` holds one
against the other, `library_messages` asks `message_bank` for what they do not know, `ranking` finds the
root and says how sure that is, `citing` picks the lines to show,
`ends` reads exit records, `diagnose` puts it all together. Remedies are only named here; `repair` has them.
"""

from harness.diagnosis.diagnose import diagnose, diagnose_log
from harness.diagnosis.types import Diagnosis, Evidence

__all__ = ["Diagnosis", "Evidence", "diagnose", "diagnose_log"]
