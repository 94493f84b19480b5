"""Make `harness/diagnosis/examples.yaml`: for each shipped signature its shortest labelled log.

`python -m tools.signature_examples`; the labelled logs are those of `tests/harness/diagnosis/logs`.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import yaml

from harness.diagnosis import diagnose_log
from harness.diagnosis.signatures import load
from harness.diagnosis.trial import EXAMPLES

LOGS = Path(__file__).parents[1] / "tests" / "harness" / "diagnosis" / "logs"
LONGEST = 1500
HEAD = "# A short log for each signature. Made by `python -m tools.signature_examples`; do not edit.\n"


def labelled() -> Iterator[tuple[str, Path]]:
    """Each signature with a log of it."""
    for index in sorted(LOGS.glob("*/index.jsonl")):
        for line in index.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            yield entry["signature"], index.parent / entry["file"]


def main() -> None:
    catalogue, found = load(()), dict[str, str]()
    for signature, log in labelled():
        text = log.read_text(encoding="utf-8", errors="replace")
        is_shorter = len(text) < len(found.get(signature, "x" * LONGEST))
        if is_shorter and diagnose_log(log, catalogue=catalogue).signature == signature:
            found[signature] = text
    known = {each.id: found[each.id] for each in catalogue.signatures if each.id in found}
    EXAMPLES.write_text(HEAD + yaml.safe_dump(known, sort_keys=False, allow_unicode=True, width=110))
    print(f"{len(known)} examples of {len(catalogue.signatures)} signatures")


if __name__ == "__main__":
    main()
