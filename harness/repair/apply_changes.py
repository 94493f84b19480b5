"""What the next launch will use, and the actions that change it: config, environment, code, and what is done
beside (`installing`, `leftovers`).

Of the first three nothing is written to disk but a private copy of code that is patched: the changes live in
the journal, and the launch makes its config of them. Every action here can be repeated after a kill. A
built-in repair after which the check would refuse the launch is not made: the next one is tried.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from harness import launching
from harness.actions import (
    Action,
    EditConfig,
    FreeOwned,
    InstallPackage,
    PatchCode,
    RaiseLimit,
    RenderConfig,
    SetEnvironment,
    arguments,
)
from harness.blueprint.scaffold import ScaffoldError
from harness.command import CommandError, is_same, overlaid, read_or_empty, with_values
from harness.config import edit as config_edit
from harness.config.edit import ConfigEditError, Scalar
from harness.experiment import Experiment
from harness.journal.events import ChangePrepared, Checked
from harness.pending_changes import Change, PendingChanges, diff, with_outcome
from harness.redaction import redact
from harness.state import ExperimentState

_NOTHING_CHANGES = "nothing would change: these values stand there already, or the keys do not exist"


def config_before(experiment: Experiment, state: ExperimentState | None = None) -> str:
    """The config that the next launch starts from, without the changes of the draft; "" when there is none.
    `state`: an earlier one, to see it as it was then."""
    state = state or experiment.state
    launched = [attempt for attempt in state.attempts if attempt.launched_at is not None]
    previous = experiment.attempt_files(launched[-1].number) if launched else None
    try:
        return launching.base_config(experiment.blueprint, previous, state.draft.settings) or ""
    except (OSError, UnicodeDecodeError):
        return ""  # the check says what is wrong with it


def config_after(experiment: Experiment, draft: PendingChanges | None = None) -> str | None:
    """The config that the next launch would use, None when nothing is changed in the blueprint's own.
    `draft`: another one than that of the state."""
    draft = draft or experiment.state.draft
    if draft.settings is None and not draft.config and not draft.removed:
        return None
    return draft.apply(config_before(experiment))


def check(experiment: Experiment, draft: PendingChanges) -> Checked:
    """What the check before a launch says of the next one, were this its draft."""
    from harness import doctor

    state = experiment.state
    variables = {**state.environment, **draft.environment}
    config = config_after(experiment, draft)
    command = replace(state, draft=draft).command
    plan = replace(experiment.blueprint, launch_command=command or None)
    findings = doctor.examine(plan, experiment.dir, config, variables, state.options.hidden)
    return doctor.outcome(findings)


def prepare(
    action: Action,
    experiment: Experiment,
    check: Callable[[Experiment, PendingChanges], Checked] = check,
) -> ChangePrepared:
    """Carry out one preparing action."""
    done = _carried_out(action, experiment)
    if done.error or not isinstance(action, EditConfig | SetEnvironment) or not action.remedy:
        return done
    draft = with_outcome(experiment.state.draft, action.kind, arguments(action), done.changes)
    refused = _for_good(check(experiment, draft))
    if not refused:
        return done
    return ChangePrepared(action.kind, error=f"the check refuses what it leads to: {'; '.join(refused)}")


def _for_good(checked: Checked) -> list[str]:
    """The problems of a check that no built-in repair could solve."""
    pairs = zip(checked.problems, checked.causes, strict=False)
    return [problem for problem, cause in pairs if not cause.remedies]


def _carried_out(action: Action, experiment: Experiment) -> ChangePrepared:
    from harness.repair.installing import InstallError
    from harness.repair.text_patch import PatchError

    try:
        return _CARRY_OUT[type(action)](action, experiment)
    except (CommandError, ConfigEditError, ScaffoldError, InstallError, PatchError) as error:
        return ChangePrepared(action.kind, error=redact(str(error)))


def _render(action: RenderConfig, experiment: Experiment) -> ChangePrepared:
    text = launching.base_config(experiment.blueprint, None, action.settings) or ""
    changes = [Change("config", key, None, value, action.why) for key, value in action.settings.items()]
    return ChangePrepared(action.kind, tuple(changes), redact(text))


def _edit(action: EditConfig, experiment: Experiment) -> ChangePrepared:
    """Edit the config, and the launch command where it sets the key itself."""
    state, command = experiment.state, experiment.state.command
    inside = {key: new for key, new in action.changes.items() if read_or_empty(command).setting_of(key)}
    outside = {key: new for key, new in action.changes.items() if key not in inside}
    before = state.draft.apply(config_before(experiment))
    after = config_edit.edit(before, outside, action.remove)
    edited = with_values(command, inside)
    if after == before and edited == command:
        return ChangePrepared(action.kind, error=_NOTHING_CHANGES)
    old, given = config_edit.load(before), overlaid({}, command)
    told = {"why": action.why, "remedy": action.remedy}
    changes = [
        Change("config", key, _scalar(config_edit.get(old, key)), value, **told)
        for key, value in outside.items()
        if config_edit.get(old, key) != value
    ]
    changes += [
        Change("removed", key, _scalar(config_edit.get(old, key)), None, **told) for key in action.remove
    ]
    for key, value in inside.items():
        was = next((known for name, known in given.items() if is_same(key, name)), None)
        changes.append(Change("argument", key, was, value, **told))
    shown = diff(before, after, "config.yaml") + diff(command, edited, "command")
    return ChangePrepared(action.kind, tuple(changes), redact(shown))


def _set_variable(action: SetEnvironment, experiment: Experiment) -> ChangePrepared:
    old = experiment.state.environment.get(action.name)
    if old == action.value:
        return ChangePrepared(action.kind, error=f"{action.name} is set to that already")
    change = Change("environment", action.name, old, action.value, action.why)
    text = f"{action.name}={action.value} will be set for the next launch"
    return _done(action, change, action.remedy, text)


def _install(action: InstallPackage, experiment: Experiment) -> ChangePrepared:
    from harness.repair import installing

    python = experiment.blueprint.venv_exe
    version = installing.install(python, action.package)
    change = Change("package", f"package {action.package}", None, version, action.why)
    return _done(action, change, action.remedy, f"{action.package} {version} is installed for {python}")


def _free(action: FreeOwned, experiment: Experiment) -> ChangePrepared:
    from harness.repair import leftovers

    if action.what == "processes":
        what, freed = "processes that earlier attempts left behind", leftovers.end_leftovers(experiment)
        text = f"{freed} ended"
    else:
        what, freed = "checkpoints of earlier attempts", leftovers.remove_superseded(experiment)
        text = f"{freed / 2**20:.1f} MiB freed"
    return _done(action, Change("freed", what, None, text, action.why), action.remedy, f"{what}: {text}")


def _raise_limit(action: RaiseLimit, _: Experiment) -> ChangePrepared:
    change = Change("limit", "limit of open files", None, "the highest allowed", action.why)
    return _done(action, change, action.remedy, "the next launch may open all files that are allowed")


def _done(action: Action, change: Change, remedy: str, text: str) -> ChangePrepared:
    return ChangePrepared(action.kind, (replace(change, remedy=remedy),), text)


def _patch(action: PatchCode, experiment: Experiment) -> ChangePrepared:
    from harness.repair import launch_request, patched_code

    patches = [*launch_request.patches(experiment), *experiment.state.draft.patches]
    correction = (action.path, action.old, action.new)
    shown = patched_code.patch(experiment.blueprint, experiment.state.experiment_id, patches, *correction)
    change = Change("code", action.path, action.old, action.new, action.why)
    return ChangePrepared(action.kind, (change,), redact(shown))


def _scalar(value: Any) -> Scalar:
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


_CARRY_OUT: dict[type[Action], Callable[[Any, Experiment], ChangePrepared]] = {
    RenderConfig: _render,
    EditConfig: _edit,
    SetEnvironment: _set_variable,
    InstallPackage: _install,
    FreeOwned: _free,
    RaiseLimit: _raise_limit,
    PatchCode: _patch,
}
