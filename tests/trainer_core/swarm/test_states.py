"""One table of states, for code and docs."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from trainer_core.swarm.states import TRANSITIONS, Event, State, as_markdown, follow

_DOCS = Path(__file__).parents[3] / "docs" / "swarm.md"


def test_the_docs_hold_the_table() -> None:
    assert as_markdown() in _DOCS.read_text(encoding="utf-8")


def test_what_is_not_in_the_table_is_refused() -> None:
    for state, event in product(State, Event):
        if (state, event) not in TRANSITIONS:
            with pytest.raises(ValueError, match=r"it cannot be that"):
                follow(state, event)


def test_every_state_can_be_reached_and_left() -> None:
    reached = {State.OFFLINE}
    for _ in State:
        reached |= {after for (state, _), after in TRANSITIONS.items() if state in reached}
    assert reached == set(State)
    for state in set(State) - {State.OFFLINE}:
        assert TRANSITIONS[state, Event.CRASHED] is State.OFFLINE
        assert TRANSITIONS[state, Event.STOP] is State.OFFLINE
