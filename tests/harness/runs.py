"""Runs made by hand, with only what matters: events, blueprints, ends, diagnoses, states.

Events may be given as a kind and a dictionary: what is missing is left empty, and `record` adds the intents
that a journal needs before them.
"""

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from harness.attempt import AttemptEnd, Diagnosis
from harness.blueprint import Blueprint
from harness.codec import decode, encode
from harness.journal import Entry, Recorded, events
from harness.journal.events import RUN, ActionResult, Checked, Collected, Created, Reported
from harness.journal.order import Event, Order
from harness.pending_changes import PREPARING
from harness.state import ExperimentState
from harness.sweep.state import SWEEP, SweepCreated

Given = Mapping[str, Any]
TYPES = {"checked": Checked, "collected": Collected, "reported": Reported}


def planned(given: Given) -> Blueprint:
    """A blueprint of which only these fields matter."""
    return filled(Blueprint, given)


def created(plan: Given | None = None) -> Created:
    """The first event of a run."""
    return Created("7f3a00000000", "sort digits", 9e9, "playbook", planned(plan or {}))


def end(given: Given) -> AttemptEnd:
    """An attempt's end of which only these fields matter."""
    return filled(AttemptEnd, given)


def found(given: Given) -> Diagnosis:
    """A diagnosis, sure where nothing else is given."""
    return filled(Diagnosis, {"confidence": 1.0, **given})


def state_with(plan: Given | None = None, **given: Any) -> ExperimentState:
    """A state; what journals keep may be given as dictionaries."""
    return ExperimentState(blueprint=planned(plan or {}), **typed(given))


def typed(given: Given) -> dict[str, Any]:
    """Fields of a state, of which those that journals keep may be dictionaries."""
    return {
        name: filled(TYPES[name], value) if name in TYPES and isinstance(value, dict) else value
        for name, value in given.items()
    }


def record(into: Recorded[Any], kind: str, **data: Any) -> Entry:
    """Record an event, and the intents before it that are missing."""
    event = event_of(kind, data, into.ORDER)
    for before in missing_before(event, into.state):
        into.record(before)
    return into.record(event)


RESULTS = {
    cls.__dict__["action"]: cls
    for cls in RUN.rows
    if issubclass(cls, ActionResult) and isinstance(cls.__dict__.get("action"), str)
}


def result_of(action: str, data: Mapping[str, Any]) -> ActionResult:
    """The result of an action from a dictionary."""
    if action in RESULTS:
        return filled(RESULTS[action], data)
    kind = events.ChangePrepared if action in PREPARING else events.Looked
    return filled(kind, {"action": action, **data})


def event_of(kind: str, data: Mapping[str, Any], order: Order | None = None) -> Event:
    """The event of a kind that is not an outcome any more, or is."""
    if kind == "outcome":
        return result_of(data["action"], data)
    if kind == "options":
        return events.OptionsGiven(filled(events.RunOptions, data))
    if kind == "created":
        data = {**data, "blueprint": data.get("plan", {})}
    classes = {cls.kind: cls for cls in (*SWEEP.rows, *RUN.rows)}
    if order is not None:
        classes = {cls.kind: cls for cls in order.rows}
    if kind == "sweep_created":
        return decode(SweepCreated, {"sweep_id": data["sweep_id"], "plan": encode(data["plan"])})
    return filled(classes[kind], data)


def filled(cls: Any, data: Mapping[str, Any]) -> Any:
    """The dataclass with what is missing left empty and what it does not know left out."""
    return decode(cls, _fill(cls, encode(data)))


def _fill(kind: Any, value: Any = MISSING) -> Any:
    """A value as this type has it in JSON; what is missing is empty."""
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        inner = [arg for arg in args if arg is not type(None)]
        if value is MISSING or value is None:
            return None
        return value if len(inner) > 1 else _fill(inner[0], value)
    if is_dataclass(kind) and (value is MISSING or isinstance(value, Mapping)):
        hints, given = get_type_hints(kind), {} if value is MISSING else value
        needed = {each.name for each in fields(kind) if each.default is each.default_factory is MISSING}
        names = [each.name for each in fields(kind) if each.name in needed | given.keys()]
        return {name: _fill(hints[name], given.get(name, MISSING)) for name in names}
    if origin is tuple and isinstance(value, list):
        return [_fill(args[0], each) for each in value]
    if value is not MISSING and not (value is None and kind in (str, int, float, bool)):
        return value
    if origin is Literal:
        return args[0]
    plain = dict if kind is Any else origin or kind
    empty = {Path: "", Mapping: {}, tuple: []}
    return empty[plain] if plain in empty else plain()


def missing_before(event: Event, state: Any) -> list[Event]:
    """What a journal made by hand leaves out."""
    if isinstance(event, ActionResult):
        action = getattr(event, "action")  # noqa: B009
        pending = getattr(state, "pending", None)
        return [] if pending is not None and pending.action == action else [events.Intent(action)]
    if isinstance(event, events.Denied) and not state.asks:
        return [events.ApprovalAsked(event.action, event.args)]
    if not isinstance(event, events.Finish) or not isinstance(state, ExperimentState):
        return []
    if state.pending is None or state.pending.action != "finish":
        collect = [events.Intent("collect"), events.Collected(event.outcome, event.reason)]
        return [*(collect if state.collected is None else []), events.Intent("finish")]
    return []
