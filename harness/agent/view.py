"""What the agent's conversation remembers: a view of the journal, rendered anew for every call.

In: the entries of the journal, the blueprint as issued, configs of attempts (which never change). Out: a
`Request`. Nothing is kept beside the journal, so a kill loses nothing. Secrets are masked where the request
leaves (`providers.model`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness import templating
from harness.actions import OFFERED, MetricsSummary
from harness.agent import excerpts
from harness.agent.look import look
from harness.attempt import AttemptEnd, Diagnosis
from harness.experiment import Experiment
from harness.guard.rules import MAX_ATTEMPTS
from harness.journal import Entry, Event, events, events_of
from harness.journal.model_events import CallRejected, Consult, LlmSettled
from harness.llm_use import Consultation
from harness.providers import conversation
from harness.providers.chat import Request, ToolCall
from harness.providers.conversation import BUDGET_CHARS, Answer, Exchange, exchange, framed, request_of
from harness.repair import apply_changes
from harness.results.narrative.evidence import Evidence
from harness.results.narrative.sections import LONGEST_LISTING, listing
from harness.state import AttemptState, ExperimentState, fold
from harness.wording import duration

LONGEST_BLUEPRINT = 12_000
LONGEST_TABLE = 6_000


def request(experiment: Experiment, consultation: Consultation, evidence: Evidence | None) -> Request:
    """The next request of the open consultation. `evidence`: what a narrative may cite."""
    entries, start = experiment.journal.entries, consultation.since
    opening = _opening(experiment, entries[start - 1], fold(entries[: start - 1]), evidence)
    memory = exchanges(entries[start:], experiment.state.deadline_at)
    system, budget = templating.render("prompts/system.md.j2"), BUDGET_CHARS >> consultation.shrunk
    return request_of(system, OFFERED, opening, memory, budget)


def citable(result_dir: Path, entries: Sequence[Entry]) -> Evidence:
    """What a narrative may cite: the facts as they stood when the results were collected, however much was
    recorded since."""
    from harness.results.narrative.run import evidence_of_run

    end = next((entry.seq for entry in entries if isinstance(entry.event, events.Collected)), len(entries))
    return evidence_of_run(result_dir, list(entries[:end]))


def metrics_now(experiment: Experiment) -> str:
    """The metrics of the running attempt so far, as a table."""
    shown = look(MetricsSummary(), experiment)
    return shown.text or shown.error


def _opening(
    experiment: Experiment, consult: Entry, state: ExperimentState, evidence: Evidence | None
) -> str:
    """What was known when the question was put, and the question."""
    plan = state.blueprint
    blueprint = (experiment.dir / "blueprint.md").read_text(encoding="utf-8", errors="replace")
    notes = [
        framed(noted.text, 600)
        for noted in events_of(experiment.journal.entries[: consult.seq], events.Noted)
    ]
    return templating.render(
        "prompts/context.md.j2",
        name=state.name,
        limit=duration(plan.max_time_s),
        max_attempts=MAX_ATTEMPTS,
        protected=plan.protected_keys,
        code_changes=plan.code_changes,
        blueprint=framed(blueprint, LONGEST_BLUEPRINT),
        attempts=[_attempt(attempt) for attempt in state.attempts],
        notes=notes[-10:],
        question=_question(experiment, consult.event, state, evidence),
    )


def _question(
    experiment: Experiment, consult: Event, state: ExperimentState, evidence: Evidence | None
) -> str:
    assert isinstance(consult, Consult)
    kind, *rest = consult.topic.split(":")
    facts: dict[str, Any] = {"attempt": len(state.attempts), **consult.facts}
    if kind in ("failure", "check", "config", "look"):
        facts["config"] = framed(apply_changes.config_before(experiment, state), conversation.LONGEST_TEXT)
    if kind == "failure" and state.attempt is not None:
        lines = state.attempt.diagnosis.last_lines if state.attempt.diagnosis else ()
        facts["last_lines"] = [framed(f"{line.line}: {line.text}", 400) for line in lines]
    elif kind == "check":
        problems = state.checked.problems if state.checked else ()
        facts["problems"] = [framed(problem, 1000) for problem in problems]
    elif kind == "alarm":
        facts["alarm"] = [framed(sentence, 600) for sentence in facts["alarm"]]
        facts["reason"] = rest[1]
    elif kind == "look":
        facts["metrics"] = framed(facts["metrics"], LONGEST_TABLE)
    elif kind == "results":
        if state.collected is not None:
            reason = framed(state.collected.reason, 600)
            facts |= {"outcome": state.collected.outcome.value, "reason": reason}
        facts["facts"] = framed(listing(evidence) if evidence is not None else "", LONGEST_LISTING)
    return templating.render(f"prompts/{kind}.md.j2", **facts)


def _attempt(attempt: AttemptState) -> dict[str, Any]:
    ended, diagnosis = attempt.ended or AttemptEnd(), attempt.diagnosis or Diagnosis("", None, "")
    end = f"{ended.reason}, exit status {ended.status}" if attempt.ended is not None else ""
    return {
        "number": attempt.number,
        "why": framed(attempt.why, 600),
        "changes": [framed(change.in_words, 600) for change in attempt.draft.changes],
        "end": end,
        "rows": ended.rows,
        "reached": ended.reached,
        "cause": framed(diagnosis.cause, 1000),
        "signature": diagnosis.signature,
        "evidence": [framed(f"{line.file}:{line.line}: {line.text}", 400) for line in diagnosis.evidence],
    }


def exchanges(entries: Sequence[Entry], deadline_at: float) -> list[Exchange]:
    """Each settled call of a consultation, with the outcome, refusal or rejection that answered it and the
    events that came meanwhile."""
    starts = [index for index, entry in enumerate(entries) if isinstance(entry.event, LlmSettled)]
    ends = [*starts, len(entries)][1:]
    spans = [entries[start:end] for start, end in zip(starts, ends, strict=True)]
    return [_exchange(span, number, deadline_at) for number, span in enumerate(spans, start=1)]


def _exchange(span: Sequence[Entry], number: int, deadline_at: float) -> Exchange:
    """One call and what followed it up to the next one."""
    reply = span[0].event
    assert isinstance(reply, LlmSettled)
    call = ToolCall(**reply.calls[0]) if reply.calls else None
    answer = next((entry for entry in span if isinstance(entry.event, _ANSWERS)), None)
    if answer is None:
        return exchange(reply.text, call, None)
    return exchange(
        reply.text,
        call,
        _answer(answer.event),
        source=str(getattr(answer.event, "action", "harness")),
        meanwhile=[
            framed(f"{seen.event}: {seen.text}", 300) for seen in events_of(span, events.AttemptEvent)
        ],
        left=duration(max(0.0, deadline_at - answer.time)),
        number=number,
    )


_ANSWERS = (events.ActionResult, events.Refused, CallRejected)


def _answer(event: Event) -> Answer:
    """What the model is shown of what its call led to."""
    if isinstance(event, events.Refused):
        return Answer(f"refused: {event.why}", is_error=True)
    if isinstance(event, CallRejected):
        return Answer(event.why, is_error=True)
    if isinstance(event, events.Checked):
        lines = ["can run" if event.can_run else "cannot run"]
        lines += [f"problem: {text}" for text in event.problems] + [
            f"note: {text}" for text in event.warnings
        ]
        return Answer("\n".join(lines), is_error=not event.can_run)
    if isinstance(event, events.Noted | events.SectionWritten):
        left_out = ", ".join(getattr(event, "left_out", ()))
        return Answer(f"kept without {left_out}" if left_out else "kept")
    if isinstance(event, events.Diagnosed):
        return Answer(event.diagnosis.cause)
    if error := str(getattr(event, "error", "")):
        return Answer(error, is_error=True)
    text = str(getattr(event, "text", "") or getattr(event, "detail", "") or "done")
    return Answer(
        excerpts.fitted("", excerpts.of_text(text)) if isinstance(event, events.ChangePrepared) else text
    )
