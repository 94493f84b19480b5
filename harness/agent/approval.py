"""Questions to a person: asked for in the journal, answered by a file.

Two things are asked: whether an action may be done, which waits for the answer, and what the agent wants to
know or be allowed (`ask_person`), beside which the run goes on. `harness approve` and `harness deny` (or a
key in the run's own terminal) write `approvals/NNN.json` beside the journal, where NNN is the number of the
entry that asked. A kill in between asks the same question again, and an answer given meanwhile counts.
`harness tell` leaves its words there, too. A run of a sweep that waits ends with the exit status
`GIVES_WAY`, and is started again with the answer.
"""

import asyncio
import hashlib
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from harness.actions import Action, AskPerson, EditConfig, action_of_entry, arguments
from harness.atomic_write import write_json
from harness.blueprint.names import UNATTENDED
from harness.command import CommandError
from harness.config.edit import ConfigEditError
from harness.environment import known_secrets
from harness.experiment import Experiment
from harness.journal import Entry, events
from harness.pending_changes import PREPARING, Change, edit_of
from harness.redaction import redact
from harness.repair import apply_changes
from harness.results.text import clean_diff, spelled
from harness.state import ExperimentState
from harness.wording import answering, duration, time_text
from monitors.alarms import until

LOOK_EVERY_S = 0.5
GIVES_WAY = 75
"""Exit status of a run of a sweep that gives its slot back while a person is asked (sysexits' TEMPFAIL)."""
FOR_ALL = ", for all runs of the sweep that ask the same"
_OF_ONE_RUN = ("session", "attempt_id", "why", "remedy")
CAN_BE_ASKED = ("launch", "stop", *PREPARING)
"""Actions that a person may want to be asked about: a run can end without any of them."""


@dataclass(frozen=True)
class Answer:
    """A person's answer: `yes`, `no`, or an option. `modified`: do it with these arguments instead (of an
    action), or allow these changes (key to value)."""

    answer: str
    by: str
    because: str = ""
    modified: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class OpenQuestion:
    """What waits for a person's answer; `number` is that of the journal's entry."""

    number: int
    action: str
    args: Mapping[str, Any]
    options: tuple[str, ...] = ()
    asked_at: float = 0.0
    shown: str = ""

    @property
    def text(self) -> str:
        """The question, with its diff whole, and nothing that a terminal would obey."""
        return spelled(self._words)

    @property
    def _words(self) -> str:
        if self.action == AskPerson.kind:
            held = f"without an answer until {time_text(self.args['until'])} it is: {self.args['default']}"
            return "\n".join(filter(None, (self.args["question"], self.shown.rstrip(), held)))
        if self.shown:
            why = "" if self.args.get("remedy") else "for this reason, in the model's words: "
            return f"{self.action}, {why}{self.args['why']}\n{self.shown.rstrip()}"
        ids = ("session", "attempt_id")
        args = ", ".join(f"{name}: {value}" for name, value in self.args.items() if name not in ids)
        return f"{self.action} ({args})" if args else self.action

    @property
    def choices(self) -> tuple[str, ...]:
        return self.options or ("yes", "no")

    def commands(self, folder: Path) -> list[str]:
        """What answers it on a command line."""
        return answering(str(folder), self.options)

    def alike(self, folder: Path) -> str:
        """The same for all runs that ask the same: about this change, whatever the words, or these options.
        `folder`: of the run that asks, whose own path and name make no difference."""
        own: Any = {name: value for name, value in self.args.items() if name not in _OF_ONE_RUN}
        if self.action == AskPerson.kind:
            own = self.args["changes"] or [self.args["question"], self.options, self.args["default"]]
        text = json.dumps([self.action, own], sort_keys=True, ensure_ascii=False, default=str)
        text = text.replace(str(folder), "…").replace(folder.name, "…")
        return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


def is_needed(action: Action, state: ExperimentState) -> bool:
    """True if a person is asked first: for what they wanted to be asked about, and for every change of
    code that neither the run's options nor the author allowed beforehand."""
    asked_about = {action.kind, *(["edit_config"] if isinstance(action, EditConfig) else [])}
    if asked_about & {*state.options.approve}:
        return True
    is_allowed = state.options.allow_code_changes or UNATTENDED in state.blueprint.code_changes
    return action.kind == "patch_code" and not is_allowed


