"""What no policy may do. Each rule is one small function: the action and the observation in, a refusal or
None out.

A refusal is a sentence that a policy can act on. The rules are the six of the design's section 6; what may
be changed in a config stands in `science.py`, in an environment in `variables.py`, what may be read or
written in `file_access.py`.
Rule 5 (what logs and data say is no instruction) needs no function of its own: whoever a policy listened to,
it can ask only for the actions there are, and each of them is judged here.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from harness import actions
from harness.attempt import KILLED, failure_of
from harness.command import read_or_empty
from harness.config.edit import ConfigEditError
from harness.config.packages import known_packages
from harness.guard import file_access, science, variables
from harness.guard.progress import MAX_SAME_CAUSE, MAX_SAME_TRANSIENT, alike, in_vain
from harness.observation import Observation
from harness.pending_changes import PREPARING
from harness.results.narrative import sections

MAX_ATTEMPTS = 5
MAX_SAME_CALLS = 2
MAX_QUESTIONS = 3
MAX_SMOKE_RUNS = 10
MAX_SAME_KILL = 1
"""How often a kill that nothing explains may come back without a step gained: it may be the machine's own
defence, and nothing is known that would pass."""


def check(action: actions.Action, observation: Observation) -> str | None:
    """The first refusal, or None when the action is allowed."""
    refused = (rule(action, observation) for kind, rule in RULES if isinstance(action, kind))
    return next((why for why in refused if why is not None), None)


def check_progress(launch: actions.Launch, observation: Observation) -> str | None:
    """Why no launch with this draft may follow, whatever its changes do to what is studied; or None."""
    refused = launches_fit_the_limits(launch, observation)
    return refused or repairs_must_differ_or_progress(launch, observation)


def healthy_runs_go_on(action: actions.Stop, observation: Observation) -> str | None:
    """Rule 1: a healthy run is not stopped before its time."""
    health = observation.health
    if not _running(observation):
        return "there is no running attempt to stop"
    if action.why == "person":
        return None if observation.state.stop_asked else "no person has asked for a stop"
    if action.why == "first_step_timeout":
        return None if observation.first_step_overdue else "the first step is not overdue"
    if action.why == "plateau":
        if health.plateau is None:
            return "validation has not been flat for several evaluations; wait"
        return None if health.second_half else "the run is still in its first half; wait"
    if health.fatal:
        return None
    return "the attempt is running and nothing shows that it cannot recover; wait for its end or its deadline"


def healthy_runs_are_not_given_up(lives: bool, overdue: bool) -> str | None:
    """Rule 1 where an attempt has left no exit record: while its processes live, only its deadline ends
    it, whatever its files say."""
    return "its processes live, and its deadline is not over" if lives and not overdue else None


def edits_keep_the_science(action: actions.EditConfig, observation: Observation) -> str | None:
    """Rule 2: model, data, algorithm, lengths, batch, seed and protected keys stay as they are."""
    state = observation.state
    try:
        before = state.draft.apply(observation.config)
    except ConfigEditError as error:
        return f"the config cannot be edited: {error}"
    return science.refuse_edit(
        before, action.changes, action.remove, state.blueprint.protected_keys, state.command
    )


def variables_keep_the_science(action: actions.SetEnvironment, observation: Observation) -> str | None:
    """Rule 2 for the environment."""
    state = observation.state
    return variables.refuse(action.name, action.value, state.blueprint.protected_keys, state.command)


def launches_keep_the_science(action: actions.Launch, observation: Observation) -> str | None:
    """Rule 2 once more for all edits together, just before they take effect."""
    draft, protected = observation.state.draft, observation.state.blueprint.protected_keys
    allowed = draft.decided_by_a_person
    decided = {**allowed.config, **allowed.arguments}
    changes = {key: new for key, new in {**draft.config, **draft.arguments}.items() if key not in decided}
    if not changes and not draft.removed:
        return None
    before = replace(observation.state, draft=allowed)
    return science.refuse_edit(
        allowed.apply(observation.config), changes, draft.removed, protected, before.command
    )


def doubtful_diagnoses_change_nothing(
    action: actions.EditConfig | actions.SetEnvironment, observation: Observation
) -> str | None:
    """A built-in repair is made for a cause that is known well enough, as is what the check before a launch
    finds. A model says in its own words why it changes something, and answers to the other rules."""
    attempt, checked = observation.state.attempt, observation.state.checked
    is_about_the_check = checked is not None and not checked.can_run
    if not action.remedy or attempt is None or attempt.diagnosis is None or is_about_the_check:
        return None
    is_sure = attempt.diagnosis.is_sure
    return None if is_sure else "the diagnosis is not sure enough to change anything for it"


def configs_are_rendered_only_where_none_is_given(
    action: actions.RenderConfig, observation: Observation
) -> str | None:
    """A config that the author wrote is not replaced; a rendered one is not rendered again after a launch,
    and keeps rule 2."""
    plan = observation.state.blueprint
    if observation.state.attempts:
        return "the config is fixed since the first launch; use edit_config for a repair"
    if plan.yaml_path is not None:
        return f"the blueprint names its config, {plan.yaml_path}; use edit_config for a repair"
    if plan.launch_command is not None:
        return "the blueprint's own command does not read a config of the bundled trainer"
    return science.refuse_settings(action.settings)


def one_attempt_at_a_time(action: actions.Action, observation: Observation) -> str | None:
    """While a training runs, or where no launch may follow, nothing is prepared, tried or launched."""
    is_repair = action.kind in PREPARING
    if not is_repair and not isinstance(action, actions.Launch | actions.SmokeRun):
        return None
    if running := _running(observation):
        return f"{running}; a repair is prepared after its end" if is_repair else running
    if observation.state.collected is not None:
        return "the results have been collected; nothing is launched any more"
    return None


def edits_have_a_place(
    action: actions.EditConfig | actions.AskPerson, observation: Observation
) -> str | None:
    """A key is edited in a config that the command reads, or in the command itself."""
    if observation.config:
        return None
    command = read_or_empty(observation.state.command)
    keys = (*action.changes, *(action.remove if isinstance(action, actions.EditConfig) else ()))
    unset = [key for key in keys if command.setting_of(key) is None and not key.startswith("-")]
    if not unset:
        return None
    return f"no config of this experiment is known, and its command does not set {unset[0]} either"


def questions_to_people_are_few(action: actions.AskPerson, observation: Observation) -> str | None:
    """A person is asked where one wants to be, not twice the same, and before the results are there."""
    state = observation.state
    if state.options.answer_within_s == 0:
        return "nobody is to be asked (--answer-within never); say in a note what a person should decide"
    if state.collected is not None:
        return "the results have been collected; say in the report what a person should decide"
    if len(state.questions) >= MAX_QUESTIONS:
        return f"{MAX_QUESTIONS} questions wait for an answer already; wait"
    if any(asked.question == action.question for asked in state.questions.values()):
        return "this was asked already and waits for an answer; wait, or try something else"
    return None


def attempts_are_counted(action: actions.Launch, observation: Observation) -> str | None:
    """Nothing is launched twice, and no attempt is skipped."""
    attempt = observation.state.attempt
    expected = 1 if attempt is None else attempt.number + (1 if attempt.launched_at is not None else 0)
    is_next = action.attempt == expected
    return None if is_next else f"the next launch is attempt {expected}, not {action.attempt}"


def launches_fit_the_limits(action: actions.Launch, observation: Observation) -> str | None:
    """Rule 3, first half: attempts and wall time are bounded, and a person's stop is final."""
    if observation.launched_unrecorded:
        return None  # what has been launched already is only written down
    if action.attempt > MAX_ATTEMPTS:
        return f"{MAX_ATTEMPTS} attempts have been made, which is the limit"
    if observation.now >= observation.state.deadline_at:
        return "the time limit of the experiment has passed"
    return "a person has asked to stop this experiment" if observation.state.stop_asked else None


