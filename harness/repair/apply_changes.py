"""What the next launch will use, and the actions that change it: config, environment, code, and what is done
beside (`installing`, `leftovers`).

Of the first three nothing is written to disk but a private copy of code that is patched: the changes live in
the journal, and the launch makes its config of them. Every action here can be repeated after a kill. A
built-in repair after which the check would refuse the launch is not made: the next one is tried.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from harness import actions, environment, launching
from harness.blueprint.scaffold import ScaffoldError
from harness.command import CommandError, overlaid, read_or_empty, with_values
from harness.config import edit as config_edit
from harness.config.edit import ConfigEditError, Scalar
from harness.config.reader import UnreadableConfigError
from harness.experiment import Experiment
from harness.journal.events import ChangePrepared, Checked
from harness.pending_changes import Change, PendingChanges, diff, with_outcome
from harness.redaction import redact
from harness.repair import containment, installing, leftovers, patched_code
from harness.state import ExperimentState
from monitors.files import AttemptFiles
from monitors.processes import uptime

UNDOABLE = (CommandError, ConfigEditError, ScaffoldError, installing.InstallError, patched_code.PatchError)
"""What says why a preparing action cannot be carried out."""
_NOTHING_CHANGES = "nothing would change: these values stand there already, or the keys do not exist"


def config_before(experiment: Experiment, state: ExperimentState | None = None) -> str:
    """The config that the next launch starts from, without the changes of the draft; "" when there is none.
    `state`: an earlier one, to see it as it was then."""
    state = state or experiment.state
    launched = [attempt for attempt in state.attempts if attempt.launched_at is not None]
    previous = experiment.attempt_files(launched[-1].number) if launched else None
    try:
        return launching.base_config(experiment.blueprint, previous, state.draft.settings) or ""
    except (OSError, UnreadableConfigError):
        return ""  # the check says what is wrong with it


def config_after(experiment: Experiment, draft: PendingChanges | None = None) -> str | None:
    """The config that the next launch would use, None when nothing is changed in the blueprint's own.
    `draft`: another one than that of the state."""
    draft = draft or experiment.state.draft
    if draft.settings is None and not draft.config and not draft.removed:
        return None
    return draft.apply(config_before(experiment))


def next_config(experiment: Experiment) -> str:
    """The config that the next launch uses, "" when there is none."""
    return config_after(experiment) or config_before(experiment)


def check(experiment: Experiment, draft: PendingChanges) -> Checked:
    """What the check before a launch says of the next one, were this its draft."""
    from harness import doctor

    state = experiment.state
    repairs = {**state.environment, **draft.environment}
    variables = environment.of_training(experiment.dir, state.options.hidden)
    config = config_after(experiment, draft)
    then = replace(state, draft=draft)
    plan = replace(experiment.blueprint, launch_command=then.command or None)
    code = patched_code.used(then)
    moved = code.copy.moved if code is not None else None
    findings = doctor.examine(plan, experiment.dir, config, repairs, variables, moved)
    return doctor.outcome(findings)


def launch_request(
    experiment: Experiment, action: actions.Launch, previous: AttemptFiles | None
) -> launching.LaunchRequest:
    """What this launch uses; where code was ever patched, the training runs in the private copy.

    Raises PatchError when that copy has to be made anew and cannot be, or may not run here.
    """
    state = experiment.state
    assert state.attempt is not None
    before = replace(state, attempts=state.attempts[:-1], draft=PendingChanges())
    environment.launched(experiment.dir, action.attempt, state.options.hidden)
    files = experiment.attempt_files(action.attempt)
    request = request_of(experiment, files, state.attempt.draft, before.command, previous)
    return replace(request, session=action.session, attempt_id=action.attempt_id)


def request_of(
    experiment: Experiment,
    files: AttemptFiles,
    draft: PendingChanges,
    command_before: str,
    previous: AttemptFiles | None,
) -> launching.LaunchRequest:
    """The request of a launch into `files` that makes these changes, as yet without a name. Raises
    PatchError."""
    plan, state = experiment.blueprint, experiment.state
    variables = environment.of_training(experiment.dir, state.options.hidden)
    plain = launching.LaunchRequest(
        session="",
        attempt_id="",
        deadline_uptime=uptime() + state.deadline_at - experiment.clock(),
        codebase=plan.codebase_dir,
        variables=variables,
        previous=previous,
        draft=draft,
        environment=state.environment,
        arguments=state.arguments,
        code_diff=diff(command_before, state.command, "command") if draft.arguments else "",
        limits=state.limits,
    )
    if not state.patches:
        return plain
    if why := containment.refuse(state.options.sandbox):
        raise patched_code.PatchError(why)
    code, done_to_it = patched_code.for_launch(state)

    def contain(command: str) -> str:
        policy = containment.write_policy(experiment, code, files, variables)
        return containment.contained(command, policy) if policy else command

    return replace(
        plain,
        codebase=code.copy.codebase,
        environment={**code.variables(state.blueprint.venv_exe, variables), **state.environment},
        code_diff=plain.code_diff + code.diffs(draft.patches) + done_to_it,
        relocate=code.relocated,
        contain=contain,
    )


# --- the actions --------------------------------------------------------------------------------------------


def prepare(
    action: actions.Action,
    experiment: Experiment,
    check: Callable[[Experiment, PendingChanges], Checked] = check,
) -> ChangePrepared:
    """Carry out one preparing action."""
    try:
        done = _CARRY_OUT[type(action)](action, experiment)
    except UNDOABLE as error:
        return ChangePrepared(action.kind, error=redact(str(error)))
    if done.error or not isinstance(action, actions.EditConfig | actions.SetEnvironment) or not action.remedy:
        return done
    draft = with_outcome(experiment.state.draft, action.kind, actions.arguments(action), done.changes)
    checked = check(experiment, draft)
    pairs = zip(checked.problems, checked.causes, strict=False)
    refused = [problem for problem, cause in pairs if not cause.remedies]  # others another repair may solve
    if not refused:
        return done
    return ChangePrepared(action.kind, error=f"the check refuses what it leads to: {'; '.join(refused)}")


def preview(action: actions.Action, experiment: Experiment) -> str:
    """What an action would change in code, config or command, as a diff; "" for what has none. Raises one of
    `UNDOABLE`."""
    if isinstance(action, actions.EditConfig):
        return edited(action, experiment)[1]
    if not isinstance(action, actions.PatchCode):
        return ""
    _refuse_secret(action.new, experiment)
    return patched_code.preview(experiment.state, action.path, action.old, action.new)


def _refuse_secret(new: str, experiment: Experiment) -> None:
    if what := environment.secret_in(new, experiment.dir):
        raise patched_code.PatchError(
            f"the new text holds {what}, which code must not: read it from its variable instead"
        )


def _render(action: actions.RenderConfig, experiment: Experiment) -> ChangePrepared:
    text = launching.base_config(experiment.blueprint, None, action.settings) or ""
    changes = [Change("config", key, None, value, action.why) for key, value in action.settings.items()]
    return ChangePrepared(action.kind, tuple(changes), redact(text))


def _edit(action: actions.EditConfig, experiment: Experiment) -> ChangePrepared:
    changes, shown = edited(action, experiment)
    return ChangePrepared(action.kind, changes, redact(shown), error="" if changes else _NOTHING_CHANGES)


def edited(
    action: actions.EditConfig, experiment: Experiment, allowed_by: str = ""
) -> tuple[tuple[Change, ...], str]:
    """What the edit changes in the config, and in the launch command where that sets the key itself, with a
    diff; nothing where both are so already. Raises CommandError, ConfigEditError."""
    state, command = experiment.state, experiment.state.command
    given_now = read_or_empty(command)
    inside = {k: new for k, new in action.changes.items() if k.startswith("-") or given_now.setting_of(k)}
    outside = {key: new for key, new in action.changes.items() if key not in inside}
    before = state.draft.apply(config_before(experiment))
    after = config_edit.edit(before, outside, action.remove)
    command_after = with_values(command, inside)
    if after == before and command_after == command:
        return (), ""
    old, given = config_edit.load(before), overlaid(dict.fromkeys(inside), command)

    def was(key: str) -> Scalar:
        value = config_edit.get(old, key)
        return value if isinstance(value, str | int | float | bool) or value is None else str(value)

    found = [
        *(("config", key, was(key), value) for key, value in outside.items() if was(key) != value),
        *(("removed", key, was(key), None) for key in action.remove),
        *(("argument", key, given[key], value) for key, value in inside.items()),
    ]
    changes = tuple(Change(*each, action.why, action.remedy, allowed_by) for each in found)
    return changes, diff(before, after, "config.yaml") + diff(command, command_after, "command")


def _set_variable(action: actions.SetEnvironment, experiment: Experiment) -> ChangePrepared:
    old = experiment.state.environment.get(action.name)
    if old == action.value:
        return ChangePrepared(action.kind, error=f"{action.name} is set to that already")
    change = Change("environment", action.name, old, action.value, action.why, action.remedy)
    told = f"{action.name}={action.value} will be set for the next launch"
    return ChangePrepared(action.kind, (change,), told)


def _install(action: actions.InstallPackage, experiment: Experiment) -> ChangePrepared:
    python = experiment.blueprint.venv_exe
    version = installing.install(python, action.package)
    change = Change("package", f"package {action.package}", None, version, action.why, action.remedy)
    return ChangePrepared(action.kind, (change,), f"{action.package} {version} is installed for {python}")


def _free(action: actions.FreeOwned, experiment: Experiment) -> ChangePrepared:
    freed = leftovers.free(experiment, action.what)
    what, text = "checkpoints of earlier attempts", f"{freed / 2**20:.1f} MiB freed"
    if action.what == "processes":
        what, text = "processes that earlier attempts left behind", f"{freed} ended"
    change = Change("freed", what, None, text, action.why, action.remedy)
    return ChangePrepared(action.kind, (change,), f"{what}: {text}")


def _raise_limit(action: actions.RaiseLimit, _: Experiment) -> ChangePrepared:
    change = Change("limit", "limit of open files", None, "the highest allowed", action.why, action.remedy)
    return ChangePrepared(action.kind, (change,), "the next launch may open all files that are allowed")


def _patch(action: actions.PatchCode, experiment: Experiment) -> ChangePrepared:
    _refuse_secret(action.new, experiment)
    shown = patched_code.patch(experiment.state, action.path, action.old, action.new)
    change = Change("code", action.path, action.old, action.new, action.why)
    return ChangePrepared(action.kind, (change,), redact(shown))


_CARRY_OUT: dict[type[actions.Action], Callable[[Any, Experiment], ChangePrepared]] = {
    actions.RenderConfig: _render,
    actions.EditConfig: _edit,
    actions.EditArguments: _edit,
    actions.SetEnvironment: _set_variable,
    actions.InstallPackage: _install,
    actions.FreeOwned: _free,
    actions.RaiseLimit: _raise_limit,
    actions.PatchCode: _patch,
}
