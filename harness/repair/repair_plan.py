"""From the diagnosis of an attempt, or what the check before a launch found, to the repairs that apply, and
from one of them to actions.

In: the experiment and the diagnosis. Out: `repairs`, which the journal keeps with the diagnosis: everything
that only a look at this machine can tell stands in it, so that the playbook's choice can be made once more
from the journal alone. A check has written down what it saw of the machine, so `before_launch` looks no more.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness import actions, launching
from harness.attempt import Diagnosis, Remedy
from harness.doctor.model import is_cached
from harness.environment import of_training
from harness.experiment import Experiment
from harness.guard import progress
from harness.pending_changes import MEASURES, PendingChanges, measure
from harness.repair import apply_changes, installing, leftovers
from harness.repair.remedies import Machine, Situation, remedies_for
from harness.state import ExperimentState

MOST_REPAIRS = 12
MOST_EDITS = 20
"""Of one `EditConfig`; a repair with more is made in several."""
_FREES: dict[str, Any] = {"free_leftovers": "processes", "free_own_checkpoints": "checkpoints"}


def repairs(
    experiment: Experiment, diagnosis: Diagnosis, preferred: Sequence[str] = ()
) -> tuple[Remedy, ...]:
    """What can be done about it, in the order in which it is to be tried.

    `preferred`: remedies in the order in which they helped before; the others follow. A cause that passes is
    waited out first, also where its signature does not say so.
    """
    names = [*preferred, *diagnosis.remedies]
    if diagnosis.transient and not {"wait_and_retry", "resume_from_checkpoint"} & set(names):
        names.insert(0, "wait_and_retry")
    state, plan = experiment.state, experiment.state.blueprint
    files = experiment.attempt_files(len(state.attempts))
    variables = of_training(experiment.dir, state.options.hidden)
    environment = launching.environment(plan, files, variables, state.environment)
    now = Situation(
        diagnosis,
        apply_changes.config_before(experiment),
        environment,
        state.command,
        progress.tried([*state.attempts[:-1], replace(state.attempts[-1], diagnosis=diagnosis)]),
        tuple(plan.protected_keys),
        machine(experiment, environment),
    )
    return tuple(remedies_for(names, now)[:MOST_REPAIRS])


OF_A_PERSON = "correct_path"
"""The repair that only a person may allow: paths are the author's."""


def before_launch(cause: Diagnosis, state: ExperimentState, config: str) -> list[Remedy]:
    """What can be done about a problem that the check before a launch found, in order. `config`: what the
    launch would start from, with the pending changes."""
    seen, environment = cause.captures, dict(state.environment)
    if "variable" in seen:
        environment[seen["variable"]] = seen["port"]
    here = Machine(why_not_install=lambda: "" if state.options.allow_install else installing.NOT_PERMITTED)
    if "free_port" in seen:
        here = replace(here, free_port=lambda: int(seen["free_port"]))
    protected = tuple(state.blueprint.protected_keys)
    now = Situation(cause, config, environment, state.command, protected=protected, machine=here)
    return remedies_for(cause.remedies, now)


def machine(experiment: Experiment, environment: dict[str, str]) -> Machine:
    """This machine. `environment`: of the training."""
    state = experiment.state
    return Machine.here(
        cpu_count=lambda: os.cpu_count() or 1,
        is_cached=lambda name, revision: is_cached(environment, name, revision),
        owned=lambda what: leftovers.owned(experiment, what),
        why_not_install=lambda: installing.why_not(state.blueprint.venv_exe, state.options.allow_install),
    )


def actions_of(repair: Remedy, diagnosis: Diagnosis) -> list[actions.Action]:
    """What carries the repair out before the next launch; nothing for one that only waits."""
    name = repair.name
    because = diagnosis.signature or diagnosis.cause
    reason: dict[str, Any] = {
        "why": f"{because}, {name}: {repair.why}"[: actions.LONGEST_WHY],
        "remedy": name,
    }
    found: list[actions.Action] = []
    if name == OF_A_PERSON:
        question = f"{diagnosis.cause.rstrip('.')}. May it be changed?"
        return [actions.AskPerson(question=question[:1000], changes=dict(repair.edits), **reason)]
    edits = list(repair.edits.items())
    for start in range(0, max(len(edits), bool(repair.remove)), MOST_EDITS):
        remove = repair.remove if start == 0 else ()
        found.append(
            actions.EditConfig(changes=dict(edits[start : start + MOST_EDITS]), remove=remove, **reason)
        )
    found += [
        actions.SetEnvironment(name=key, value=value, **reason) for key, value in repair.environment.items()
    ]
    if repair.package:
        found.append(actions.InstallPackage(package=repair.package, **reason))
    if name in _FREES:
        found.append(actions.FreeOwned(what=_FREES[name], **reason))
    if repair.kind == "limit":
        found.append(actions.RaiseLimit(limit="open_files", **reason))
    return found


def is_done(action: actions.Action, draft: PendingChanges) -> bool:
    """True if the draft holds this step of a repair already, also with other values."""
    if action.kind in MEASURES:
        return measure(action.kind, actions.arguments(action)) in draft.measures
    if isinstance(action, actions.AskPerson):
        return set(action.changes) <= {change.what for change in draft.changes if change.allowed_by}
    assert isinstance(action, actions.EditConfig | actions.SetEnvironment)
    touched = {change.what for change in draft.changes if change.remedy == action.remedy}
    wanted = (
        {action.name} if isinstance(action, actions.SetEnvironment) else {*action.changes, *action.remove}
    )
    return bool(wanted & touched)
