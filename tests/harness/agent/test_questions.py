"""When a model is asked: never while nothing is in question, and about each thing once."""

import math
from dataclasses import replace
from typing import Any

import pytest

from harness.actions import TOOLS, Action, Check, Collect, Report, Wait
from harness.agent.questions import moved_on, next_look_s, question, tools
from harness.llm_use import WORDS, LlmUse
from harness.observation import Observation, Progress
from harness.options import RunOptions
from harness.pending_changes import PendingChanges
from harness.state import AttemptState, Verdict
from monitors.rules import Health
from tests.harness.runs import end, found, planned, state_with, typed

HOUR = 3600.0
CHECKED = {"prepared": True, "checked": {"can_run": True}, "deadline_at": 24 * HOUR}
STARTED = state_with(plan={"yaml_path": "c.yaml", "launch_command": "train"}, **CHECKED)
RUNNING = AttemptState(1, "ajet_x", "7f3a-01", "first", launched_at=0.0)
BUG = found({"cause": "The training raised KeyError."})
FAILED = replace(RUNNING, ended=end({"complete": False, "reason": "exited", "status": 1}), diagnosis=BUG)
DONE = replace(RUNNING, ended=end({"complete": True, "reason": "exited", "status": 0}))
HUNG = Health(fatal=("no output for 3 h",))
FLAT = Health(plateau="5 validations within 0.01", second_half=True)


LONG = Progress(2 * HOUR, 0.4)
QUIET_MODEL = RunOptions("llm", quiet_model=True)


def seen(
    *attempts: AttemptState,
    now: float = HOUR,
    health: Health = Health(),
    progress: Progress | None = None,
    options: RunOptions = RunOptions("llm"),
    **state: Any,
) -> Observation:
    then = replace(STARTED, attempts=attempts, options=options, **typed(state))
    return Observation(then, now, health=health, progress=progress, config="a: 1")


def topic(observation: Observation, fallback: Action) -> str | None:
    asked = question(observation, fallback)
    return asked.topic if asked else None


REPORTED: dict[str, Any] = {"collected": {"outcome": "succeeded", "reason": ""}, "reported": {}}
NO_CONFIG = planned({"yaml_path": None, "launch_command": None})
PATCHABLE = {"code_changes": ("train.py", "without asking")}
UNASKED = RunOptions("llm", answer_within_s=0.0)


@pytest.mark.parametrize(
    ("plan", "options", "missing"),
    [
        (
            {"launch_command": "python t.py"},
            UNASKED,
            "list_keys read_config edit_config patch_code ask_person name_cause",
        ),
        ({"launch_command": "python t.py", **PATCHABLE}, RunOptions(), "list_keys read_config edit_config"),
        ({"launch_command": None, **PATCHABLE}, RunOptions(), "edit_arguments"),
        ({"launch_command": "t --conf c.yaml", "yaml_path": "c.yaml", **PATCHABLE}, RunOptions(), ""),
    ],
)
def test_a_question_is_sent_the_tools_that_it_can_use_in_this_run(
    plan: dict[str, Any], options: RunOptions, missing: str
) -> None:
    known = replace(FAILED, diagnosis=replace(BUG, only_nominated="name_cause" not in missing))
    state = state_with(plan={"yaml_path": None, **plan}, options=options, attempts=(known,))
    sent = {tool.kind for tool in tools("failure", state)}
    assert {tool.kind for tool in TOOLS["failure"]} - sent == {*missing.split()}


QUIET: dict[str, tuple[Observation, Action]] = {
    "before anything": (seen(prepared=False), Check()),
    "a healthy training": (seen(RUNNING), Wait()),
    "a short healthy training": (seen(RUNNING, progress=Progress(1700.0, 0.4)), Wait()),
    "a long one with --quiet-model": (seen(RUNNING, progress=LONG, options=QUIET_MODEL), Wait()),
    "flat, but in its first half": (seen(RUNNING, health=Health(plateau="flat")), Wait()),
    "a training that ended well": (seen(DONE), Collect()),
    "a training that a person stopped": (seen(replace(FAILED, stop_reason="person")), Collect()),
    "a stop asked for": (seen(FAILED, stop_asked="somebody"), Collect()),
    "a failure after the deadline": (seen(FAILED, now=25 * HOUR), Collect()),
    "a failure that the playbook can fix": (seen(FAILED), Check()),
    "a fifth failure": (seen(*[replace(FAILED, number=n) for n in range(1, 6)]), Collect()),
    "a launch that a person denied": (seen(FAILED, denied=frozenset({"launch"})), Collect()),
    "a run that never launched": (seen(collected={"outcome": "cannot_run", "reason": ""}), Report()),
    "a report that is not written yet": (seen(DONE, collected={"outcome": "failed", "reason": ""}), Report()),
    "a run of a sweep": (seen(DONE, **REPORTED, options=RunOptions(words=False)), Report()),
    "words that never came": (seen(DONE, **REPORTED, llm=LlmUse(unanswered={WORDS: "?"})), Report()),
    "a finished run": (seen(DONE, verdict=Verdict("x", "y")), Report()),  # type: ignore[arg-type]
    "a rendered config": (seen(blueprint=NO_CONFIG, draft=PendingChanges(settings={"lr": 1e-5})), Check()),
}  # fmt: skip


