"""Runs made by hand, with only what matters: blueprints, ends, diagnoses, states."""

from collections.abc import Mapping
from typing import Any

from harness.attempt import AttemptEnd, Diagnosis
from harness.blueprint import Blueprint
from harness.journal.events import Checked, Collected, Created, Reported
from harness.journal.legacy import filled
from harness.state import ExperimentState

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
