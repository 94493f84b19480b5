"""A run as its journal tells it: its state, and what a reader of the report wants to know besides.

In: the entries. Out: a `RunStory`: the time line, notes and refusals in their places, what a language model
took.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, get_args

from harness.journal import Entry, Event, events, events_of
from harness.journal import model_events as model
from harness.llm_use import LlmUse
from harness.results import deviations
from harness.state import AttemptState, ExperimentState, fold
from harness.wording import count_text, duration, number_text, time_text
from monitors.rules import AlarmKind

_SHOWN = {
    *get_args(AlarmKind),
    *("first_step", "hang", "log_lost", "plateau", "disk_low", "session_gone"),
    *("first_step_timeout", "error_line", "two_values", "folder_gone", "files_lost"),
}
_NOTED = "noted by the policy, unchecked"
_WORDS: Mapping[type[Event], Callable[[Any], tuple[str, str]]] = {
    events.Owner: lambda event: ("resumed", f"the harness was started again (process {event.pid})"),
    model.Consult: lambda event: ("language model asked", f"{event.why} ({event.topic})"),
    model.Consulted: lambda event: ("language model done", f"{event.why} ({event.topic})"),
    events.Approved: lambda event: ("approved by a person", f"{event.action} ({event.by})"),
    events.Denied: lambda event: (
        "refused by a person",
        f"{event.action} ({event.by}){': ' if event.because else ''}{event.because}",
    ),
    events.PersonAsked: lambda event: (
        "a person was asked",
        event.error or f"{event.question} (until {time_text(event.until)}; then: {event.default})",
    ),
    events.PersonAnswered: lambda event: ("a question was answered", event.text),
    events.SmokeRan: lambda event: ("smoke run", event.error or event.text.partition("\n")[0]),
    events.Noted: lambda event: (_NOTED, event.text),
    events.PersonSaid: lambda event: ("said by a person", f"{event.text} ({event.by})"),
    events.Held: lambda event: ("held", event.reason or "over: the run goes on"),
    events.StopAsked: lambda event: ("stop asked", f"by {event.by}"),
    model.ModelUnavailable: lambda event: ("model not available", f"the playbook decides: {event.why}"),
    model.ModelTried: lambda event: (
        ("model not available", f"before the launch: {event.trouble}") if event.trouble else ("", "")
    ),
    events.ActionFailed: lambda event: ("harness error", event.error),
}
_LEFT_OUT = {"why", "detail", "attempt", "session", "attempt_id", "text", "old", "new", "outcome", "reason"}


@dataclass(frozen=True)
class EventNote:
    """Something that a reader should know. `attempt`: the one it belongs to, None for none."""

    time: float
    kind: str
    text: str
    attempt: int | None = None


@dataclass(frozen=True)
class ModelUse:
    """What asking a language model took, as the journal keeps it; shown, never a fact.

    `input_tokens`: all of them, also the `cached_tokens`. `cost_usd`: of the calls with a known price, with
    the most that calls may have cost which were cut off before their price was known.
    """

    model: str
    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_usd: float
    unpriced_calls: int = 0
    cut_off_calls: int = 0

    @property
    def cost(self) -> str:
        """In words, e.g. `0.0412 USD`, `price unknown`."""
        if self.unpriced_calls >= self.calls:
            return "price unknown"
        cost = f"{self.cost_usd:.4f} USD" if 0 < self.cost_usd < 10 else f"{self.cost_usd:.2f} USD"
        cut_off, unpriced = (count_text(n, "call") for n in (self.cut_off_calls, self.unpriced_calls))
        if self.cut_off_calls:
            cost = f"at most {cost} ({cut_off} cut off before the price was known)"
        return f"{cost}, and {unpriced} of unknown price" if self.unpriced_calls else cost

    @property
    def tokens(self) -> str:
        """In words, e.g. `12000 input tokens (8000 from the cache), 900 output tokens`."""
        read = f" ({number_text(self.cached_tokens, 'count')} from the cache)" if self.cached_tokens else ""
        sent, written = (number_text(count, "count") for count in (self.input_tokens, self.output_tokens))
        return f"{sent} input tokens{read}, {written} output tokens"


@dataclass(frozen=True)
class RunStory:
    """The state of a run, and what it does not keep. `command`: as it was launched; `ended_at`: when results
    were collected; `remarks`: notes and refused wishes, each with the newest attempt of its time; `llm`: None
    when no model was asked; `warnings`: of the checks before the launches, each once."""

    state: ExperimentState
    command: str
    ended_at: float | None
    events: tuple[EventNote, ...]
    remarks: tuple[EventNote, ...]
    llm: ModelUse | None
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> RunStory:
        """What comes after the report was begun is in none, whenever it is built again."""
        intents = [(n, one.event) for n, one in enumerate(entries) if isinstance(one.event, events.Intent)]
        begins = [n for n, event in intents if event.action == "report"]
        entries = entries[: begins[-1]] if begins else entries
        state = fold(entries)
        command = next((launched.command for launched in events_of(entries, events.Launched)), "")
        ends = (entry.time for entry in entries if isinstance(entry.event, events.Collected))
        return cls(
            state,
            command or state.blueprint.launch_command or "",
            next(ends, None),
            _time_line(entries),
            _remarks(entries),
            _model_use(entries, state.llm),
            tuple(
                dict.fromkeys(text for seen in events_of(entries, events.Checked) for text in seen.warnings)
            ),
        )

    @property
    def attempts(self) -> tuple[AttemptState, ...]:
        return self.state.attempts

    @property
    def outcome(self) -> str:
        """An `Outcome`, or "running" while nothing has been collected."""
        judged = self.state.collected
        return judged.outcome.value if judged else "running"

    @property
    def reason(self) -> str:
        judged = self.state.collected
        return judged.reason if judged else f"in phase {self.state.phase}"

    @property
    def author(self) -> str:
        """Who wrote a narrative, or rendered a config."""
        return self.llm.model if self.llm else self.state.options.policy

    def after(self, number: int) -> AttemptState | None:
        return next((attempt for attempt in self.attempts if attempt.number > number), None)

    def repair_after(self, number: int) -> str:
        """What was done to get to the next attempt; "" where there was none."""
        following = self.after(number)
        if following is None:
            return ""
        start = "the beginning" if following.checkpoint is None else f"its checkpoint {following.checkpoint}"
        changes = deviations.sentence(deviations.net(following.draft.changes))
        return f"started again from {start}, {f'with {changes}' if changes else 'without a change'}"


# --- the time line ------------------------------------------------------------------------------------------


def _time_line(entries: Iterable[Entry]) -> tuple[EventNote, ...]:
    """What befell training and harness, and when a model or a person was asked. Failed calls up to the next
    answer, or until the question was given up, are one note."""
    notes = []
    failed: list[Entry] = []
    for line, entry in enumerate(entries, start=1):
        event = entry.event
        if isinstance(event, model.LlmRetried | model.LlmFailed):
            failed.append(entry)
        elif failed and isinstance(event, model.LlmSettled | model.Consult | model.Consulted):
            notes.append(_outage(failed, entry.time))
            failed = []
        kind, text = _words(event, line)
        if kind:
            attempt = event.attempt if isinstance(event, events.AttemptEvent) else None
            notes.append(EventNote(entry.time, kind, text, attempt))
    if failed:
        notes.append(_outage(failed, failed[-1].time))
    return tuple(sorted(notes, key=lambda note: note.time))


def _words(event: Event, line: int) -> tuple[str, str]:
    """Kind and text of an event on the time line; "" for one that is not on it."""
    if isinstance(event, events.AttemptEvent) and event.event in _SHOWN:
        return event.event, event.text
    if isinstance(event, events.Owner) and line <= 3:
        return "", ""
    return _WORDS[type(event)](event) if type(event) in _WORDS else ("", "")


def _outage(failed: Sequence[Entry], end: float) -> EventNote:
    start, event = failed[0].time, failed[0].event
    lasted = f"until {time_text(end)}, for {duration(end - start)}: " if end - start >= 1.0 else ""
    assert isinstance(event, model.LlmRetried | model.LlmFailed)
    return EventNote(start, "no answer from the language model", f"{lasted}{event.error}")


# --- remarks ------------------------------------------------------------------------------------------------


def _remarks(entries: Iterable[Entry]) -> tuple[EventNote, ...]:
    """The same remark several times in a row stands once."""
    notes = []
    for _, same in groupby(_every_remark(entries), key=lambda note: (note.kind, note.text, note.attempt)):
        first, *others = same
        text = f"{first.text} ({len(others) + 1} times)" if others else first.text
        notes.append(replace(first, text=text))
    return tuple(notes)


def _every_remark(entries: Iterable[Entry]) -> Iterator[EventNote]:
    attempt: int | None = None
    wish = ""
    for entry in entries:
        match entry.event:
            case events.Intent(action="launch", args=args):
                attempt = args["attempt"]
            case events.Intent(action=action, args=args):
                wish = _wish(action, args)
            case events.ChangePrepared(error=error) if error:
                yield EventNote(entry.time, "could not be done", f"{wish}: {error}", attempt)
            case events.Noted(text=text):
                yield EventNote(entry.time, _NOTED, text, attempt)
            case events.Refused(action=action, args=args, why=why):
                yield EventNote(entry.time, "refused", f"{_wish(action, args)}: {why}", attempt)


def _wish(action: str, args: Mapping[str, Any]) -> str:
    """`edit_config (changes {"lr": 0.1})`: without the reasons and the identity of a launch."""
    shown = {name: value for name, value in args.items() if name not in _LEFT_OUT and value}
    words = ", ".join(f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in shown.items())
    return f"{action} ({words})" if words else action


# --- the language model -------------------------------------------------------------------------------------


def _model_use(entries: Iterable[Entry], use: LlmUse) -> ModelUse | None:
    if not use.calls:
        return None
    told = [entry.event for entry in entries]
    begun = [event for event in told if isinstance(event, model.LlmReserved)]
    ended = [
        event
        for event in told
        if isinstance(event, model.LlmSettled | model.LlmFailed) and not event.is_estimated
    ]
    unpriced = {event.call for event in begun if event.reserved_usd is None}
    unpriced |= {event.call for event in ended if event.cost_usd is None}
    cut_off = {event.call for event in begun} - {event.call for event in ended} - unpriced
    return ModelUse(
        model=use.model,
        calls=use.calls,
        input_tokens=use.tokens.all_input_tokens,
        cached_tokens=use.tokens.cache_read_tokens,
        output_tokens=use.tokens.output_tokens,
        cost_usd=use.cost_usd,
        unpriced_calls=len(unpriced),
        cut_off_calls=len(cut_off),
    )
