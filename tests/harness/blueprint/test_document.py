"""Sections that are written without `#`, brackets or colon, and sentences that only mention a section."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.blueprint import names
from tests.harness.blueprint.reading import errors, read_text

SLOPPY = """## [exp_purpose]
Find out whether the rate matters.
exp_venv_exe /usr/bin/python3
exp_launch_command `python train.py`
exp_max_time 2 hours
"""


def test_d13_a_section_line_without_a_colon_is_a_section() -> None:
    plan = read_text(SLOPPY)
    assert plan.purpose == "Find out whether the rate matters."
    assert (plan.venv_exe, plan.max_time_s) == (Path("/usr/bin/python3"), 7200)
    assert plan.launch_command == "python train.py" and not plan.problems


@pytest.mark.parametrize(
    "line", ["[exp_purpose] Find out why", "exp_purpose Find out why", "- exp_purpose Find out why"]
)
def test_d13_a_bare_line_at_the_top_is_the_purpose(line: str) -> None:
    plan = read_text(f"{line}\nexp_launch_command python train.py\n\nexp_yaml_path NA\n")
    assert (plan.purpose, plan.launch_command) == ("Find out why", "python train.py")


def test_the_value_may_stand_below_the_name() -> None:
    plan = read_text("exp_venv_exe\n/usr/bin/python3\nexp_max_time\n\n2 hours\n")
    assert (plan.venv_exe, plan.max_time_s) == (Path("/usr/bin/python3"), 7200)


def test_a_misspelt_name_with_a_value_is_said_and_not_swallowed() -> None:
    plan = read_text("## [exp_purpose]\nx\nexp_venv_ex /usr/bin/python3\n")
    assert errors(plan) == [(3, "there is no section [exp_venv_ex]")]


def test_a_stronger_line_of_the_same_name_wins() -> None:
    plan = read_text("## [exp_purpose]\nx\n\nexp_max_time 2 hours\n\n## [exp_max_time]\n3 hours\n")
    assert plan.max_time_s == 3 * 3600 and "exp_max_time 2 hours" in plan.purpose


WORDS = [
    "and",
    "is",
    "what",
    "the",
    "see",
    "below",
    "set",
    "by",
    "--lr",
    "a.py",
    "2",
    "hours",
    "python",
    "make",
]
SENTENCE = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)


@given(SENTENCE, st.sampled_from(names.SECTIONS), SENTENCE)
def test_a_sentence_that_mentions_a_section_opens_none(before: str, name: str, after: str) -> None:
    plan = read_text(f"## [exp_purpose]\nWe {before} {name} {after}.\n\n## [exp_yaml_path]\nNA\n")
    assert plan.purpose == f"We {before} {name} {after}." and set(plan.lines) == {
        "exp_purpose",
        "exp_yaml_path",
    }


@pytest.mark.parametrize("name", names.SECTIONS)
@pytest.mark.parametrize(
    "rest",
    [
        "is what the run uses",
        "is set by --conf",
        "for the reasons below.",
        "and the others",
        "was 2 hours too short",
    ],
)
def test_a_wrapped_sentence_opens_none(name: str, rest: str) -> None:
    plan = read_text(f"## Other Notes\nSee what is said about\n{name} {rest}\n\n## [exp_yaml_path]\nNA\n")
    assert set(plan.lines) == {"exp_yaml_path"} and f"{name} {rest}" in plan.notes
