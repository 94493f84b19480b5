"""From the diagnosis of an attempt, or what the check before a launch found, to the repairs that apply, and
from one of them to actions.

In: the experiment and the diagnosis. Out: `repairs`, as JSON in the journal beside the diagnosis: everything
that only a look at this machine can tell stands in it, so that the playbook's choice can be made once more
from the journal alone. A check has written down what it saw of the machine, so `before_launch` looks no more.
"""

import os
import resource
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import launching
from harness.agent.actions import (
    LONGEST_WHY,
    AnyAction,
    EditConfig,
    FreeOwned,
    InstallPackage,
    RaiseLimit,
    SetEnvironment,
    arguments,
)
from harness.attempt import Diagnosis, Remedy
from harness.config import keys
from harness.doctor import model_files
from harness.experiment import Experiment
from harness.guard import progress, repair_rules
from harness.machine.ports import a_free_port, is_taken
from harness.pending_changes import MEASURES, PendingChanges, measure
from harness.repair import apply_changes, installing, leftovers
from harness.repair.remedies import Situation, Surroundings, remedies_for
from harness.state import AttemptState, ExperimentState

MOST_REPAIRS = 12
MOST_EDITS = 20
"""Of one `EditConfig`; a repair with more is made in several."""
_FREES: Mapping[str, Any] = {"free_leftovers": "processes", "free_own_checkpoints": "checkpoints"}


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
    return tuple(remedies_for(names, situation(experiment, diagnosis))[:MOST_REPAIRS])


def situation(experiment: Experiment, diagnosis: Diagnosis) -> Situation:
    """What a repair of the newest attempt starts from."""
    state = experiment.state
    newest = len(state.attempts)
    config = apply_changes.config_before(experiment)
    environment = launching.environment(
        state.plan, experiment.attempt_files(newest), state.options.hidden, state.environment
    )
    return Situation(
        diagnosis,
        config,
        environment,
        state.command,
        progress.tried(_with(state.attempts, diagnosis)),
        surroundings(experiment, config, environment),
    )


def before_launch(cause: Diagnosis, state: ExperimentState, config: str) -> list[Remedy]:
    """What can be done about a problem that the check before a launch found, in order. `config`: what the
    launch would start from, with the draft's changes. Whether the rules allow it, the guard says."""
    seen = cause.captures
    environment = dict(state.environment)
    if "variable" in seen:
        environment[seen["variable"]] = seen["port"]
    command = state.command
    rules = repair_rules.rules_alone(config, state.blueprint.protected_keys, command)
    there = replace(rules, refuses_install=lambda package: None)
    if "free_port" in seen:
        there = replace(there, free_port=lambda: int(seen["free_port"]))
    now = Situation(cause, config, environment, command, surroundings=there)
    return remedies_for(cause.remedies, now)


def _with(attempts: Sequence[AttemptState], diagnosis: Diagnosis) -> list[AttemptState]:
    """The attempts, as if the newest had been diagnosed already."""
    return [*attempts[:-1], replace(attempts[-1], diagnosis=diagnosis)]


def surroundings(experiment: Experiment, config: str, environment: Mapping[str, str]) -> Surroundings:
    """This machine, and the rules. `environment`: of the training."""
    state = experiment.state
    plan, options = state.plan, state.options
    protected = tuple(plan.get("protected_keys", ()))

    def refuses_install(package: str) -> str | None:
        python = Path(plan["venv_exe"])
        if not options.allow_install:
            return "no permission was given"
        return installing.refuse(package, python) or installing.is_there(package, python)

    return Surroundings(
        free_port=a_free_port,
        is_taken=is_taken,
        cpu_count=lambda: os.cpu_count() or 1,
        open_files=lambda: resource.getrlimit(resource.RLIMIT_NOFILE),
        is_cached=lambda name, revision: model_files.is_cached(environment, name, revision),
        leftovers=lambda: leftovers.leftovers(experiment),
        superseded_bytes=lambda: leftovers.superseded_bytes(experiment),
        refuses_install=refuses_install,
        known_key=keys.nearest_own_key,
        refuses=repair_rules.of_repairs(config, protected, state.command),
    )


def actions_of(repair: Remedy, diagnosis: Diagnosis) -> list[AnyAction]:
    """What carries the repair out before the next launch; nothing for one that only waits."""
    name = repair.name
    because = diagnosis.signature or diagnosis.cause
    told: dict[str, Any] = {"why": f"{because}, {name}: {repair.why}"[:LONGEST_WHY], "remedy": name}
    found: list[AnyAction] = []
    edits = list(repair.edits.items())
    for start in range(0, max(len(edits), bool(repair.remove)), MOST_EDITS):
        remove = repair.remove if start == 0 else ()
        found.append(EditConfig(changes=dict(edits[start : start + MOST_EDITS]), remove=remove, **told))
    found += [SetEnvironment(name=key, value=value, **told) for key, value in repair.environment.items()]
    if repair.package:
        found.append(InstallPackage(package=repair.package, **told))
    if name in _FREES:
        found.append(FreeOwned(what=_FREES[name], **told))
    if repair.kind == "limit":
        found.append(RaiseLimit(limit="open_files", **told))
    return found


def is_done(action: AnyAction, draft: PendingChanges) -> bool:
    """True if the draft holds this step of a repair already, also with other values."""
    if action.kind in MEASURES:
        return measure(action.kind, arguments(action)) in draft.measures
    assert isinstance(action, EditConfig | SetEnvironment)
    touched = {change.what for change in draft.changes if change.remedy == action.remedy}
    wanted = {action.name} if isinstance(action, SetEnvironment) else {*action.changes, *action.remove}
    return bool(wanted & touched)
