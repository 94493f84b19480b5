"""Flags of argparse programs."""

from pathlib import Path

import pytest

from harness.doctor import arguments
from tests.harness.doctor.planning import bad, examined, launch

PROGRAM = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--learning-rate", type=float)
parser.add_argument("-d", "--data", required=True)
parser.add_argument("--mode", choices=["a", "b"])
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--data x --learning-rate 1", []),
        ("-d x --learning 1", []),
        ("--data=x --mode a", []),
        ("--data x --learing-rate 1", ["problem"]),
        ("--learning-rate 1", ["problem"]),
        ("--data x --mode c", ["warning"]),
        ("--data $UNKNOWN_HERE --nonsense 1", []),
    ],
)
def test_flags(tmp_path: Path, words: str, expected: list[str]) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    found = examined(arguments.flags_are_known, launch(tmp_path, f"python train.py {words}"))
    assert bad(found) == [(severity, "config_error") for severity in expected]


def test_a_parser_that_takes_more_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM.replace("parse_args", "parse_known_args"))
    assert examined(arguments.flags_are_known, launch(tmp_path, "python train.py --anything")) == []


@pytest.mark.parametrize(("value", "expected"), [("1e-3", []), ("fast", [("problem", "config_error")])])
def test_a_number(tmp_path: Path, value: str, expected: list[tuple[str, str]]) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    given = launch(tmp_path, f"python train.py --data x --learning-rate {value}")
    assert bad(examined(arguments.flags_are_known, given)) == expected