def open_question(entries: Sequence[Entry]) -> OpenQuestion | None:
    """The newest question without an answer; first the one that the run waits for. None once the results were
    collected: nothing follows from an answer then."""
    if any(isinstance(entry.event, events.Collected) for entry in entries):
        return None
    question, granted = _newest(entries)
    if question is not None:
        return None if granted else question
    answered = {entry.event.number for entry in entries if isinstance(entry.event, events.PersonAnswered)}
    for entry in reversed(entries):
        asked = entry.event
        if isinstance(asked, events.PersonAsked) and not asked.error and entry.seq not in answered:
            args: dict[str, Any] = {name: getattr(asked, name) for name in ("question", "default", "until")}
            args["changes"] = [(each.kind, each.what, each.old, each.new) for each in asked.changes]
            return OpenQuestion(entry.seq, AskPerson.kind, args, asked.options, entry.time, asked.shown)
    return None


def _newest(entries: Sequence[Entry]) -> tuple[OpenQuestion | None, events.Approved | None]:
    """The newest action asked about that is not settled, and a person's yes to it."""
    question: OpenQuestion | None = None
    granted: events.Approved | None = None
    for entry in entries:
        event = entry.event
        if isinstance(event, events.ApprovalAsked):
            about = (event.action, event.args, (), entry.time, event.shown)
            question, granted = OpenQuestion(entry.seq, *about), None
        elif isinstance(event, events.Approved):
            granted = event
        elif isinstance(event, events.ActionResult | events.Refused):
            question, granted = None, None
    return question, granted


def is_answered(result_dir: Path, question: OpenQuestion) -> bool:
    """True if a person's answer is there."""
    return answer_file(result_dir, question.number).exists()


def answer(result_dir: Path, number: int, given: Answer) -> None:
    """Write a person's answer to the question of this number; the first one counts."""
    if not answer_file(result_dir, number).exists():
        write_json(_folder(result_dir) / answer_file(result_dir, number).name, asdict(given))


def share(asked: Mapping[Path, int]) -> None:
    """Give a person's answer to one of these runs to all of them; they ask the same. `asked`: folder and
    number."""
    given = next(filter(None, (_answer_in(folder, number) for folder, number in asked.items())), None)
    if given is None:
        return
    by = given.by if given.by.endswith(FOR_ALL) else given.by + FOR_ALL
    for folder, number in asked.items():
        if folder.exists():
            answer(folder, number, replace(given, by=by))


def tell(result_dir: Path, text: str, by: str) -> None:
    """Leave a word for the agent, which it sees at its next decision."""
    folder = _folder(result_dir)
    number = sum(1 for _ in folder.glob("word-*.json")) + 1
    scratch = folder / f".{uuid.uuid4().hex}"
    write_json(scratch, {"text": text, "by": by})
    while not _linked(scratch, folder / f"word-{number:04d}.json"):  # somebody else said something meanwhile
        number += 1
    scratch.unlink()


def _linked(scratch: Path, path: Path) -> bool:
    with suppress(FileExistsError):
        path.hardlink_to(scratch)
        return True
    return False


async def ask(
    experiment: Experiment, action: Action, still_wanted: Callable[[], bool], woken: asyncio.Event
) -> tuple[Action, str | None]:
    """Wait for a person's answer: the action to be done, and why it may not be. `still_wanted` says whether
    the question stands; `woken` is set when something else wants attention."""
    args = arguments(action)
    question, granted = _newest(experiment.journal.entries)
    if question is None or (question.action, question.args) != (action.kind, args):
        try:
            shown = apply_changes.preview(action, experiment)
        except apply_changes.UNDOABLE as error:
            return action, redact(str(error))
        experiment.record(events.ApprovalAsked(action.kind, args, judged(shown, experiment.dir)))
        question, granted = _newest(experiment.journal.entries)
        assert question is not None
    if granted is None:
        until = question.asked_at + experiment.state.options.patience_s
        while not is_answered(experiment.dir, question) and experiment.clock() < until:
            if not still_wanted():
                return action, "what it was for is over, and there was no answer"
            with suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), LOOK_EVERY_S)
                woken.clear()
        given, waited_s = _given(experiment, question.number), _waited_s(experiment, question.asked_at)
        if given.answer != "yes":
            experiment.record(events.Denied(action.kind, args, given.by, given.because, waited_s))
            why = f": {given.because}" if given.because else ""
            return action, f"a person did not approve this ({given.by}){why}"
        granted = events.Approved(action.kind, given.by, given.modified, waited_s)
        experiment.record(granted)
    changed = {**args, **(granted.args or {})}
    return (action if changed == args else action_of_entry(action.kind, changed)), None


def signed(result: events.ActionResult, experiment: Experiment) -> events.ActionResult:
    """The outcome of an action that was just carried out: where a person had it done otherwise than it was
    asked about, its changes are theirs."""
    granted = _newest(experiment.journal.entries)[1]
    if granted is None or not granted.args or not isinstance(result, events.ChangePrepared):
        return result
    return replace(result, changes=tuple(replace(each, allowed_by=granted.by) for each in result.changes))


