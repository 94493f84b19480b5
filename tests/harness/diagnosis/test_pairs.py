"""What one signature leaves to others by its `unless` is taken by one of them: texts of `pairs.yaml`."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.diagnosis import diagnose_log, matching
from harness.diagnosis.reading import read
from harness.diagnosis.signatures import load

PAIRS = yaml.safe_load(Path(__file__).with_name("pairs.yaml").read_text(encoding="utf-8"))


def log_of(pair: dict[str, Any], folder: Path) -> Path:
    """The text as a program ends with it, or as a line."""
    is_raised = pair["text"].split(":")[0].rpartition(".")[2].endswith(("Error", "Exception", "Timeout"))
    frames = ["/home/me/train.py", *pair.get("frames", ())] if is_raised else []
    lines = ["Traceback (most recent call last):"] if is_raised else []
    for number, path in enumerate(frames):
        lines += [f'  File "{path}", line {number + 3}, in {"<module>" if not number else "run"}', "    go()"]
    log = folder / "train.log"
    log.write_text("\n".join([*lines, pair["text"], ""]), encoding="utf-8")
    return log


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair['left_by']}-{pair['family']}")
def test_what_one_signature_leaves_another_takes(pair: dict[str, Any], tmp_path: Path) -> None:
    catalogue = load(())
    log = log_of(pair, tmp_path)
    (signature,) = (each for each in catalogue.signatures if each.id == pair["left_by"])
    without = signature.model_copy(update={"unless": ()})
    faults = read(log, catalogue.words)
    held = matching.matches(faults, type(catalogue)((without,)))
    assert held and not matching.matches(faults, type(catalogue)((signature,)))
    found = diagnose_log(log, catalogue=catalogue)
    assert found.family == pair["family"], found
