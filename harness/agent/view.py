"""What the agent's conversation remembers: a view of the journal, rendered anew for every call.

In: the entries of the journal, the blueprint as issued, configs of attempts (which never change). Out: a
`Request`. Nothing is kept beside the journal, so a kill loses nothing. Secrets are masked where the request
leaves (`providers.model`).
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from harness import templating
from harness.actions import MetricsSummary
from harness.agent import excerpts, model_cause
from harness.agent.look import look
from harness.agent.questions import tools
from harness.attempt import AttemptEnd, Diagnosis
from harness.experiment import Experiment
from harness.guard.rules import MAX_ATTEMPTS
from harness.journal import Entry, Event, events, events_of
from harness.journal.model_events import CallRejected, Consult, LlmSettled
from harness.llm_use import Consultation
from harness.providers import conversation
from harness.providers.chat import Request, ToolCall
from harness.providers.conversation import (
    BUDGET_CHARS,
    MAX_TROUBLES,
    Answer,
    Exchange,
    exchange,
    framed,
    request_of,
)
from harness.providers.cost import DEFAULT_LIMIT_CALLS
from harness.repair import apply_changes
from harness.results.narrative.evidence import LONGEST_LISTING, Evidence, listing
from harness.state import AttemptState, ExperimentState, fold
from harness.wording import duration

LONGEST_BLUEPRINT = 12_000
MAX_CALLS = 24  # of one consultation
LONGEST_TABLE = 6_000


def request(experiment: Experiment, consultation: Consultation, evidence: Evidence | None) -> Request:
    """The next request of the open consultation. `evidence`: what a narrative may cite."""
    entries, start = experiment.journal.entries, consultation.since
    opening = _opening(experiment, entries[start - 1], fold(entries[: start - 1]), evidence)
    state, kind = experiment.state, consultation.kind
    most = DEFAULT_LIMIT_CALLS if state.options.max_calls is None else state.options.max_calls
    memory = exchanges(entries[start:], state.deadline_at, most)
    system = templating.render("prompts/system.md.j2", kind=kind)
    return request_of(system, tools(kind, state), opening, memory, BUDGET_CHARS >> consultation.shrunk)


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
    before = experiment.journal.entries[: consult.seq]
    notes = [framed(noted.text, 600) for noted in events_of(before, events.Noted)]
    said = (
        each.event for each in before if isinstance(each.event, events.PersonSaid | events.PersonAnswered)
    )
    return templating.render(
        "prompts/context.md.j2",
        name=state.name,
        limit=duration(plan.max_time_s),
        max_attempts=MAX_ATTEMPTS,
        protected=plan.protected_keys,
        patchable=plan.patchable,
        blueprint=framed(blueprint, LONGEST_BLUEPRINT),
        attempts=[_attempt(attempt) for attempt in state.attempts],
        notes=notes[-10:],
        said=[_happened(each) for each in said][-10:],
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
        found = state.attempt.diagnosis or Diagnosis("", None, "")
        lines = [line for line in found.last_lines if line not in found.evidence]
        facts["last_lines"] = [framed(f"{line.line}: {line.text}", 400) for line in lines]
        facts["families"] = model_cause.short_families() if found.is_open else {}
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


def exchanges(
    entries: Sequence[Entry], deadline_at: float, most_calls: int = DEFAULT_LIMIT_CALLS
) -> list[Exchange]:
    """Each settled call of a consultation, with the outcome, refusal or rejection that answered it and the
    events that came meanwhile; a reply of several calls as if they had come one by one. `most_calls`: of the
    run."""
    starts = [index for index, entry in enumerate(entries) if isinstance(entry.event, LlmSettled)]
    found: list[Exchange] = []
    troubles = 0
    for number, (start, end) in enumerate(pairwise([*starts, len(entries)]), start=1):
        reply, span = entries[start].event, entries[start:end]
        assert isinstance(reply, LlmSettled)
        calls_left = max(0, min(MAX_CALLS - number, most_calls - reply.call))
        then = deadline_at - sum(
            each.event.waited_s for each in entries[end:] if isinstance(each.event, _LATER)
        )
        calls = [ToolCall(**call) for call in reply.calls]
        answers = [entry for entry in span if isinstance(entry.event, _ANSWERS)][: max(1, len(calls))]
        beside = [entry for entry in span if entry not in answers]
        if not answers:
            found.append(exchange(reply.text, calls[0] if calls else None, None))
        for place, entry in enumerate(answers):
            troubles = 0 if isinstance(entry.event, events.ActionResult) else troubles + 1
            words, happened = ("" if place else reply.text), (beside if entry is answers[-1] else ())
            left: dict[str, Any] = {
                "calls_left": calls_left,
                "refusals_left": max(0, MAX_TROUBLES - troubles),
            }
            left["left"] = duration(max(0.0, then - entry.time))
            found.append(_answered(words, calls[place] if calls else None, entry.event, happened, left))
    return found


def _answered(
    words: str, call: ToolCall | None, answer: Event, happened: Sequence[Entry], left: dict[str, Any]
) -> Exchange:
    """One call and what it led to; `left`: of the limits."""
    seen = [_happened(each.event) for each in happened if isinstance(each.event, _MEANWHILE)]
    source = str(getattr(answer, "action", "harness"))
    return exchange(words, call, _answer(answer), source=source, meanwhile=seen, **left)


def _happened(event: Event) -> str:
    """Something that came beside the answer, in a line."""
    what = getattr(event, "event", event.kind.replace("_", " "))
    text = _check(event) if isinstance(event, events.Checked) else getattr(event, "text", "")
    return framed(f"{what}: {text}", 1000)


def _check(event: events.Checked) -> str:
    problems = [f"problem: {text}" for text in event.problems]
    notes = [f"note: {text}" for text in event.warnings]
    return "\n".join(["can run" if event.can_run else "cannot run", *problems, *notes])


_MEANWHILE = (events.AttemptEvent, events.PersonAnswered, events.PersonSaid, events.Checked)
_LATER = (events.Approved, events.Denied, events.PersonAnswered)
"""What moves the end of the run's time; what was said of it before stays as it was said."""
_ANSWERS = (events.ActionResult, events.Refused, CallRejected)


def _answer(event: Event) -> Answer:
    """What the model is shown of what its call led to."""
    if isinstance(event, events.Refused):
        return Answer(f"refused: {event.why}", is_error=True)
    if isinstance(event, CallRejected):
        return Answer(event.why, is_error=True)
    if isinstance(event, events.Checked):
        return Answer(_check(event), is_error=not event.can_run)
    if isinstance(event, events.Noted | events.SectionsWritten):
        left_out = ", ".join(getattr(event, "left_out", ()))
        return Answer(f"kept without {left_out}" if left_out else "kept")
    if isinstance(event, events.CauseNamed) and event.diagnosis is not None:
        return Answer("kept; the program has no repair for it that can be made here, so go on")
    if isinstance(event, events.Diagnosed):
        return Answer(event.diagnosis.cause)
    if error := str(getattr(event, "error", "")):
        return Answer(error, is_error=True)
    if isinstance(event, events.PersonAsked):
        return Answer(f"asked; without an answer in time it is: {event.default}\n{event.shown}")
    text = str(getattr(event, "text", "") or getattr(event, "detail", "") or "done")
    return Answer(
        excerpts.fitted("", excerpts.of_text(text)) if isinstance(event, events.ChangePrepared) else text
    )
