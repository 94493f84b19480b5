"""What the state says of two failures, and of what a person has refused."""

import pytest

from harness.journal import Entry
from harness.journal.events import Denied
from harness.state import failure_of, fold
from tests.harness.runs import found

RAISED = "The training raised "


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("KeyError: 'reward'", "KeyError: 'CUDA'", False),
        ('KeyError: "reward"', 'KeyError: "prompt_ids"', False),
        ("ModuleNotFoundError: No module named 'foo'", "ModuleNotFoundError: No module named 'bar'", False),
        ("OSError: '/data/a.bin' is cut off", "OSError: '/mnt/b.bin' is cut off", True),
        ("KeyError: 'deadbeef01'", "KeyError: 'c0ffee0123'", True),
        ("KeyError: '0x7f3c01'", "KeyError: '0x8a11ff'", True),
        ("ValueError: 'a long sentence'", "ValueError: 'another long one'", True),
        ("KeyError: 'worker_12'", "KeyError: 'worker_7'", True),
        ("ValueError: batch of 12 at 0x7f", "ValueError: batch of 9 at 0x8a", True),
    ],
)
def test_a_short_word_tells_failures_apart_and_what_varies_does_not(one: str, other: str, same: bool) -> None:
    first, second = (failure_of(found({"cause": RAISED + cause})) for cause in (one, other))
    assert (first == second) is same


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