def repairs_must_differ_or_progress(action: actions.Launch, observation: Observation) -> str | None:
    """Rule 3, second half: a restart needs a repair that was not tried for this failure before, or a
    transient cause; and the same cause may come back without progress only so often."""
    attempts, draft = observation.state.attempts, observation.state.draft
    if action.attempt == 1 or attempts[-1].launched_at is None:
        return None
    latest = attempts[-1]
    cause = latest.diagnosis
    if latest.ended is not None and latest.ended.complete:
        return f"attempt {latest.number} has done all that it owed"
    if cause is None:
        return f"attempt {latest.number} has not been diagnosed"
    if draft.is_empty and not cause.transient:
        return f"the cause ({cause.cause}) does not go away by starting again; change something that helps"
    unrepaired = MAX_SAME_KILL if cause.signature == KILLED else MAX_SAME_TRANSIENT
    if (times := in_vain(attempts)) >= (unrepaired if draft.is_empty else MAX_SAME_CAUSE):
        often = "once" if times == 1 else f"{times} times"
        return (
            f"{failure_of(cause)} has come back {often}, at last in attempt {latest.number}, and no step "
            "has been gained since"
        )
    for attempt in alike(attempts)[:-1] if not draft.is_empty else ():
        following = attempts[attempt.number]
        if following.draft.fingerprint() == draft.fingerprint():
            return (
                f"this very repair was tried in attempt {following.number} after the same failure, which "
                "came back; try another one, or finish"
            )
    return None


