"""What is folded from a journal for the report: repairs, deviations, notes, money."""

from hypothesis import given
from hypothesis import strategies as st

from harness.pending_changes import Change
from harness.results.deviations import net
from harness.results.summary import run_summary
from tests.harness.results.journals import Story
from tests.harness.results.synthetic import START

MINUTE = 60.0


def repairs(story: Story) -> list[str | None]:
    return [attempt.repair for attempt in run_summary(story.entries).attempts]


def test_a_repair_says_what_was_changed() -> None:
    story = Story().created().attempt(1, "out of memory").edit("less", ajet__rollout__x=(4, 2))
    story.variable("less", "PYTORCH_ALLOC", "small").edit("less", new__key=(None, True))
    story.remove("misspelt", "ajet.foo", 8).attempt(2, "again", "step_000020")
    story.patch("a slip", "train.py", "a", "b").attempt(3)
    assert repairs(story) == [
        "started again from its checkpoint step_000020, with ajet.rollout.x 4 → 2, "
        "PYTORCH_ALLOC set to small, new.key set to true, ajet.foo (8) taken out",
        "started again from the beginning, with train.py corrected",
        None,
    ]


def test_a_repair_without_a_change_says_so() -> None:
    story = Story().created().attempt(1, "port in use").attempt(2, "again").attempt(3, "", "step_000020")
    assert repairs(story) == [
        "started again from the beginning, without a change",
        "started again from its checkpoint step_000020, without a change",
        None,
    ]


def test_a_repair_of_many_changes_stays_a_sentence() -> None:
    keys = {f"key_{number}": (0, 1) for number in range(9)}
    story = Story().created().attempt(1, "x").edit("y", **keys).attempt(2)
    assert str(repairs(story)[0]).endswith("key_5 0 → 1 and 3 more")


def test_changes_belong_to_the_attempt_that_runs_with_them() -> None:
    story = Story().created().edit("the disk is small", save_freq=(10, 50)).attempt(1, "x")
    story.variable("fewer", "OMP_NUM_THREADS", "2").attempt(2)
    first, second = run_summary(story.entries).attempts
    assert first.changes == (Change("config", "save_freq", 10, 50, "the disk is small"),)
    assert second.changes == (Change("environment", "OMP_NUM_THREADS", None, "2", "fewer"),)
    assert first.settings == second.settings == ()


def test_what_was_refused_or_failed_is_no_change() -> None:
    story = Story().created().attempt(1, "x")
    story.act("edit_config", {"changes": {"a": 1}, "remove": [], "why": ""}, error="nothing would change")
    story.add("refused", action="edit_config", args={"changes": {"lr": 1}}, why="lr is studied").attempt(2)
    assert run_summary(story.entries).attempts[1].changes == ()


def test_an_undone_change_is_none_and_two_of_one_key_are_one() -> None:
    story = Story().created().attempt(1, "x").edit("a", x=(4, 2), y=(1, 2)).edit("b", x=(2, 4), y=(2, 3))
    story.edit("c", z=(None, 1)).remove("d", "z", 1).attempt(2)
    assert run_summary(story.entries).attempts[1].changes == (Change("config", "y", 1, 3, "b"),)


values = st.sampled_from([None, False, 0, 1, True, "1", 2.5])


@given(st.dictionaries(st.sampled_from("abc"), values), st.lists(st.tuples(st.sampled_from("abc"), values)))
def test_net_changes_lead_where_all_of_them_lead(start: dict, edits: list[tuple]) -> None:
    config = {"a": None, "b": None, "c": None, **start}
    before, changes = dict(config), []
    for key, value in edits:
        changes.append(Change("config", key, config[key], value, "x"))
        config[key] = value
    for change in net(changes):
        assert repr(before[change.what]) == repr(change.old)
        before[change.what] = change.new
    assert repr(before) == repr(config)
    assert len({change.what for change in net(changes)}) == len(net(changes))


