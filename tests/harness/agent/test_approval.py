"""A person's yes: asked for durably, answered by a file, dropped when it is not wanted any more."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import journal
from harness.actions import Action, EditArguments, Stop
from harness.agent import approval
from harness.agent.approval import Answer
from harness.experiment import Experiment
from harness.journal.events import Intent, Noted
from harness.options import RunOptions
from tests.harness.agent.world import World, new_experiment
from tests.harness.runs import state_with

STOP = Stop(why="fatal_error", detail="it hangs")


def asking(
    experiment: Experiment, wanted: Callable[[], bool] = lambda: True
) -> "asyncio.Task[tuple[Action, str | None]]":
    return asyncio.ensure_future(approval.ask(experiment, STOP, wanted, asyncio.Event()))


def question(folder: Path) -> approval.OpenQuestion:
    found = approval.open_question(journal.read(folder / "journal.jsonl"))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("word", "refusal"), [("yes", None), ("no", "a person did not approve this (me): it learns")]
)
async def test_the_answer_decides(tmp_path: Path, word: str, refusal: str | None) -> None:
    experiment = new_experiment(tmp_path, World([]))
    task = asking(experiment)
    await asyncio.sleep(0)
    approval.answer(
        tmp_path, question(tmp_path).number, Answer(word, "me", "" if refusal is None else "it learns")
    )
    assert await task == (STOP, refusal)
    assert approval.open_question(experiment.journal.entries) is None or word == "no"
    assert experiment.state.denied == (frozenset() if word == "yes" else {"stop"})
    experiment.close()
    if word == "yes":
        experiment = new_experiment(tmp_path, World([]))  # killed before it acted
        assert await asking(experiment) == (STOP, None)
        experiment.record(Intent("note", {}))
        experiment.record(Noted("done"))
        again = asking(experiment)
        await asyncio.sleep(0)
        assert not again.done()
        again.cancel()
        experiment.close()


async def test_a_kill_in_between_asks_the_same_question_and_the_first_answer_counts(tmp_path: Path) -> None:
    experiment = new_experiment(tmp_path, World([]))
    task = asking(experiment)
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    experiment.close()
    asked = question(tmp_path)
    approval.answer(tmp_path, asked.number, Answer("yes", "me"))
    approval.answer(tmp_path, asked.number, Answer("no", "somebody else"))
    experiment = new_experiment(tmp_path, World([]))
    assert await asking(experiment) == (STOP, None)
    assert sum(entry.kind == "approval_asked" for entry in experiment.journal.entries) == 1
    experiment.close()


async def test_a_question_that_is_over_is_no_denial(tmp_path: Path) -> None:
    experiment = new_experiment(tmp_path, World([]))
    _, refusal = await asking(experiment, wanted=lambda: False)
    assert refusal is not None and "there was no answer" in refusal
    assert not experiment.state.denied
    experiment.close()


def test_no_words_of_a_question_hide_its_diff_from_a_terminal() -> None:
    asked = approval.OpenQuestion(7, "patch_code", {"why": "a typo\x1b[8m\x9b8m"}, shown="+steal()\n")
    assert asked.text == "patch_code, for this reason, in the model's words: a typo\\x1b[8m\\x9b8m\n+steal()"


@pytest.mark.parametrize(("approve", "is_needed"), [(("edit_config",), True), (("launch",), False)])
def test_whoever_wants_to_be_asked_about_edits_is_asked_about_those_of_the_command(
    approve: tuple[str, ...], is_needed: bool
) -> None:
    edit = EditArguments(changes={"--workers": 2}, why="few")
    assert approval.is_needed(edit, state_with(options=RunOptions(approve=approve))) is is_needed