@pytest.mark.parametrize("name", QUIET)
def test_no_call_is_made_for(name: str) -> None:
    assert question(*QUIET[name]) is None


CANNOT = {"can_run": False, "problems": ["unknown key"], "warnings": []}
ASKED: dict[str, tuple[Observation, Action]] = {
    "config:1": (seen(blueprint=NO_CONFIG), Check()),
    "check:1": (seen(checked=CANNOT), Collect()),
    "check:2": (seen(FAILED, checked=CANNOT), Collect()),
    "failure:1": (seen(FAILED), Collect()),
    "results:1": (seen(DONE, **REPORTED), Report()),
    "look:1:first": (seen(RUNNING, progress=Progress(1800.0)), Wait()),
    "look:1:third": (seen(RUNNING, progress=LONG), Wait()),
    "look:1:two_thirds": (seen(RUNNING, progress=Progress(2 * HOUR, 0.9)), Wait()),
    "alarm:1:fatal_error:1:no-output-for-h": (seen(RUNNING, health=HUNG), Wait()),
    "alarm:1:fatal_error:3:no-output-for-h": (seen(RUNNING, now=5 * HOUR, health=HUNG), Wait()),
    "alarm:1:plateau:4": (seen(RUNNING, now=13 * HOUR, health=FLAT), Wait()),
}


@pytest.mark.parametrize("expected", ASKED)
def test_judgement_is_asked_for(expected: str) -> None:
    observation, fallback = ASKED[expected]
    assert topic(observation, fallback) == expected
    assert moved_on(expected, observation) is None


@pytest.mark.parametrize(
    ("question_topic", "later"),
    [
        ("failure:1", seen(FAILED, replace(RUNNING, number=2))),
        ("failure:1", seen(FAILED, stop_asked="somebody")),
        ("failure:1", seen(FAILED, now=25 * HOUR)),
        ("failure:1", seen(FAILED, collected={"outcome": "failed"})),
        ("check:1", seen(RUNNING)),
        ("config:1", seen(RUNNING)),
        ("alarm:1:fatal_error:1", seen(FAILED)),
        ("alarm:1:fatal_error:1", seen(FAILED, replace(RUNNING, number=2))),
        ("results:1", seen(DONE, **REPORTED, stop_asked="somebody")),
    ],
)
def test_a_question_ends_with_the_situation_it_was_about(question_topic: str, later: Observation) -> None:
    assert moved_on(question_topic, later)


@pytest.mark.parametrize(
    ("progress", "left_s", "after_s"),
    [
        (Progress(4000.0, 0.1), 3600.0, 3600.0 * (1 / 3 - 0.1) / 0.9),
        (Progress(4000.0, 1 / 3), 2400.0, 1200.0),
        (Progress(4000.0, 0.9), 360.0, None),
        (Progress(1000.0, 0.1), 900.0, None),
        (Progress(1000.0), None, 800.0),
        (Progress(2000.0), None, None),
    ],
    ids=[
        "a third",
        "two thirds",
        "none is left",
        "too short",
        "no end is known",
        "looked at, without an end",
    ],
)
def test_a_run_wakes_when_its_training_comes_to_a_look(
    progress: Progress, left_s: float | None, after_s: float | None
) -> None:
    found = next_look_s(progress, left_s)
    assert found == (math.inf if after_s is None else pytest.approx(after_s))


def test_another_alarm_is_another_question_and_a_denied_repair_does_not_end_the_questions() -> None:
    nan = Health(fatal=("the last 3 metric rows have a value that is not finite: loss is nan at step 7",))
    assert topic(seen(RUNNING, health=nan), Wait()) != topic(seen(RUNNING, health=HUNG), Wait())
    assert topic(seen(FAILED, denied=frozenset({"edit_config", "stop"})), Collect()) == "failure:1"
