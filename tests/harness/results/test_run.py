"""What is folded from a journal for the report: repairs, deviations, notes, money."""

from hypothesis import given
from hypothesis import strategies as st

from harness.pending_changes import Change
from harness.results.deviations import chosen, deviating, net
from harness.results.run import ModelUse, RunStory
from tests.harness.results.journals import Story
from tests.harness.results.synthetic import START


def run(story: Story) -> RunStory:
    return RunStory.of(story.entries)


def repairs(story: Story) -> list[str]:
    return [run(story).repair_after(attempt.number) for attempt in run(story).attempts]


def changes(story: Story) -> list[tuple[Change, ...]]:
    return [deviating(attempt.draft) for attempt in run(story).attempts]


def test_a_repair_says_what_was_changed() -> None:
    story = Story().created().attempt(1, "out of memory").edit("less", ajet__rollout__x=(4, 2))
    story.variable("less", "PYTORCH_ALLOC", "small").edit("less", new__key=(None, True))
    story.remove("misspelt", "ajet.foo", 8).attempt(2, "again", "step_000020")
    story.patch("a slip", "train.py", "a", "b").attempt(3, "once more").attempt(4)
    assert repairs(story) == [
        "started again from its checkpoint step_000020, with ajet.rollout.x 4 → 2, "
        "PYTORCH_ALLOC set to small, new.key set to true, ajet.foo (8) taken out",
        "started again from the beginning, with train.py corrected",
        "started again from the beginning, without a change",
        "",
    ]
    many = {f"key_{number}": (0, 1) for number in range(9)}
    story = Story().created().attempt(1, "x").edit("y", **many).attempt(2)
    assert repairs(story)[0].endswith("key_5 0 → 1 and 3 more"), "it stays a sentence"


def test_changes_belong_to_the_attempt_that_runs_with_them() -> None:
    story = Story().created().edit("the disk is small", save_freq=(10, 50)).attempt(1, "x")
    story.variable("fewer", "OMP_NUM_THREADS", "2").attempt(2, "x")
    story.act("edit_config", {"changes": {"a": 1}, "remove": [], "why": ""}, error="nothing would change")
    story.add("refused", action="edit_config", args={"changes": {"lr": 1}}, why="lr is studied").attempt(3)
    assert changes(story) == [
        (Change("config", "save_freq", 10, 50, "the disk is small"),),
        (Change("environment", "OMP_NUM_THREADS", None, "2", "fewer"),),
        (),
    ]


values = st.sampled_from([None, False, 0, 1, True, "1", 2.5])


@given(st.dictionaries(st.sampled_from("abc"), values), st.lists(st.tuples(st.sampled_from("abc"), values)))
def test_net_changes_lead_where_all_of_them_lead(start: dict, edits: list[tuple]) -> None:
    config = {"a": None, "b": None, "c": None, **start}
    before, made = dict(config), []
    for key, value in edits:
        if repr(config[key]) == repr(value):
            continue
        made.append(Change("config", key, config[key], value, "x"))
        config[key] = value
    for change in net(made):
        assert repr(before[change.what]) == repr(change.old) != repr(change.new)
        before[change.what] = change.new
    assert repr(before) == repr(config)
    assert len({change.what for change in net(made)}) == len(net(made))


def test_a_rendered_config_is_chosen_and_its_later_repairs_deviate() -> None:
    story = Story().created().render("first try", lr=1e-6, seed=1, gone=2).render("better", lr=1e-5, seed=1)
    story.edit("a slip", ajet__x=(1, 2)).variable("fewer", "OMP_NUM_THREADS", "2")
    story.attempt(1, "x").edit("less", ajet__x=(2, 1)).attempt(2)
    settings = [[(one.what, one.new) for one in chosen(attempt.draft)] for attempt in run(story).attempts]
    assert settings == [[("lr", 1e-5), ("seed", 1), ("ajet.x", 2)], []]
    assert [[one.what for one in made] for made in changes(story)] == [["OMP_NUM_THREADS"], ["ajet.x"]]


def test_remarks_stand_with_the_newest_attempt_and_repeats_once() -> None:
    story = Story().created().act("note", {"text": "a"}, text="a").attempt(1, "x")
    for _ in range(3):
        story.asked(1).add("refused", action="stop", args={"why": "plateau", "detail": "d"}, why="wait")
    story.act("note", {"text": "b"}, text="b").attempt(2)
    told = [(note.attempt, note.kind.split()[0], note.text) for note in run(story).remarks]
    assert told == [(None, "noted", "a"), (1, "refused", "stop: wait (3 times)"), (1, "noted", "b")]


def test_the_time_line_shows_when_a_model_or_a_person_was_asked_and_what_came_of_it() -> None:
    story = Story().created().add("consult", topic="failure:1", why="no built-in repair", facts={}).asked(1)
    story.add("consulted", topic="failure:1", why="it has been acted on")
    story.add("approval_asked", action="launch", args={})
    story.add("approved", action="launch", by="ada").add("denied", action="stop", by="bob")
    assert [(note.kind, note.text) for note in run(story).events] == [
        ("language model asked", "no built-in repair (failure:1)"),
        ("language model done", "it has been acted on (failure:1)"),
        ("approved by a person", "launch (ada)"),
        ("refused by a person", "stop (bob)"),
    ]


def test_an_outage_is_one_note_from_its_begin_to_its_end() -> None:
    story = Story().created().add("consult", topic="failure:1", why="x")
    for call in (1, 2):
        story.add("llm_reserved", call=call, reserved_usd=0.1, model="m", request="x")
        story.add("llm_retried", call=call, error="overloaded", tries=1, cost_usd=0.0, reserved_usd=0.1)
        story.add("llm_failed", call=call, cost_usd=0.0, is_estimated=False, error="gave up", tries=9)
    story.asked(3).add("consulted", topic="failure:1", why="y")
    asked, outage, _ = run(story).events
    assert (asked.kind, outage.time) == ("language model asked", START + 3 * 60.0)
    assert outage.text == "until 2025-10-09 09:02:20 UTC, for 6 min 0 s: overloaded"


def use(story: Story) -> ModelUse:
    llm = run(story).llm
    assert llm is not None
    return llm


def test_costs_are_summed_and_doubts_are_said() -> None:
    story = Story().created().asked(1).asked(2)
    assert use(story).cost == "0.0250 USD"
    assert use(story).tokens == "20400 input tokens (18000 from the cache), 600 output tokens"
    story.add("llm_reserved", call=3, reserved_usd=0.05, model="acme:wise-1", request="x")
    assert use(story).calls == 3
    assert use(story).cost == "at most 0.0750 USD (1 call cut off before the price was known)"
    assert use(story.asked(4, None)).cost.endswith("known), and 1 call of unknown price")
    assert use(Story().created().asked(1, None)).cost == "price unknown"
    assert use(Story().created().asked(1, 0.0)).cost == "0.00 USD"