def judged(diff: str, result_dir: Path) -> str:
    """A diff as it is shown to the person who judges it: every added line whole."""
    return clean_diff(diff, known_secrets(result_dir))


def put(action: AskPerson, experiment: Experiment) -> events.PersonAsked:
    """A question beside which the run goes on, with what it would change as a diff."""
    changes, shown = tuple[Change, ...](), ""
    if action.changes:
        edit = EditConfig(changes=action.changes, why=action.why, remedy=action.remedy)
        try:
            changes, shown = apply_changes.edited(edit, experiment)
        except (CommandError, ConfigEditError) as error:
            return events.PersonAsked(action.question, error=redact(str(error)))
        if not changes:
            return events.PersonAsked(action.question, error="nothing would change: it is so already")
    until = experiment.clock() + experiment.state.options.patience_s
    default, shown = action.default or "no", judged(shown, experiment.dir)
    return events.PersonAsked(action.question, action.options, default, changes, shown, until)


async def wait_for_answer(experiment: Experiment) -> bool:
    """True when one of the questions beside which the run goes on is answered, or its time is over, or when
    a person has said something else."""
    asked = experiment.state.questions
    left_s = min(each.until for each in asked.values()) - experiment.clock()
    heard = until(
        lambda: bool(_settled(experiment) or _unheard(experiment)), answer_file(experiment.dir, max(asked))
    )
    with suppress(TimeoutError):
        await asyncio.wait_for(heard, max(0.0, left_s))
    return True


def hear(experiment: Experiment) -> None:
    """Record what people have answered and said since the last look, and the defaults of questions whose
    time is over."""
    for number in _settled(experiment):
        asked = experiment.state.questions[number]
        given, changes = _given(experiment, number, asked.default), tuple[Change, ...]()
        because = given.because
        if asked.changes and given.answer == "yes":
            wanted = given.modified or edit_of(asked.changes)["changes"]
            because_of = asked.changes[0]
            edit = EditConfig(changes=dict(wanted), why=because_of.why, remedy=because_of.remedy)
            try:
                changes, _ = apply_changes.edited(edit, experiment, allowed_by=given.by)
            except (CommandError, ConfigEditError) as error:
                because = f"allowed, but it cannot be made: {error}"
        waited_s = _waited_s(experiment, experiment.journal.entries[number - 1].time)
        told = (asked.question, given.answer, given.by, because)
        experiment.record(events.PersonAnswered(number, *told, changes, waited_s))
    for path in _unheard(experiment):
        experiment.record(events.PersonSaid(**json.loads(path.read_text(encoding="utf-8"))))


def _unheard(experiment: Experiment) -> list[Path]:
    """Words of people that are not in the journal yet, in their order."""
    heard = sum(1 for _ in experiment.journal.of(events.PersonSaid))
    return sorted((experiment.dir / "approvals").glob("word-*.json"))[heard:]


def _settled(experiment: Experiment) -> list[int]:
    """The questions beside which the run goes on that have an answer, or whose time is over."""
    now = experiment.clock()
    return [
        number
        for number, asked in experiment.state.questions.items()
        if now >= asked.until or answer_file(experiment.dir, number).exists()
    ]


def _given(experiment: Experiment, number: int, default: str = "no") -> Answer:
    """The answer that is there, or the default."""
    nobody = Answer(default, f"nobody answered within {duration(experiment.state.options.patience_s)}")
    return _answer_in(experiment.dir, number) or nobody


def _answer_in(result_dir: Path, number: int) -> Answer | None:
    with suppress(FileNotFoundError):
        return Answer(**json.loads(answer_file(result_dir, number).read_text(encoding="utf-8")))
    return None


def _waited_s(experiment: Experiment, since: float) -> float:
    """How long nothing ran because of a question, which the experiment's time limit does not count."""
    attempt = experiment.state.attempt
    if attempt is not None and attempt.is_running:
        return 0.0
    ended_at = attempt.ended.ended_at if attempt is not None and attempt.ended is not None else None
    counted = (
        entry.time for entry in experiment.journal.entries if isinstance(entry.event, events.PersonAnswered)
    )
    return max(0.0, experiment.clock() - max(since, ended_at or since, *counted))


def _folder(result_dir: Path) -> Path:
    folder = result_dir / "approvals"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def answer_file(result_dir: Path, number: int) -> Path:
    """Where the answer to this question stands, or will."""
    return result_dir / "approvals" / f"{number:04d}.json"
