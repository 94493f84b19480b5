"""From the end of a training to its cause, with evidence.

`tracebacks` finds the root exception in a log, `signatures` matches known failures (YAML files, one per
family, which say whether a plain restart can help), `diagnose` puts both together with how the process
ended. Nothing here repairs.
"""

from harness.diagnosis.diagnose import Diagnosis, Evidence, diagnose

__all__ = ["Diagnosis", "Evidence", "diagnose"]
