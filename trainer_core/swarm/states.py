"""The states of the engine behind a swarm server, and the one table of how they follow each other."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class State(StrEnum):
    """What the engine is doing; the values are those of the wire protocol."""

    OFFLINE = "ENGINE.OFFLINE"
    """No training runs; one that was stopped may still save its checkpoint."""
    BOOTING = "ENGINE.BOOTING"
    """A training has been started and loads its model."""
    ROLLING = "ENGINE.ROLLING"
    """Episodes may be claimed and finished."""
    ROLLING_POST = "ENGINE.ROLLING_POST"
    """The batch is complete; episodes that run may finish."""
    WEIGHT_SYNCING = "ENGINE.WEIGHT_SYNCING"
    """The training learns from the batch, and samples with the new weights next."""
    WEIGHT_EXPORTING = "ENGINE.WEIGHT_EXPORTING"
    """It writes a checkpoint."""


class Event(StrEnum):
    """What takes the engine from one state to another."""

    START = "a client starts it"
    COLLECTING = "the training asks for the next batch"
    ENOUGH = "the batch is complete"
    DRAINED = "no episode runs any more, or late ones are not waited for"
    EXPORTING = "the training begins to write a checkpoint"
    EXPORTED = "the checkpoint is written"
    STOP = "a client stops it"
    ENDED = "the training has done all its steps"
    CRASHED = "the training has died"


_S, _E = State, Event
_RUNNING = [state for state in State if state is not State.OFFLINE]
TRANSITIONS: Mapping[tuple[State, Event], State] = MappingProxyType(
    {
        (_S.OFFLINE, _E.START): _S.BOOTING,
        (_S.BOOTING, _E.COLLECTING): _S.ROLLING,
        (_S.ROLLING, _E.ENOUGH): _S.ROLLING_POST,
        (_S.ROLLING_POST, _E.DRAINED): _S.WEIGHT_SYNCING,
        (_S.WEIGHT_SYNCING, _E.COLLECTING): _S.ROLLING,
        (_S.WEIGHT_SYNCING, _E.EXPORTING): _S.WEIGHT_EXPORTING,
        (_S.WEIGHT_EXPORTING, _E.EXPORTED): _S.WEIGHT_SYNCING,
        **{(state, _E.STOP): _S.OFFLINE for state in _RUNNING},
        **{(state, _E.ENDED): _S.OFFLINE for state in _RUNNING},
        **{(state, _E.CRASHED): _S.OFFLINE for state in _RUNNING},
    }
)
"""What is not here does not happen: `follow` refuses it."""


def follow(state: State, event: Event) -> State:
    """The state after an event.

    Raises:
        ValueError: the event cannot happen in this state.
    """
    if (state, event) not in TRANSITIONS:
        raise ValueError(f"in {state}, it cannot be that {event}")
    return TRANSITIONS[state, event]


def as_markdown() -> str:
    """The table for docs/swarm.md."""
    rows: dict[tuple[Event, State], list[str]] = {}
    for (state, event), after in TRANSITIONS.items():
        rows.setdefault((event, after), []).append(state.removeprefix("ENGINE."))
    lines = ["| from | when | to |", "|---|---|---|"]
    for (event, after), before in rows.items():
        names = "any but OFFLINE" if len(before) == len(_RUNNING) else ", ".join(before)
        lines.append(f"| {names} | {event} | {after.removeprefix('ENGINE.')} |")
    return "\n".join(lines) + "\n"
