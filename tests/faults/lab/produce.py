"""Writes the logs of all cases that this machine can produce as a labelled folder, as `replayed/` is one.

`python -m tests.faults.lab.produce DIR`. A log without a root line is labelled `unknown`: there only how the
process ended tells the cause. What cannot be produced here is printed with the reason.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

from harness.diagnosis.types import UNKNOWN
from tests.faults.lab.cases import CASES, HEALTHY
from tests.faults.lab.run import environment, run, why_not
from tests.faults.lab.warm import warm_when_asked


def produce(target: Path) -> int:
    """Run every case and write its log and label into `target`; how many there are."""
    target.mkdir(parents=True, exist_ok=True)
    labels = []
    with tempfile.TemporaryDirectory() as scratch, warm_when_asked(environment(Path(scratch))) as warm:
        Path(scratch).chmod(0o755)
        for number, case in enumerate((*CASES, *HEALTHY), start=1):
            if (reason := why_not(case)) is not None:
                print(f"left out {case.name}: {reason}")
                continue
            produced = run(case, Path(scratch) / f"{number:03d}", warm)
            name = f"{number:03d}_{case.name}.log"
            shutil.copy(produced.log, target / name)
            label = {"file": name, "source": "fault laboratory", "class": case.name}
            family = case.family if case.root else UNKNOWN
            labels.append({**label, "family": family, "root": case.root, "healthy": case in HEALTHY})
    (target / "index.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in labels))
    return len(labels)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.faults.lab.produce DIR")
    print(f"{produce(Path(sys.argv[1]))} logs")
