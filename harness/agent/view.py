"""The prompt as a view of the journal: rendered anew for every call, never a conversation that is kept.

In: the entries of the journal, the blueprint as issued, configs of attempts (which never change). Out: a
`Request`. Within one consultation each request is the one before with something added, so that caches hold;
when it grows too large, the oldest results are cut to a line each, several at a time. Nothing is summarised
by a model, so this cannot loop or lose what the journal has. Secrets are masked where the request leaves
(`providers.model`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness import templating
from harness.agent.actions import MetricsSummary
from harness.agent.looking.look import look
from harness.agent.tools import tools
from harness.experiment import Experiment
from harness.guard.rules import MAX_ATTEMPTS
from harness.journal import Entry
from harness.llm_use import Consultation
from harness.providers.chat import AssistantTurn, Request, ToolCall, ToolResultTurn, Turn, UserTurn
from harness.repair import apply_changes
from harness.state import AttemptState, ExperimentState, fold

BUDGET_CHARS = 120_000
LONGEST_TEXT = 8_000
LONGEST_BLUEPRINT = 12_000
LONGEST_WORDS = 2_000  # of what the model said beside a call
CUT_TOGETHER = 12
MAX_OUTPUT_TOKENS = 16_000  # for models that think before they answer; it counts against this
CUT_TO = 160


def request(experiment: Experiment, consultation: Consultation, budget: int = BUDGET_CHARS) -> Request:
    """The next request of the open consultation."""
    entries = experiment.journal.entries
    start = consultation.since
    opening = UserTurn(_opening(experiment, entries[start - 1], fold(entries[: start - 1])))
    turns = _exchange(entries[start:], experiment.state.deadline_at)
    return Request(
        system=templating.render("prompts/system.md.j2"),
        tools=tools(),
        turns=(opening, *_shorten(turns, budget - len(opening.text))),
        pinned=1,
        max_output_tokens=MAX_OUTPUT_TOKENS,
    )


# --- the opening ----------------------------------------------------------------------------------------


def _opening(experiment: Experiment, consult: Entry, state: ExperimentState) -> str:
    """What was known when the question was put, and the question."""
    plan = state.plan
    blueprint = (experiment.dir / "blueprint.md").read_text(encoding="utf-8", errors="replace")
    text = templating.render(
        "prompts/context.md.j2",
        name=state.name,
        limit=_hours(plan["max_time_s"]),
        max_attempts=MAX_ATTEMPTS,
        protected=plan.get("protected_keys", ()),
        code_changes=plan.get("code_changes", ()),
        blueprint=_data(blueprint, LONGEST_BLUEPRINT),
        attempts=[_attempt(attempt) for attempt in state.attempts],
        notes=[
            _data(entry.data["text"], 600)
            for entry in experiment.journal.entries[: consult.seq]
            if entry.kind == "outcome" and entry.data["action"] == "note"
        ][-10:],
        question=_question(experiment, consult, state),
    )
    return text


def _question(experiment: Experiment, consult: Entry, state: ExperimentState) -> str:
    kind = consult.data["topic"].split(":")[0]
    facts: dict[str, Any] = {"attempt": len(state.attempts), **consult.data.get("facts", {})}
    if kind in ("failure", "check", "config"):
        facts["config"] = _data(apply_changes.config_before(experiment, state), LONGEST_TEXT)
    if kind == "failure" and state.attempt is not None:
        lines = (state.attempt.diagnosis or {}).get("last_lines", ())
        facts["last_lines"] = [_data(f"{line['line']}: {line['text']}", 400) for line in lines]
    elif kind == "check":
        facts["problems"] = [_data(problem, 1000) for problem in (state.checked or {}).get("problems", ())]
    elif kind == "alarm":
        facts["alarm"] = [_data(sentence, 600) for sentence in facts["alarm"]]
        facts["reason"] = consult.data["topic"].split(":")[2]
    elif kind == "results":
        collected = state.collected or {}
        facts |= {"outcome": collected.get("outcome"), "reason": _data(collected.get("reason", ""), 600)}
        seen = look(MetricsSummary(), experiment)
        facts["metrics"] = _data(seen.get("text") or seen.get("error", ""), LONGEST_TEXT)
    return templating.render(f"prompts/{kind}.md.j2", **facts)


def _attempt(attempt: AttemptState) -> dict[str, Any]:
    ended, diagnosis = attempt.ended or {}, attempt.diagnosis or {}
    end = f"{ended.get('reason')}, exit status {ended.get('status')}" if attempt.ended is not None else ""
    return {
        "number": attempt.number,
        "why": _data(attempt.why, 600),
        "changes": [_data(change.in_words, 600) for change in attempt.draft.changes],
        "end": end,
        "rows": ended.get("rows", 0),
        "last_step": ended.get("last_step"),
        "cause": _data(diagnosis.get("cause", ""), 1000),
        "signature": diagnosis.get("signature"),
        "evidence": [
            _data(f"{line['file']}:{line['line']}: {line['text']}", 400)
            for line in diagnosis.get("evidence", ())
        ],
    }


# --- the exchange ---------------------------------------------------------------------------------------


@dataclass
class _Reply:
    """One settled call and what followed it, while the turns are put together."""

    entry: Entry
    outcome: str | None = None
    source: str = "harness"
    is_error: bool = False
    last: Entry | None = None


def _exchange(entries: Sequence[Entry], deadline_at: float) -> list[Turn]:
    """The turns of the consultation: each settled call, and the outcome, refusal or rejection that answered
    it."""
    turns: list[Turn] = []
    reply: _Reply | None = None
    meanwhile: list[str] = []
    count = 0
    for entry in entries:
        if entry.kind == "llm_settled":
            turns += _turns(reply, meanwhile, count, deadline_at)
            reply, meanwhile, count = _Reply(entry), [], count + 1
        elif reply is not None and reply.outcome is None and entry.kind in _ANSWERS:
            reply.outcome, reply.is_error = _ANSWERS[entry.kind](entry)
            reply.source, reply.last = str(entry.data.get("action", "harness")), entry
        elif entry.kind == "event":
            meanwhile.append(_data(f"{entry.data['event']}: {entry.data['text']}", 300))
    return [*turns, *_turns(reply, meanwhile, count, deadline_at)]


def _turns(reply: _Reply | None, meanwhile: list[str], count: int, deadline_at: float) -> list[Turn]:
    if reply is None:
        return []
    said, calls = reply.entry.data["text"], reply.entry.data["calls"]
    call = ToolCall(**calls[0]) if calls else None
    if call is not None and len(call.arguments) > LONGEST_TEXT:
        call = replace(call, arguments=f"{call.arguments[:LONGEST_TEXT]} … [cut]")
    said = said if len(said) <= LONGEST_WORDS else f"{said[:LONGEST_WORDS]} … [cut]"
    turns: list[Turn] = [AssistantTurn(said, call)] if said or call else []
    if reply.outcome is None or reply.last is None:
        return turns
    text = templating.render(
        "prompts/result.md.j2",
        source=reply.source,
        outcome=_data(reply.outcome, LONGEST_TEXT),
        meanwhile=meanwhile,
        left=_hours(max(0.0, deadline_at - reply.last.time)),
        call=count,
    )
    return [*turns, ToolResultTurn(call.id, text, reply.is_error) if call else UserTurn(text)]


def _outcome(entry: Entry) -> tuple[str, bool]:
    data = {name: value for name, value in entry.data.items() if name not in ("intent", "action", "changes")}
    if "error" in data:
        return str(data["error"]), True
    if entry.data["action"] == "check":
        return _check(data), not data["can_run"]
    if entry.data["action"] in ("note", "write_report_section"):
        return "kept", False
    if "diagnosis" in data:
        return str(data["diagnosis"]["cause"]), False
    return str(data.get("text") or data.get("detail") or "done"), False


def _check(data: dict[str, Any]) -> str:
    verdict = "can run" if data["can_run"] else "cannot run"
    lines = [f"problem: {text}" for text in data["problems"]] + [f"note: {text}" for text in data["warnings"]]
    return "\n".join([verdict, *lines])


_ANSWERS = {
    "outcome": _outcome,
    "refused": lambda entry: (f"refused: {entry.data['why']}", True),
    "call_rejected": lambda entry: (str(entry.data["why"]), True),
}


# --- size and safety ------------------------------------------------------------------------------------


def _shorten(turns: list[Turn], budget: int) -> list[Turn]:
    """The turns with as many of the oldest cut short as the budget wants, some at a time."""
    cut = 0
    while sum(_length(turn) for turn in turns) > budget and cut < len(turns):
        for index in range(cut, min(cut + CUT_TOGETHER, len(turns))):
            turn = turns[index]
            if len(turn.text) > CUT_TO:
                text = f"{turn.text[:CUT_TO]} … [cut to save room; ask again if you need it]"
                turns[index] = replace(turn, text=text)
        cut += CUT_TOGETHER
    return turns


def _length(turn: Turn) -> int:
    call = turn.call if isinstance(turn, AssistantTurn) else None
    return len(turn.text) + (len(call.arguments) if call else 0)


def _data(text: str, longest: int) -> str:
    """Text from outside: bounded (head and tail kept), and unable to close the frame it stands in."""
    if len(text) > longest:
        half = longest // 2
        text = f"{text[:half]}\n… [{len(text) - 2 * half} characters left out] …\n{text[-half:]}"
    return text.replace("</data", "< /data").replace("<data", "< data")


def _hours(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min"
