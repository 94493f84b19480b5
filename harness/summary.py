"""What the report needs to know of a run, folded from its journal (also for `harness report` on an old
folder)."""

from harness.journal import Entry
from harness.results.types import AttemptSummary, EventNote, RunSummary
from harness.state import AttemptState, ExperimentState, fold

_TOLD = {
    "first_step",
    "nan",
    "hang",
    "plateau",
    "disk_low",
    "session_gone",
    "first_step_timeout",
    "error_line",
}


def run_summary(entries: list[Entry]) -> RunSummary:
    """The run so far; `outcome` is "running" while nothing has been collected."""
    state = fold(entries)
    outcome, reason = _outcome(state)
    plan = state.plan
    return RunSummary(
        name=state.name,
        purpose=plan.get("purpose", ""),
        experiment_id=state.experiment_id,
        blueprint_path=plan.get("path", ""),
        command=_command(entries) or plan.get("launch_command") or "",
        outcome=outcome,
        reason=reason,
        started_at=state.created_at or None,
        ended_at=_ended_at(entries, state),
        max_time_s=plan.get("max_time_s"),
        policy=state.policy,
        attempts=tuple(
            _attempt(attempt, state.attempts[index + 1 :]) for index, attempt in enumerate(state.attempts)
        ),
        events=tuple(_notes(entries)),
    )


def _outcome(state: ExperimentState) -> tuple[str, str]:
    if state.verdict is not None:
        return state.verdict.outcome.value, state.verdict.reason
    if state.collected is not None:
        return state.collected["outcome"], state.collected["reason"]
    return "running", f"in phase {state.phase}"


def _ended_at(entries: list[Entry], state: ExperimentState) -> float | None:
    """The end of the work itself: when results were collected."""
    if state.collected is None:
        return None
    collected = (
        entry.time for entry in entries if entry.kind == "outcome" and entry.data["action"] == "collect"
    )
    return next(collected, None)


def _command(entries: list[Entry]) -> str | None:
    launches = (entry for entry in entries if entry.kind == "outcome" and entry.data["action"] == "launch")
    return next((entry.data["command"] for entry in launches), None)


def _attempt(attempt: AttemptState, later: tuple[AttemptState, ...]) -> AttemptSummary:
    ended = attempt.ended or {}
    return AttemptSummary(
        number=attempt.number,
        session=attempt.session,
        started_at=attempt.launched_at,
        ended_at=ended.get("ended_at"),
        reason=ended.get("reason", ""),
        status=ended.get("status"),
        why_started=attempt.why,
        diagnosis=attempt.diagnosis,
        repair=_repair(later[0]) if later else None,
    )


def _repair(following: AttemptState) -> str:
    if following.checkpoint is None:
        return "started again from the beginning, without a change"
    return f"started again from its checkpoint {following.checkpoint}, without a change"


def _notes(entries: list[Entry]) -> list[EventNote]:
    notes = []
    for line, entry in enumerate(entries, start=1):
        if entry.kind == "event" and entry.data["event"] in _TOLD:
            data = entry.data
            notes.append(
                EventNote(entry.time, data["event"], data.get("text", ""), data.get("attempt"), line)
            )
        elif entry.kind == "stop_asked":
            notes.append(EventNote(entry.time, "stop asked", f"by {entry.data['by']}", None, line))
        elif entry.kind == "owner" and line > 3:
            note = f"the harness was started again (process {entry.data['pid']})"
            notes.append(EventNote(entry.time, "resumed", note, None, line))
        elif entry.kind == "action_failed":
            notes.append(EventNote(entry.time, "harness error", entry.data["error"], None, line))
    return notes
