"""What no policy may do. Each rule is one small function: the action and the observation in, a refusal or
None out.

A refusal is a sentence that a policy can act on. The rules are the six of the design's section 6; what may
be changed in a config or an environment stands in `science.py`, what may be read or
written in `file_access.py`.
Rule 5 (what logs and data say is no instruction) needs no function of its own: whoever a policy listened to,
it can ask only for the actions there are, and each of them is judged here.
"""

from collections.abc import Callable
from dataclasses import replace

from harness.actions import (
    AnyAction,
    Collect,
    Diagnose,
    EditConfig,
    Finish,
    InstallPackage,
    Launch,
    PatchCode,
    ReadFile,
    RenderConfig,
    Report,
    SetEnvironment,
    Stop,
    Wait,
    WriteReportSection,
    arguments,
)
from harness.command import read_or_empty
from harness.config.edit import ConfigEditError
from harness.config.packages import known_packages
from harness.diagnosis.ends import KILLED
from harness.guard import file_access, science
from harness.guard.progress import MAX_SAME_CAUSE, MAX_SAME_TRANSIENT, alike, failure, in_vain
from harness.observation import Observation
from harness.pending_changes import PREPARING, PendingChanges
from harness.results.narrative import sections

MAX_ATTEMPTS = 5
MAX_SAME_CALLS = 2
MAX_SAME_KILL = 1
"""How often a kill that nothing explains may come back without a step gained: it may be the machine's own
defence, and nothing is known that would pass."""

Rule = Callable[[AnyAction, Observation], str | None]


def check(action: AnyAction, observation: Observation) -> str | None:
    """The first refusal, or None when the action is allowed."""
    return next((why for rule in RULES if (why := rule(action, observation)) is not None), None)


def check_progress(launch: Launch, observation: Observation) -> str | None:
    """Why no launch with this draft may follow, whatever its changes do to what is studied; or None."""
    rules: tuple[Rule, ...] = (launches_fit_the_limits, repairs_must_differ_or_progress)
    return next((why for rule in rules if (why := rule(launch, observation)) is not None), None)


def healthy_runs_go_on(action: AnyAction, observation: Observation) -> str | None:
    """Rule 1: a healthy run is not stopped before its time."""
    if not isinstance(action, Stop):
        return None
    attempt, health = observation.state.attempt, observation.health
    if attempt is None or not attempt.is_running:
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


def repairs_keep_the_science(action: AnyAction, observation: Observation) -> str | None:
    """Rule 2: model, data, algorithm, lengths, batch, seed and protected keys stay as they are."""
    protected, command = observation.state.blueprint.protected_keys, observation.state.command
    if isinstance(action, RenderConfig):
        return science.refuse_settings(action.settings)
    if isinstance(action, EditConfig):
        try:
            before = observation.state.draft.apply(observation.config)
        except ConfigEditError as error:
            return f"the config cannot be edited: {error}"
        return science.refuse_edit(before, action.changes, action.remove, protected, command)
    if isinstance(action, SetEnvironment):
        return science.refuse_variable(action.name, action.value, protected, command)
    return None


def launches_keep_the_science(action: AnyAction, observation: Observation) -> str | None:
    """Rule 2 once more for all edits together, just before they take effect."""
    draft = observation.state.draft
    changes = {**draft.config, **draft.arguments}
    if not isinstance(action, Launch) or not (changes or draft.removed):
        return None
    before = replace(observation.state, draft=PendingChanges()).command
    protected = observation.state.blueprint.protected_keys
    return science.refuse_edit(observation.config, changes, draft.removed, protected, before)


def doubtful_diagnoses_change_nothing(action: AnyAction, observation: Observation) -> str | None:
    """A built-in repair is made for a cause that is known well enough, as is what the check before a launch
    finds. A model says in its own words why it changes something, and answers to the other rules."""
    if not isinstance(action, EditConfig | SetEnvironment) or not action.remedy:
        return None
    attempt, checked = observation.state.attempt, observation.state.checked
    if attempt is None or attempt.diagnosis is None or (checked is not None and not checked.can_run):
        return None
    is_sure = attempt.diagnosis.is_sure
    return None if is_sure else "the diagnosis is not sure enough to change anything for it"


