"""From what was decided to the order of one launch: config changes, variables, the copy of patched code."""

import os
from dataclasses import replace

from harness import launching
from harness.actions import Launch
from harness.experiment import Experiment
from harness.pending_changes import PendingChanges, diff
from harness.repair import patched_code
from monitors.files import AttemptFiles


def order(experiment: Experiment, action: Launch, previous: AttemptFiles | None) -> launching.LaunchRequest:
    """What this launch uses; where code was ever patched, the training runs in the private copy.

    Raises PatchError when that copy has to be made anew and cannot be.
    """
    plan, state = experiment.blueprint, experiment.state
    assert state.attempt is not None
    draft = state.attempt.draft
    plain = launching.LaunchRequest(
        session=action.session,
        attempt_id=action.attempt_id,
        deadline_at=state.deadline_at,
        codebase=plan.codebase_dir,
        hidden=state.options.hidden,
        previous=previous,
        draft=draft,
        environment=state.environment,
        arguments=state.arguments,
        code_diff=_command_diff(experiment),
        limits=state.limits,
    )
    made = patches(experiment)
    if not made:
        return plain
    code = patched_code.for_launch(plan, state.experiment_id, made)
    return replace(
        plain,
        codebase=code.copy.codebase,
        environment={**code.variables(state.blueprint.venv_exe, os.environ), **state.environment},
        code_diff=plain.code_diff + code.diffs(draft.patches),
        relocate=code.relocated,
    )


def _command_diff(experiment: Experiment) -> str:
    """What this attempt changed in the launch command."""
    state = experiment.state
    before = replace(state, attempts=state.attempts[:-1], draft=PendingChanges())
    changed = bool(state.attempt and state.attempt.draft.arguments)
    return diff(before.command, state.command, "command") if changed else ""


def patches(experiment: Experiment) -> list[dict[str, str]]:
    """Every code correction that an attempt has had, in order."""
    return [patch for attempt in experiment.state.attempts for patch in attempt.draft.patches]


def relocated(experiment: Experiment, command: str) -> str:
    """The command line, pointing into the private copy where code was patched."""
    code = patched_code.find(experiment.state.experiment_id) if patches(experiment) else None
    return command if code is None else code.relocated(command)