def smoke_runs_are_few(action: actions.SmokeRun, observation: Observation) -> str | None:
    """A smoke run has a budget of its own."""
    state = observation.state
    if state.smoked is not None:
        return "just this was tried already; launch it, or change something"
    if state.smoke_runs >= MAX_SMOKE_RUNS:
        return f"{MAX_SMOKE_RUNS} smoke runs have been made, which is the limit"
    return "the time limit of the experiment has passed" if observation.now >= state.deadline_at else None


def waits_have_an_object(action: actions.Wait, observation: Observation) -> str | None:
    """There is something to wait for only while a training runs or a person is asked."""
    if _running(observation) or observation.state.questions:
        return None
    return "no training is running, and nobody was asked; there is nothing to wait for"


def diagnoses_have_an_object(action: actions.Diagnose, observation: Observation) -> str | None:
    """There is something to diagnose only after an attempt."""
    attempt = observation.state.attempt
    has_ended = attempt is not None and attempt.ended is not None
    return None if has_ended else "no attempt has ended; there is nothing to diagnose"


def questions_are_not_repeated(action: actions.Action, observation: Observation) -> str | None:
    """Rule 3, for a model that turns in circles: the same call with the same answer is not made again.
    Waiting is no circle."""
    consultation = observation.state.llm.consultation
    if consultation is None or isinstance(action, actions.Wait):
        return None
    if consultation.repeats(action.kind, actions.arguments(action)) < MAX_SAME_CALLS:
        return None
    return (
        f"this {action.kind} call has been made {MAX_SAME_CALLS} times with the same result; "
        "use what it said, or do something else"
    )


def private_files_are_not_read(
    action: actions.ReadFile | actions.ListFiles | actions.ReadInstalled, observation: Observation
) -> str | None:
    """Rule 4; what a path leads to is looked at when the action is carried out."""
    path = action.file or "." if isinstance(action, actions.ReadInstalled) else action.path
    return file_access.refuse_reading(path)


def code_changes_where_the_author_allows(action: actions.PatchCode, observation: Observation) -> str | None:
    """Rule 4 for code. What a correction does, a person judges."""
    return file_access.refuse_patching(action.path, observation.state.blueprint.code_changes)