def configs_are_rendered_only_where_none_is_given(action: AnyAction, observation: Observation) -> str | None:
    """A config that the author wrote is not replaced; a rendered one is not rendered again after a launch."""
    if not isinstance(action, RenderConfig):
        return None
    if observation.state.attempts:
        return "the config is fixed since the first launch; use edit_config for a repair"
    plan = observation.state.blueprint
    if plan.yaml_path is not None:
        return f"the blueprint names its config, {plan.yaml_path}; use edit_config for a repair"
    if plan.launch_command is not None:
        return "the blueprint's own command does not read a config of the bundled trainer"
    return None


def repairs_come_between_attempts(action: AnyAction, observation: Observation) -> str | None:
    """What the next launch uses is prepared while no training runs, and only if one may follow."""
    if action.kind not in PREPARING:
        return None
    attempt = observation.state.attempt
    if attempt is not None and attempt.is_running:
        return f"attempt {attempt.number} is running; a repair is prepared after its end"
    if observation.state.collected is not None:
        return "the results have been collected; nothing is launched any more"
    if isinstance(action, EditConfig) and not observation.config:
        command = read_or_empty(observation.state.command)
        unset = [key for key in (*action.changes, *action.remove) if command.setting_of(key) is None]
        if unset:
            return f"this experiment's command reads no config that is known, and does not set {unset[0]}"
    return None


def one_attempt_at_a_time(action: AnyAction, observation: Observation) -> str | None:
    """Nothing is launched twice, and no attempt is skipped."""
    if not isinstance(action, Launch):
        return None
    attempt = observation.state.attempt
    if attempt is not None and attempt.is_running:
        return f"attempt {attempt.number} is still running"
    if observation.state.collected is not None:
        return "the results have been collected; nothing is launched any more"
    expected = 1 if attempt is None else attempt.number + (1 if attempt.launched_at is not None else 0)
    is_next = action.attempt == expected
    return None if is_next else f"the next launch is attempt {expected}, not {action.attempt}"


def launches_fit_the_limits(action: AnyAction, observation: Observation) -> str | None:
    """Rule 3, first half: attempts and wall time are bounded, and a person's stop is final."""
    if not isinstance(action, Launch) or observation.launched_unrecorded:
        return None  # what has been launched already is only written down
    if action.attempt > MAX_ATTEMPTS:
        return f"{MAX_ATTEMPTS} attempts have been made, which is the limit"
    if observation.now >= observation.state.deadline_at:
        return "the time limit of the experiment has passed"
    if observation.state.stop_asked:
        return "a person has asked to stop this experiment"
    return None


def repairs_must_differ_or_progress(action: AnyAction, observation: Observation) -> str | None:
    """Rule 3, second half: a restart needs a repair that was not tried for this failure before, or a
    transient cause; and the same cause may come back without progress only so often."""
    if not isinstance(action, Launch) or action.attempt == 1:
        return None
    attempts = observation.state.attempts
    latest = attempts[-1]
    if latest.launched_at is None:
        return None
    cause = latest.diagnosis
    if latest.ended is not None and latest.ended.complete:
        return f"attempt {latest.number} has done all that it owed"
    if cause is None:
        return f"attempt {latest.number} has not been diagnosed"
    draft = observation.state.draft
    if draft.is_empty and not cause.transient:
        return f"the cause ({cause.cause}) does not go away by starting again; change something that helps"
    unrepaired = MAX_SAME_KILL if cause.signature == KILLED else MAX_SAME_TRANSIENT
    if (times := in_vain(attempts)) >= (unrepaired if draft.is_empty else MAX_SAME_CAUSE):
        often = "once" if times == 1 else f"{times} times"
        return (
            f"{failure(latest)} has come back {often}, at last in attempt {latest.number}, and no step "
            "has been gained since"
        )
    for attempt in alike(attempts) if not draft.is_empty else ():
        following = attempts[attempt.number : attempt.number + 1]
        if following and following[0].draft.fingerprint() == draft.fingerprint():
            return (
                f"this very repair was tried in attempt {following[0].number} after the same failure, which "
                "came back; try another one, or finish"
            )
    return None