def test_a_rendered_config_is_chosen_and_its_later_repairs_deviate() -> None:
    story = Story().created().render("first try", lr=1e-6, seed=1, gone=2).render("better", lr=1e-5, seed=1)
    story.edit("a slip", ajet__x=(1, 2)).variable("fewer", "OMP_NUM_THREADS", "2")
    story.attempt(1, "x").edit("less", ajet__x=(2, 1)).attempt(2)
    first, second = run_summary(story.entries).attempts
    assert [(change.what, change.new) for change in first.settings] == [
        ("lr", 1e-5),
        ("seed", 1),
        ("ajet.x", 2),
    ]
    assert [change.what for change in first.changes] == ["OMP_NUM_THREADS"]
    assert [change.what for change in second.changes] == ["ajet.x"] and second.settings == ()


def test_old_journals_tell_nothing_new() -> None:
    told = run_summary(Story().created("playbook").attempt(1).ended().entries)
    assert (told.llm, told.narrative, told.remarks, told.unused, told.events) == (None, {}, (), (), ())
    assert told.attempts[0].changes == told.attempts[0].settings == ()


def test_remarks_stand_with_the_newest_attempt_and_repeats_once() -> None:
    story = Story().created().act("note", {"text": "a"}, text="a").attempt(1, "x")
    for _ in range(3):
        story.asked(1).add("refused", action="stop", args={"why": "plateau", "detail": "d"}, why="wait")
    story.act("note", {"text": "b"}, text="b").attempt(2)
    told = [(note.attempt, note.kind, note.text) for note in run_summary(story.entries).remarks]
    assert told == [(None, "note", "a"), (1, "refused", "stop: wait (3 times)"), (1, "note", "b")]


def events(story: Story) -> list[tuple[str, str]]:
    return [(note.kind, note.text) for note in run_summary(story.entries).events]


def test_the_time_line_shows_when_a_model_was_asked_and_what_came_of_it() -> None:
    story = Story().created().add("consult", topic="failure:1", why="no built-in repair", facts={}).asked(1)
    story.add("consulted", topic="failure:1", why="it has been acted on")
    assert events(story) == [
        ("language model asked", "no built-in repair (failure:1)"),
        ("language model done", "it has been acted on (failure:1)"),
    ]


def test_an_outage_is_one_note_from_its_begin_to_its_end() -> None:
    story = Story().created().add("consult", topic="failure:1", why="x")
    for call in (1, 2):
        story.add("llm_reserved", call=call, reserved_usd=0.1, model="m", request="x")
        story.add("llm_retried", call=call, error="overloaded", tries=1, cost_usd=0.0, reserved_usd=0.1)
        story.add("llm_failed", call=call, cost_usd=0.0, is_estimated=False, error="gave up", tries=9)
    story.asked(3).add("consulted", topic="failure:1", why="y")
    (outage,) = [note for note in run_summary(story.entries).events if note.kind.startswith("no answer")]
    assert outage.time == START + 3 * MINUTE
    assert outage.text == "until 2025-10-09 09:02:20 UTC, for 6 min 0 s: overloaded"


def test_a_persons_answers_stand_in_the_time_line() -> None:
    story = Story().created().add("approval_asked", action="launch", args={})
    story.add("approved", action="launch", by="ada").add("denied", action="stop", by="bob")
    assert events(story) == [("approved by a person", "launch (ada)"), ("refused by a person", "stop (bob)")]


def test_costs_are_summed_and_doubts_are_said() -> None:
    story = Story().created().asked(1).asked(2)
    llm = run_summary(story.entries).llm
    assert llm is not None and llm.cost == "0.0250 USD"
    assert llm.tokens == "20 400 input tokens (18 000 from the cache), 600 output tokens"
    story.add("llm_reserved", call=3, reserved_usd=0.05, model="acme:wise-1", request="x")
    llm = run_summary(story.entries).llm
    assert llm is not None and llm.calls == 3
    assert llm.cost == "at most 0.0750 USD (1 call cut off before the price was known)"
    llm = run_summary(story.asked(4, None).entries).llm
    assert llm is not None and llm.cost.endswith("known), and 1 call of unknown price")


def test_an_unknown_price_is_not_nothing_and_a_free_model_is() -> None:
    unknown = run_summary(Story().created().asked(1, None).entries).llm
    free = run_summary(Story().created().asked(1, 0.0).entries).llm
    assert unknown is not None and unknown.cost == "price unknown"
    assert free is not None and free.cost == "0.00 USD"
