"""Keys that a program reads and its config has not."""

from pathlib import Path

import pytest

from harness.doctor import config_keys
from tests.harness.doctor.planning import bad, examined, launch

LOADS = "import sys, yaml\nc = yaml.safe_load(open(sys.argv[1]))\n"
CONFIG = "optimizer: {lr: 0.1}\nsteps: 3\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("print(c['optimizer']['lr'], c['steps'])\n", 0),
        ("print(c['optim']['lr'])\n", 1),
        ("print(c['optimizer']['learning_rate'], c['step'])\n", 2),
        ("print(c.get('step'))\n", 0),
        ("if 'extra' in c:\n    print(c['extra']['x'])\n", 0),
        ("c['made'] = 1\nprint(c['made'])\n", 0),
        ("d = yaml.safe_load('a: 1')\nprint(c['step'])\n", 0),
        ("print(c['optimizer'][sys.argv[2]])\n", 0),
    ],
)
def test_keys_of_the_source(tmp_path: Path, source: str, expected: int) -> None:
    (tmp_path / "t.py").write_text(LOADS + source)
    found = examined(config_keys.are_there, launch(tmp_path, "python t.py config.yaml", CONFIG))
    assert bad(found) == [("warning", "config_error")] * expected


def test_a_typo_is_told_with_what_was_meant(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(LOADS + "print(c['step'])\n")
    found = examined(config_keys.are_there, launch(tmp_path, "python t.py config.yaml", CONFIG))
    assert found[0].mend == "did you mean steps?" and "t.py:3" in found[0].text
