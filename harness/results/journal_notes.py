"""What the journal tells a reader besides the attempts: events for the time line, remarks for the story.

In: the entries. Out: `EventNote`s in their order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, get_args

from harness.journal import Entry, Event
from harness.journal.events import (
    ActionFailed,
    Approved,
    AttemptEvent,
    Denied,
    Intent,
    Noted,
    Owner,
    Refused,
    StopAsked,
)
from harness.journal.model_events import (
    Consult,
    Consulted,
    LlmFailed,
    LlmRetried,
    LlmSettled,
    ModelUnavailable,
)
from harness.results.types import EventNote
from harness.wording import duration, time_text
from monitors.rules import AlarmKind

_SHOWN = {
    *get_args(AlarmKind),
    *("first_step", "hang", "log_lost", "plateau", "disk_low", "session_gone"),
    *("first_step_timeout", "error_line"),
}
_LEFT_OUT = {"why", "detail", "attempt", "session", "attempt_id", "text", "old", "new", "outcome", "reason"}
_END_AN_OUTAGE = (LlmSettled, Consult, Consulted)


def events(entries: Iterable[Entry]) -> tuple[EventNote, ...]:
    """The time line: what befell training and harness, and when a model or a person was asked."""
    entries = list(entries)
    notes = []
    is_failing = False
    for line, entry in enumerate(entries, start=1):
        if isinstance(entry.event, LlmRetried | LlmFailed):
            if not is_failing:
                notes.append(_outage(entries[line - 1 :]))
            is_failing = True
        elif isinstance(entry.event, _END_AN_OUTAGE):
            is_failing = False
        kind, text = _words(entry.event, line)
        if kind:
            attempt = entry.event.attempt if isinstance(entry.event, AttemptEvent) else None
            notes.append(EventNote(entry.time, kind, text, attempt))
    return tuple(notes)


def _words(event: Event, line: int) -> tuple[str, str]:
    """Kind and text of an event on the time line; "" for one that is not on it."""
    match event:
        case AttemptEvent() if event.event in _SHOWN:
            return event.event, event.text
        case Owner() if line > 3:
            return "resumed", f"the harness was started again (process {event.pid})"
        case Consult():
            return "language model asked", f"{event.why} ({event.topic})"
        case Consulted():
            return "language model done", f"{event.why} ({event.topic})"
        case Approved():
            return "approved by a person", f"{event.action} ({event.by})"
        case Denied():
            return "refused by a person", f"{event.action} ({event.by})"
        case StopAsked():
            return "stop asked", f"by {event.by}"
        case ModelUnavailable():
            return "model not available", f"the playbook decides: {event.why}"
        case ActionFailed():
            return "harness error", event.error
    return "", ""


def _outage(following: Sequence[Entry]) -> EventNote:
    """One note for failed calls up to the next answer, or until the question was given up."""
    first = following[0]
    end, lasted = first.time, ""
    for entry in following:
        if isinstance(entry.event, (LlmRetried, LlmFailed, *_END_AN_OUTAGE)):
            end = entry.time
        if isinstance(entry.event, _END_AN_OUTAGE):
            break
    if end - first.time >= 1.0:
        lasted = f"until {time_text(end)}, for {duration(end - first.time)}: "
    error = first.event.error if isinstance(first.event, LlmRetried | LlmFailed) else ""
    return EventNote(first.time, "no answer from the language model", f"{lasted}{error}")


# --- remarks ------------------------------------------------------------------------------------------------


def remarks(entries: Iterable[Entry]) -> tuple[EventNote, ...]:
    """Notes and refused wishes, each with the newest attempt of its time (None before the first launch).

    The same one several times in a row stands once.
    """
    notes = []
    for _, same in groupby(_remarks(entries), key=lambda note: (note.kind, note.text, note.attempt)):
        first, *others = same
        text = f"{first.text} ({len(others) + 1} times)" if others else first.text
        notes.append(replace(first, text=text))
    return tuple(notes)


def _remarks(entries: Iterable[Entry]) -> Iterator[EventNote]:
    attempt: int | None = None
    for entry in entries:
        match entry.event:
            case Intent(action="launch", args=args):
                attempt = args["attempt"]
            case Noted(text=text):
                yield EventNote(entry.time, "note", text, attempt)
            case Refused(action=action, args=args, why=why):
                yield EventNote(entry.time, "refused", f"{_wish(action, args)}: {why}", attempt)


def _wish(action: str, args: Mapping[str, Any]) -> str:
    """`edit_config (changes {"lr": 0.1})`: without the reasons and the identity of a launch."""
    shown = {name: value for name, value in args.items() if name not in _LEFT_OUT and value}
    words = ", ".join(f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in shown.items())
    return f"{action} ({words})" if words else action
