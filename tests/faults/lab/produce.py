"""Writes the logs of all cases that this machine can produce as a labelled folder.

    python -m tests.faults.lab.produce DIR

`DIR/NNN_name.log` and `DIR/index.jsonl`, one label per line: file, source, class, family, also_right, root
(text of the line that names the cause), healthy, retry_without_change_ok, fix_that_worked, exit_status. A log
without a root line is labelled `unknown`: there only how the process ended tells the cause. What cannot be
produced here is printed with the reason.
"""

import json
import shutil
import sys
import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

from harness.diagnosis.types import UNKNOWN
from tests.faults.lab.cases import CASES, HEALTHY
from tests.faults.lab.run import environment, run, why_not
from tests.faults.lab.types import Case, Produced
from tests.faults.lab.warm import WarmInterpreter


def label(case: Case, name: str, produced: Produced) -> dict[str, Any]:
    """What index.jsonl says about one log."""
    return {
        "file": name,
        "source": "fault laboratory",
        "class": case.name,
        "family": case.family if case.root else UNKNOWN,
        "also_right": list(case.also_right),
        "root": case.root,
        "healthy": case in HEALTHY,
        "retry_without_change_ok": case.transient,
        "fix_that_worked": case.fix,
        "exit_status": produced.status,
        "decoys": "",
        "forbidden_fixes": "",
    }


def produce(target: Path) -> int:
    """Run every case and write its log and label into `target`; how many there are."""
    target.mkdir(parents=True, exist_ok=True)
    labels = []
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as at_end:
        Path(scratch).chmod(0o755)

        @cache
        def warm() -> WarmInterpreter:
            interpreter = WarmInterpreter(environment(Path(scratch)))
            at_end.callback(interpreter.close)
            return interpreter

        for number, case in enumerate((*CASES, *HEALTHY), start=1):
            if (reason := why_not(case)) is not None:
                print(f"left out {case.name}: {reason}")
                continue
            produced = run(case, Path(scratch) / f"{number:03d}", warm)
            name = f"{number:03d}_{case.name}.log"
            shutil.copy(produced.log, target / name)
            labels.append(label(case, name, produced))
    (target / "index.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in labels))
    return len(labels)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.faults.lab.produce DIR")
    print(f"{produce(Path(sys.argv[1]))} logs")
