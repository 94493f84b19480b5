"""A person's yes before an action: asked for in the journal, answered by a file.

`harness approve RUN` (or a key in the run's own terminal) writes `approvals/NNN.json` beside the journal,
where NNN is the number of the entry that asked; the run waits for that file. A kill in between asks the same
question again, and an answer that was given meanwhile counts.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.actions import Action, arguments
from harness.atomic_write import write_json
from harness.blueprint.names import UNATTENDED
from harness.experiment import Experiment
from harness.journal import Entry
from harness.journal.events import ActionResult, ApprovalAsked, Approved, Denied, Refused
from harness.pending_changes import PREPARING, diff
from harness.state import ExperimentState

LOOK_EVERY_S = 0.5

Answer = Literal["yes", "no"]
CAN_BE_ASKED = ("launch", "stop", *PREPARING)
"""Actions that a person may want to be asked about: a run can end without any of them."""


@dataclass(frozen=True)
class OpenQuestion:
    """What waits for a person's answer; `number` is that of the journal's entry."""

    number: int
    action: str
    args: Mapping[str, object]

    @property
    def text(self) -> str:
        if self.action == "patch_code":
            old, new, path = (str(self.args[name]) for name in ("old", "new", "path"))
            return f"patch_code ({self.args['why']}):\n{diff(old, new, path)}"
        ids = ("session", "attempt_id")
        shown = ", ".join(f"{name}: {value}" for name, value in self.args.items() if name not in ids)
        return f"{self.action} ({shown})" if shown else self.action


def is_needed(action: Action, state: ExperimentState) -> bool:
    """True if a person is asked first: for what they wanted to be asked about, and for every change of
    code that neither the run's options nor the author allowed beforehand."""
    if action.kind in state.options.approve:
        return True
    is_allowed = state.options.allow_code_changes or UNATTENDED in state.blueprint.code_changes
    return action.kind == "patch_code" and not is_allowed


def open_question(entries: Sequence[Entry]) -> OpenQuestion | None:
    """The newest question without an answer."""
    question, is_granted = _newest(entries)
    return None if is_granted else question


def _newest(entries: Sequence[Entry]) -> tuple[OpenQuestion | None, bool]:
    """The newest question that is not settled, and whether a person has said yes to it."""
    question, is_granted = None, False
    for entry in entries:
        event = entry.event
        if isinstance(event, ApprovalAsked):
            question, is_granted = OpenQuestion(entry.seq, event.action, event.args), False
        elif isinstance(event, Approved):
            is_granted = True
        elif isinstance(event, ActionResult | Refused):
            question, is_granted = None, False
    return question, is_granted


def answer(result_dir: Path, question: OpenQuestion, word: Answer, by: str) -> None:
    """Write a person's answer; the first one counts."""
    folder = result_dir / "approvals"
    folder.mkdir(mode=0o700, exist_ok=True)
    if not _file(result_dir, question).exists():
        write_json(_file(result_dir, question), {"answer": word, "by": by})


async def ask(
    experiment: Experiment, action: Action, still_wanted: Callable[[], bool], woken: asyncio.Event
) -> str | None:
    """Wait for a person's answer: None for yes, else why not. `still_wanted` says whether the question
    stands; `woken` is set when something else wants attention."""
    args = arguments(action)
    question, is_granted = _newest(experiment.journal.entries)
    if question is None or (question.action, question.args) != (action.kind, args):
        entry = experiment.record(ApprovalAsked(action.kind, args))
        question, is_granted = OpenQuestion(entry.seq, action.kind, args), False
    if is_granted:
        return None
    while not _file(experiment.dir, question).exists():
        if not still_wanted():
            return "what it was for is over, and there was no answer"
        try:
            await asyncio.wait_for(woken.wait(), LOOK_EVERY_S)
            woken.clear()
        except TimeoutError:
            pass
    given = json.loads(_file(experiment.dir, question).read_text(encoding="utf-8"))
    if given["answer"] != "yes":
        experiment.record(Denied(action.kind, args, given["by"]))
        return f"a person ({given['by']}) did not approve this"
    experiment.record(Approved(action.kind, given["by"]))
    return None


def _file(result_dir: Path, question: OpenQuestion) -> Path:
    return result_dir / "approvals" / f"{question.number:04d}.json"
