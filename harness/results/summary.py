"""What the report needs to know of a run, folded from its journal (also for `harness report` on an old
folder)."""

from harness.attempt import AttemptEnd
from harness.journal import Entry, events_of
from harness.journal.events import Collected, Launched
from harness.results import deviations, journal_notes
from harness.results.model_use import model_use
from harness.results.types import AttemptSummary, RunSummary
from harness.state import AttemptState, ExperimentState, fold


def run_summary(entries: list[Entry]) -> RunSummary:
    """The run so far; `outcome` is "running" while nothing has been collected."""
    state = fold(entries)
    outcome, reason = _outcome(state)
    plan = state.blueprint
    return RunSummary(
        name=state.name,
        purpose=plan.purpose,
        experiment_id=state.experiment_id,
        blueprint_path=str(plan.path),
        command=_command(entries) or plan.launch_command or "",
        outcome=outcome,
        reason=reason,
        started_at=state.created_at or None,
        ended_at=_ended_at(entries, state),
        max_time_s=plan.max_time_s,
        policy=state.options.policy,
        attempts=tuple(
            _attempt(attempt, state.attempts[index + 1 :]) for index, attempt in enumerate(state.attempts)
        ),
        events=journal_notes.events(entries),
        remarks=journal_notes.remarks(entries),
        unused=deviations.net(state.draft.changes),
        narrative=state.narrative,
        llm=model_use(entries, state.llm),
    )


def _outcome(state: ExperimentState) -> tuple[str, str]:
    if state.verdict is not None:
        return state.verdict.outcome.value, state.verdict.reason
    if state.collected is not None:
        return state.collected.outcome.value, state.collected.reason
    return "running", f"in phase {state.phase}"


def _ended_at(entries: list[Entry], state: ExperimentState) -> float | None:
    """The end of the work itself: when results were collected."""
    if state.collected is None:
        return None
    return next((entry.time for entry in entries if isinstance(entry.event, Collected)), None)


def _command(entries: list[Entry]) -> str | None:
    return next((launched.command for launched in events_of(entries, Launched)), None)


def _attempt(attempt: AttemptState, later: tuple[AttemptState, ...]) -> AttemptSummary:
    ended = attempt.ended or AttemptEnd()
    return AttemptSummary(
        number=attempt.number,
        session=attempt.session,
        started_at=attempt.launched_at,
        reason=ended.reason,
        status=ended.status,
        why_started=attempt.why,
        diagnosis=attempt.diagnosis,
        repair=_repair(later[0]) if later else None,
        changes=deviations.deviating(attempt.draft),
        settings=deviations.chosen(attempt.draft),
    )


def _repair(following: AttemptState) -> str:
    """What was done to get to the next attempt."""
    start = "the beginning" if following.checkpoint is None else f"its checkpoint {following.checkpoint}"
    changes = deviations.net(following.draft.changes)
    changed = f"with {deviations.sentence(changes)}" if changes else "without a change"
    return f"started again from {start}, {changed}"
