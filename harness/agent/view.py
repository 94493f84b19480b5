"""What the agent's conversation remembers: a view of the journal, rendered anew for every call.

In: the entries of the journal, the blueprint as issued, configs of attempts (which never change). Out: a
`Request`. Nothing is kept beside the journal, so a kill loses nothing. Secrets are masked where the request
leaves (`providers.model`).
"""

from collections.abc import Sequence
from typing import Any

from harness import templating
from harness.agent.actions import OFFERED
from harness.experiment import Experiment
from harness.guard.rules import MAX_ATTEMPTS
from harness.journal import Entry
from harness.llm_use import Consultation
from harness.providers.chat import Request, ToolCall
from harness.providers.conversation import (
    BUDGET_CHARS,
    LONGEST_TEXT,
    Answer,
    Exchange,
    exchange,
    framed,
    request_of,
)
from harness.repair import apply_changes
from harness.results.narrative.evidence import Evidence
from harness.results.narrative.sections import LONGEST_LISTING, listing
from harness.state import AttemptState, ExperimentState, fold
from harness.wording import duration

LONGEST_BLUEPRINT = 12_000


def request(
    experiment: Experiment,
    consultation: Consultation,
    budget: int = BUDGET_CHARS,
    evidence: Evidence | None = None,
) -> Request:
    """The next request of the open consultation. `evidence`: what a narrative may cite."""
    entries = experiment.journal.entries
    start = consultation.since
    opening = _opening(experiment, entries[start - 1], fold(entries[: start - 1]), evidence)
    memory = exchanges(entries[start:], experiment.state.deadline_at)
    return request_of(templating.render("prompts/system.md.j2"), OFFERED, opening, memory, budget)


# --- the opening ----------------------------------------------------------------------------------------


def _opening(
    experiment: Experiment, consult: Entry, state: ExperimentState, evidence: Evidence | None
) -> str:
    """What was known when the question was put, and the question."""
    plan = state.plan
    blueprint = (experiment.dir / "blueprint.md").read_text(encoding="utf-8", errors="replace")
    notes = [
        framed(entry.data["text"], 600)
        for entry in experiment.journal.entries[: consult.seq]
        if entry.kind == "outcome" and entry.data["action"] == "note"
    ]
    return templating.render(
        "prompts/context.md.j2",
        name=state.name,
        limit=duration(plan["max_time_s"]),
        max_attempts=MAX_ATTEMPTS,
        protected=plan.get("protected_keys", ()),
        code_changes=plan.get("code_changes", ()),
        blueprint=framed(blueprint, LONGEST_BLUEPRINT),
        attempts=[_attempt(attempt) for attempt in state.attempts],
        notes=notes[-10:],
        question=_question(experiment, consult, state, evidence),
    )


def _question(
    experiment: Experiment, consult: Entry, state: ExperimentState, evidence: Evidence | None
) -> str:
    kind = consult.data["topic"].split(":")[0]
    facts: dict[str, Any] = {"attempt": len(state.attempts), **consult.data.get("facts", {})}
    if kind in ("failure", "check", "config"):
        facts["config"] = framed(apply_changes.config_before(experiment, state), LONGEST_TEXT)
    if kind == "failure" and state.attempt is not None:
        lines = (state.attempt.diagnosis or {}).get("last_lines", ())
        facts["last_lines"] = [framed(f"{line['line']}: {line['text']}", 400) for line in lines]
    elif kind == "check":
        facts["problems"] = [framed(problem, 1000) for problem in (state.checked or {}).get("problems", ())]
    elif kind == "alarm":
        facts["alarm"] = [framed(sentence, 600) for sentence in facts["alarm"]]
        facts["reason"] = consult.data["topic"].split(":")[2]
    elif kind == "results":
        collected = state.collected or {}
        facts |= {"outcome": collected.get("outcome"), "reason": framed(collected.get("reason", ""), 600)}
        facts["facts"] = framed(listing(evidence) if evidence is not None else "", LONGEST_LISTING)
    return templating.render(f"prompts/{kind}.md.j2", **facts)


def _attempt(attempt: AttemptState) -> dict[str, Any]:
    ended, diagnosis = attempt.ended or {}, attempt.diagnosis or {}
    end = f"{ended.get('reason')}, exit status {ended.get('status')}" if attempt.ended is not None else ""
    return {
        "number": attempt.number,
        "why": framed(attempt.why, 600),
        "changes": [framed(change.in_words, 600) for change in attempt.draft.changes],
        "end": end,
        "rows": ended.get("rows", 0),
        "last_step": ended.get("last_step"),
        "cause": framed(diagnosis.get("cause", ""), 1000),
        "signature": diagnosis.get("signature"),
        "evidence": [
            framed(f"{line['file']}:{line['line']}: {line['text']}", 400)
            for line in diagnosis.get("evidence", ())
        ],
    }


# --- the exchanges --------------------------------------------------------------------------------------


def exchanges(entries: Sequence[Entry], deadline_at: float) -> list[Exchange]:
    """Each settled call of a consultation, with the outcome, refusal or rejection that answered it and the
    events that came meanwhile."""
    starts = [index for index, entry in enumerate(entries) if entry.kind == "llm_settled"]
    ends = [*starts, len(entries)][1:]
    spans = [entries[start:end] for start, end in zip(starts, ends, strict=True)]
    return [_exchange(span, number, deadline_at) for number, span in enumerate(spans, start=1)]


def _exchange(span: Sequence[Entry], number: int, deadline_at: float) -> Exchange:
    """One call and what followed it up to the next one."""
    reply = span[0].data
    call = ToolCall(**reply["calls"][0]) if reply["calls"] else None
    end = next((entry for entry in span if entry.kind in _ANSWERS), None)
    if end is None:
        return exchange(reply["text"], call, None)
    events = (entry.data for entry in span if entry.kind == "event")
    return exchange(
        reply["text"],
        call,
        _ANSWERS[end.kind](end),
        source=str(end.data.get("action", "harness")),
        meanwhile=[framed(f"{event['event']}: {event['text']}", 300) for event in events],
        left=duration(max(0.0, deadline_at - end.time)),
        number=number,
    )


def _outcome(entry: Entry) -> Answer:
    data = entry.data
    if "error" in data:
        return Answer(str(data["error"]), is_error=True)
    if data["action"] == "check":
        lines = [f"problem: {text}" for text in data["problems"]]
        lines += [f"note: {text}" for text in data["warnings"]]
        verdict = "can run" if data["can_run"] else "cannot run"
        return Answer("\n".join([verdict, *lines]), is_error=not data["can_run"])
    if data["action"] in ("note", "write_report_section"):
        left_out = ", ".join(data.get("left_out", ()))
        return Answer(f"kept without {left_out}" if left_out else "kept")
    if "diagnosis" in data:
        return Answer(str(data["diagnosis"]["cause"]))
    return Answer(str(data.get("text") or data.get("detail") or "done"))


_ANSWERS = {
    "outcome": _outcome,
    "refused": lambda entry: Answer(f"refused: {entry.data['why']}", is_error=True),
    "call_rejected": lambda entry: Answer(str(entry.data["why"]), is_error=True),
}
