"""What the journal tells a reader besides the attempts: events for the time line, remarks for the story.

In: the entries. Out: `EventNote`s in their order, each with the line of journal.jsonl that it begins at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any, get_args

from harness.journal import Entry
from harness.results.types import EventNote
from harness.wording import duration, time_text
from monitors.rules import AlarmKind

_TOLD = {
    *get_args(AlarmKind),
    "first_step",
    "hang",
    "log_lost",
    "plateau",
    "disk_low",
    "session_gone",
    "first_step_timeout",
    "error_line",
}
_NOT_TOLD = {"why", "detail", "attempt", "session", "attempt_id", "text", "old", "new", "outcome", "reason"}
_FAILED = ("llm_retried", "llm_failed")
_END_AN_OUTAGE = ("llm_settled", "consult", "consulted")


def events(entries: Iterable[Entry]) -> tuple[EventNote, ...]:
    """The time line: what befell training and harness, and when a model or a person was asked."""
    entries = list(entries)
    notes = []
    failing = False
    for line, entry in enumerate(entries, start=1):
        if entry.kind in _FAILED:
            if not failing:
                notes.append(_outage(entries[line - 1 :], line))
            failing = True
        elif entry.kind in _END_AN_OUTAGE:
            failing = False
        note = _NOTES[entry.kind](entry, line) if entry.kind in _NOTES else None
        if note is not None:
            notes.append(note)
    return tuple(notes)


def remarks(entries: Iterable[Entry]) -> tuple[EventNote, ...]:
    """Notes and refused wishes, each with the newest attempt of its time (None before the first launch).

    The same one several times in a row is told once.
    """
    return tuple(_once(list(same)) for _, same in groupby(_remarks(entries), key=_what))


def _in_words(action: str, args: Mapping[str, Any]) -> str:
    """`edit_config lr=0.1`: what was wished, without the reasons and the identity of a launch."""
    told = {
        name: value
        for name, value in args.items()
        if name not in _NOT_TOLD and value not in ("", [], {}, None)
    }
    words = ", ".join(f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in told.items())
    return f"{action} ({words})" if words else action


def _what(note: EventNote) -> tuple[str, str, int | None]:
    return note.kind, note.text, note.attempt


def _once(same: list[EventNote]) -> EventNote:
    first = same[0]
    return first if len(same) == 1 else replace(first, text=f"{first.text} ({len(same)} times)")


def _remarks(entries: Iterable[Entry]) -> Iterator[EventNote]:
    attempt: int | None = None
    for line, entry in enumerate(entries, start=1):
        data = entry.data
        if entry.kind == "intent" and data["action"] == "launch":
            attempt = data["args"]["attempt"]
        elif entry.kind == "outcome" and data["action"] == "note":
            yield EventNote(entry.time, "note", data.get("text", ""), attempt, line)
        elif entry.kind == "refused":
            wish = _in_words(data["action"], data.get("args", {}))
            yield EventNote(entry.time, "refused", f"{wish}: {data['why']}", attempt, line)


# --- the time line ------------------------------------------------------------------------------------------


def _event(entry: Entry, line: int) -> EventNote | None:
    data = entry.data
    if data["event"] not in _TOLD:
        return None
    return EventNote(entry.time, data["event"], data.get("text", ""), data.get("attempt"), line)


def _owner(entry: Entry, line: int) -> EventNote | None:
    if line <= 3:
        return None
    text = f"the harness was started again (process {entry.data['pid']})"
    return EventNote(entry.time, "resumed", text, None, line)


def _asked(entry: Entry, line: int) -> EventNote:
    text = f"{entry.data['why']} ({entry.data['topic']})"
    return EventNote(entry.time, "language model asked", text, None, line)


def _answered(entry: Entry, line: int) -> EventNote:
    text = f"{entry.data['why']} ({entry.data['topic']})"
    return EventNote(entry.time, "language model done", text, None, line)


def _by_person(answer: str, entry: Entry, line: int) -> EventNote:
    text = f"{entry.data['action']} ({entry.data['by']})"
    return EventNote(entry.time, f"{answer} by a person", text, None, line)


_NOTES: dict[str, Callable[[Entry, int], EventNote | None]] = {
    "event": _event,
    "owner": _owner,
    "consult": _asked,
    "consulted": _answered,
    "approved": lambda entry, line: _by_person("approved", entry, line),
    "denied": lambda entry, line: _by_person("refused", entry, line),
    "stop_asked": lambda entry, line: EventNote(
        entry.time, "stop asked", f"by {entry.data['by']}", None, line
    ),
    "model_unavailable": lambda entry, line: EventNote(
        entry.time, "model not available", f"the playbook decides: {entry.data['why']}", None, line
    ),
    "action_failed": lambda entry, line: EventNote(
        entry.time, "harness error", entry.data["error"], None, line
    ),
}


def _outage(following: list[Entry], line: int) -> EventNote:
    """One note for failed calls up to the next answer, or until the question was given up."""
    first = following[0]
    end = first.time
    for entry in following:
        if entry.kind in (*_FAILED, *_END_AN_OUTAGE):
            end = entry.time
        if entry.kind in _END_AN_OUTAGE:
            break
    error = str(first.data.get("error", ""))
    lasted = ""
    if end - first.time >= 1.0:
        lasted = f"until {time_text(end)}, for {duration(end - first.time)}: "
    return EventNote(first.time, "no answer from the language model", f"{lasted}{error}", None, line)
