"""Every kind of entry survives the journal, only what the tables allow can stand in one, and any beginning of
a journal is a state."""

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from harness.codec import MisfitError, decode, encode
from harness.config.edit import Scalar
from harness.experiment import Experiment
from harness.journal import Entry, Event, ImpossibleEventError, JournalDamagedError, Recorded, read
from harness.journal.events import RUN, Created, Intent
from harness.journal.order import Marks, Order
from harness.pending_changes import PREPARING
from harness.providers.chat import Usage
from harness.sweep.state import SWEEP, Sweep, SweepCreated
from tests.harness.runs import created
from tests.harness.sweep.sweep_states import plan

TEXT = st.text(max_size=8)
RUNS = st.sampled_from(["p01-s0", "p02-s0", "p01-s1"])
st.register_type_strategy(float, st.floats(allow_nan=False))
st.register_type_strategy(Path, TEXT.map(Path))
st.register_type_strategy(object, st.none() | st.booleans() | st.integers() | TEXT)
LAUNCH = {"attempt": 1, "session": "ajet_x", "attempt_id": "7f3a-01", "why": "first"}
ACTIONS = (*PREPARING, "launch", "wait", "stop", "check", "diagnose", "collect", "report", "finish", "note")


def events(kind: type[Event]) -> st.SearchStrategy[Any]:
    """Events of one class: any values that its annotations allow, under names that go together."""
    if kind is Created:
        return st.just(created())
    if kind is SweepCreated:
        return st.just(SweepCreated("5eed", plan({"lr": (1, 2)}, (0, 1))))
    if kind is Intent:
        return st.builds(Intent, st.sampled_from(ACTIONS), st.just({**ARGUMENTS, **LAUNCH}), st.just({}))
    known = {"run": RUNS, "event": st.sampled_from(["first_step", "hang"]), "args": st.just({"why": "w"})}
    hints = get_type_hints(kind)
    given_ = {name: known[name] for name in known.keys() & hints.keys()}
    if "written" in hints:
        given_["written"] = st.just({"section": "findings"})
    if "usage" in hints:
        given_["usage"] = st.dictionaries(
            st.sampled_from([each.name for each in fields(Usage)]), st.integers()
        )
    if "action" in {field.name for field in fields(kind)}:
        given_["action"] = st.sampled_from(ACTIONS)
    return st.builds(kind, **given_)


ARGUMENTS: dict[str, Any] = {
    **{"changes": {"a": 1}, "remove": [], "settings": {}, "name": "X", "value": "1", "path": "p", "old": "o"},
    **{"new": "n", "package": "tqdm", "what": "processes", "limit": "open_files", "remedy": "", "why": "w"},
}
KINDS = [(order, kind) for order in (RUN, SWEEP) for kind in order.rows]


@pytest.mark.parametrize(("order", "kind"), KINDS, ids=lambda each: getattr(each, "kind", ""))
def test_every_event_is_read_back_as_it_was_written(order: Order, kind: type[Event]) -> None:
    @settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
    @given(event=events(kind))
    def holds(event: Event) -> None:
        assert order.decode(kind.kind, json.loads(json.dumps(encode(event)))) == event

    holds()


def walks(order: Order, longest: int = 25) -> st.SearchStrategy[list[tuple[Event, Marks]]]:
    """Legal journals: at each step one of the events that may follow; each with the marks after it."""

    @st.composite
    def walk(draw: Callable[..., Any]) -> list[tuple[Event, Marks]]:
        taken: list[tuple[Event, Marks]] = []
        marks: Marks = frozenset()
        for kind in [
            order.first,
            *draw(st.lists(st.sampled_from(list(order.rows)), min_size=longest // 2, max_size=longest)),
        ]:
            event = draw(events(kind))
            try:
                marks = order.after(marks, event)
            except ImpossibleEventError:
                continue
            taken.append((event, marks))
        return taken

    return walk()


@pytest.mark.parametrize("folder", [Experiment, Sweep], ids=["run", "sweep"])
def test_any_beginning_of_a_journal_is_a_state(folder: type[Recorded[Any]]) -> None:
    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(walk=walks(folder.ORDER))
    def holds(walk: list[tuple[Event, Marks]]) -> None:
        entries = [Entry(number, 1.0 * number, event) for number, (event, _) in enumerate(walk, start=1)]
        state = folder.FOLD.first
        for number, entry in enumerate(entries, start=1):
            state = folder.FOLD.apply(state, entry)
            assert state == folder.FOLD.fold(entries[:number])
            assert isinstance(state.phase, str)

    holds()


@pytest.mark.parametrize("order", [RUN, SWEEP], ids=["run", "sweep"])
def test_what_cannot_follow_is_refused_with_its_line(
    order: Order, tmp_path_factory: pytest.TempPathFactory
) -> None:
    refused: set[str] = set()

    @settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(walk=walks(order), data=st.data())
    def holds(walk: list[tuple[Event, Marks]], data: st.DataObject) -> None:
        marks = walk[-1][1]
        path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
        for kind in order.rows:
            event = data.draw(events(kind))
            try:
                order.after(marks, event)
            except ImpossibleEventError:
                refused.add(kind.kind)
                everything = [*(event for event, _ in walk), event]
                lines = (Entry(seq, 1.0, each).to_line() for seq, each in enumerate(everything, start=1))
                path.write_bytes(b"".join(lines))
                with pytest.raises(JournalDamagedError, match=f":{len(everything)}: `{kind.kind}` cannot"):
                    read(path, order)

    holds()
    bound = {kind.kind for kind, row in order.rows.items() if row.needs.strip() or row.bars.strip()}
    assert bound <= refused, "each row that asks for something was seen to refuse"


@pytest.mark.parametrize("data", [{"by": 1}, {"by": "me", "why": "?"}, {}, []])
def test_an_entry_that_its_class_does_not_describe_is_refused(data: Any) -> None:
    with pytest.raises(MisfitError):
        RUN.decode("stop_asked", data)


def test_a_journal_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    line = Entry(1, 1.0, Created("7f3a", "x", 9.0, "playbook", created().blueprint, version=3)).to_line()
    path.write_bytes(line)
    with pytest.raises(JournalDamagedError, match=r"journal\.jsonl:1: this journal has format 3"):
        read(path)


@given(value=st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT)
@example("half of a character: \udc80")
def test_a_scalar_keeps_its_type(value: Scalar) -> None:
    kind: Any = Scalar
    again = decode(kind, json.loads(json.dumps(encode(value))))
    assert again == value and type(again) is type(value)