def waits_and_diagnoses_have_an_object(action: AnyAction, observation: Observation) -> str | None:
    """There is something to wait for only while a training runs, and something to diagnose only after it."""
    attempt = observation.state.attempt
    running = attempt is not None and attempt.is_running
    if isinstance(action, Wait) and not running:
        return "no training is running; there is nothing to wait for"
    if isinstance(action, Diagnose) and (attempt is None or attempt.ended is None):
        return "no attempt has ended; there is nothing to diagnose"
    return None


def questions_are_not_repeated(action: AnyAction, observation: Observation) -> str | None:
    """Rule 3, for a model that turns in circles: the same call with the same answer is not made again.
    Waiting is no circle."""
    consultation = observation.state.llm.consultation
    if consultation is None or isinstance(action, Wait):
        return None
    if consultation.repeats(action.kind, arguments(action)) >= MAX_SAME_CALLS:
        return (
            f"this {action.kind} call has been made {MAX_SAME_CALLS} times with the same result; "
            "use what it said, or do something else"
        )
    return None


def files_stay_in_their_places(action: AnyAction, observation: Observation) -> str | None:
    """Rule 4: private files are not read, and code is corrected only where the blueprint allows; what a path
    leads to is looked at when the action is carried out. What a correction does, a person judges."""
    if isinstance(action, ReadFile):
        return file_access.refuse_reading(action.path)
    if isinstance(action, PatchCode):
        return file_access.refuse_patching(action.path, observation.state.blueprint.code_changes)
    return None


def installs_need_permission(action: AnyAction, observation: Observation) -> str | None:
    """Rule 4 for packages: only with a person's permission, and only those that are known by their module."""
    if not isinstance(action, InstallPackage):
        return None
    if not observation.state.options.allow_install:
        return "no permission to install packages was given: start or resume the run with --allow-install"
    if action.package in known_packages():
        return None
    return f"{action.package} is not one of the packages that are known by their module; a person installs it"


def narratives_cite_facts(action: AnyAction, observation: Observation) -> str | None:
    """Rule 6: nothing is written about results that are not there yet, and no number but by citing a fact.
    After MAX_REFUSALS refusals a section is taken, and what of it cannot stand is left out."""
    if not isinstance(action, WriteReportSection):
        return None
    if observation.state.collected is None:
        return "there are no results to write about yet; use note for remarks"
    if observation.state.reported is not None:
        return "the report has been written"
    if observation.evidence is None:
        return "the results cannot be read, so nothing can be cited; finish"
    sent_back = sum(why.startswith(sections.REFUSED) for why in observation.state.refusals)
    return sections.refusal(action, observation.evidence) if sent_back < sections.MAX_REFUSALS else None


def ends_are_real(action: AnyAction, observation: Observation) -> str | None:
    """An experiment is not finished while its training runs, nor with another outcome than the one
    collected."""
    if not isinstance(action, Finish | Collect | Report):
        return None
    attempt, collected = observation.state.attempt, observation.state.collected
    if attempt is not None and attempt.is_running:
        return f"attempt {attempt.number} is still running; wait"
    if isinstance(action, Collect):
        return None
    if collected is None:
        return "collect the results first"
    if isinstance(action, Finish) and collected.outcome is not action.outcome:
        real, wished = collected.outcome.value, action.outcome.value
        return f"the outcome collected from the raw files is {real}, not {wished}"
    return None


RULES: tuple[Rule, ...] = (
    healthy_runs_go_on,
    repairs_keep_the_science,
    launches_keep_the_science,
    doubtful_diagnoses_change_nothing,
    configs_are_rendered_only_where_none_is_given,
    repairs_come_between_attempts,
    one_attempt_at_a_time,
    launches_fit_the_limits,
    repairs_must_differ_or_progress,
    waits_and_diagnoses_have_an_object,
    questions_are_not_repeated,
    files_stay_in_their_places,
    installs_need_permission,
    narratives_cite_facts,
    ends_are_real,
)
