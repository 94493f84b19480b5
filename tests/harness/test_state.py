"""What the state says of two failures, and of what a person has refused."""

import pytest

from harness.journal import Entry
from harness.journal.events import Denied
from harness.state import failure_of, fold
from tests.harness.runs import found

RAISED = "The training raised "


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("KeyError: 'reward'", "KeyError: 'CUDA'"),
        ('KeyError: "reward"', 'KeyError: "prompt_ids"'),
        ("ModuleNotFoundError: No module named 'foo'", "ModuleNotFoundError: No module named 'bar'"),
    ],
)
def test_a_short_word_in_quotes_tells_failures_apart(one: str, other: str) -> None:
    assert failure_of(found({"cause": RAISED + one})) != failure_of(found({"cause": RAISED + other}))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("OSError: '/data/a.bin' is cut off", "OSError: '/mnt/b.bin' is cut off"),
        ("KeyError: 'deadbeef01'", "KeyError: 'c0ffee0123'"),
        ("KeyError: '0x7f3c01'", "KeyError: '0x8a11ff'"),
        ("ValueError: 'a long sentence'", "ValueError: 'another long one'"),
        ("KeyError: 'worker_12'", "KeyError: 'worker_7'"),
        ("ValueError: batch of 12 at 0x7f", "ValueError: batch of 9 at 0x8a"),
    ],
)
def test_what_varies_from_run_to_run_does_not(one: str, other: str) -> None:
    assert failure_of(found({"cause": RAISED + one})) == failure_of(found({"cause": RAISED + other}))


def test_a_failure_holds_no_secret() -> None:
    told = failure_of(found({"cause": RAISED + "AuthError: api_key=abcd1234efgh5678 is not valid"}))
    assert "efgh" not in told and "is not valid" in told


EDIT = {"changes": {"a.b": 1}, "remove": (), "why": "one reason", "remedy": "halve"}


def test_a_no_to_a_change_bars_this_change_whatever_its_reason() -> None:
    state = fold([Entry(1, 1.0, Denied("edit_config", EDIT, "ada"))])
    assert state.is_denied("edit_config", {**EDIT, "remove": [], "why": "another", "remedy": ""})
    assert not state.is_denied("edit_config", {**EDIT, "changes": {"a.b": 2}})
    assert not state.is_denied("set_environment", EDIT)


def test_a_no_to_a_launch_bars_every_launch() -> None:
    state = fold([Entry(1, 1.0, Denied("launch", {"attempt": 1}, "ada"))])
    assert state.is_denied("launch", {"attempt": 2}) and "launch" in state.denied