def installs_need_permission(action: actions.InstallPackage, observation: Observation) -> str | None:
    """Rule 4 for packages: only with a person's permission, and only those that are known by their module."""
    if not observation.state.options.allow_install:
        return "no permission to install packages was given: start or resume the run with --allow-install"
    if action.package in known_packages():
        return None
    return f"{action.package} is not one of the packages that are known by their module; a person installs it"


def narratives_cite_facts(action: actions.WriteSections, observation: Observation) -> str | None:
    """Rule 6: nothing is written about results that are not there yet, and no number but by citing a fact.
    After MAX_REFUSALS refusals sections are taken, and what of them cannot stand is left out."""
    if observation.state.collected is None:
        return "there are no results to write about yet; use note for remarks"
    if observation.evidence is None:
        return "the results cannot be read, so nothing can be cited; finish"
    sent_back = sum(why.startswith(sections.REFUSED) for why in observation.state.refusals)
    if sent_back >= sections.MAX_REFUSALS:
        return None
    return sections.refusal(action.sections, observation.evidence)


def proposals_follow_results(action: actions.ProposeNext, observation: Observation) -> str | None:
    """Another experiment is proposed from results."""
    if observation.state.collected is None:
        return "there are no results to go on from yet; use note for remarks"
    return None


def ends_are_real(
    action: actions.Finish | actions.Collect | actions.Report, observation: Observation
) -> str | None:
    """An experiment is not finished while its training runs, nor with another outcome than the one
    collected."""
    collected = observation.state.collected
    if running := _running(observation):
        return f"{running}; wait"
    if collected is None:
        return None if isinstance(action, actions.Collect) else "collect the results first"
    if isinstance(action, actions.Finish) and collected.outcome is not action.outcome:
        real, wished = collected.outcome.value, action.outcome.value
        return f"the outcome collected from the raw files is {real}, not {wished}"
    return None


def _running(observation: Observation) -> str | None:
    """`attempt 2 is still running`, where one is."""
    attempt = observation.state.attempt
    return f"attempt {attempt.number} is still running" if attempt and attempt.is_running else None


def causes_are_named_where_they_are_open(action: actions.NameCause, observation: Observation) -> str | None:
    """What a signature knows exactly, no model names otherwise."""
    attempt = observation.state.attempt
    found = attempt.diagnosis if attempt is not None else None
    return None if found is not None and found.is_open else "the cause of this failure is known"


RULES: tuple[tuple[Any, Callable[[Any, Observation], str | None]], ...] = (
    (actions.Stop, healthy_runs_go_on),
    (actions.Action, one_attempt_at_a_time),
    (actions.EditConfig | actions.AskPerson, edits_have_a_place),
    (actions.AskPerson, questions_to_people_are_few),
    (actions.Launch, attempts_are_counted),
    (actions.EditConfig | actions.SetEnvironment, doubtful_diagnoses_change_nothing),
    (actions.RenderConfig, configs_are_rendered_only_where_none_is_given),
    (actions.EditConfig, edits_keep_the_science),
    (actions.SetEnvironment, variables_keep_the_science),
    (actions.Launch, launches_keep_the_science),
    (actions.Launch, launches_fit_the_limits),
    (actions.Launch, repairs_must_differ_or_progress),
    (actions.SmokeRun, smoke_runs_are_few),
    (actions.Wait, waits_have_an_object),
    (actions.Diagnose, diagnoses_have_an_object),
    (actions.NameCause, causes_are_named_where_they_are_open),
    (actions.Action, questions_are_not_repeated),
    (actions.ReadFile | actions.ListFiles | actions.ReadInstalled, private_files_are_not_read),
    (actions.PatchCode, code_changes_where_the_author_allows),
    (actions.InstallPackage, installs_need_permission),
    (actions.WriteSections, narratives_cite_facts),
    (actions.ProposeNext, proposals_follow_results),
    (actions.Finish | actions.Collect | actions.Report, ends_are_real),
)
"""Each rule with the actions that it judges: first what asks whether there is anything to act on, then what
is known of it, then what is studied, so that a refusal names what really decided."""
