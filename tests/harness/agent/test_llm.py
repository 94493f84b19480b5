"""The LLM policy in a world without processes: when it asks, and what it makes of answers, kills, outages."""

import asyncio
import json
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness import journal
from harness.agent import llm, loop
from harness.agent.llm import MAX_TROUBLES, LlmPolicy
from harness.agent.replay import replay
from harness.experiment import Experiment
from harness.journal.events import Intent, Noted
from harness.observation import Progress
from harness.options import RunOptions
from harness.providers.chat import AssistantTurn, Request, ToolResultTurn
from harness.providers.model import OutOfPatienceError
from harness.state import Outcome, Verdict
from tests.harness.agent.world import FakeExecutor, Killed, World, done, failed, new_experiment
from tests.harness.runs import record

BUG = failed(None, transient=False)
Call = tuple[str, dict[str, Any]]
Answer = Call | list[Call] | Exception | str | asyncio.Event


class FakeModel:
    """Answers from a list, by way of the journal as the real one does; `requests` keeps what it was shown."""

    def __init__(self, experiment: Experiment, answers: list[Answer]) -> None:
        self.experiment, self.answers = experiment, answers
        self.requests: list[Request] = []

    async def ask(self, request: Request, spending: Any, **options: Any) -> None:
        self.requests.append(request)
        number = spending.calls + 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, asyncio.Event):
            await answer.wait()
        record(self.experiment, "llm_reserved", call=number, model="fake", reserved_usd=0.5, request="0")
        reply: dict[str, Any] = {"stop": "end", "text": answer, "calls": []}
        if isinstance(answer, tuple | list):
            made = enumerate(answer if isinstance(answer, list) else [answer])
            calls = [
                {"id": f"c{number}.{place}", "name": name, "arguments": json.dumps(args)}
                for place, (name, args) in made
            ]
            reply = {"stop": "tool_call", "text": "", "calls": calls}
        paid = {"cost_usd": 0.1, "usage": {"output_tokens": 7}}
        record(self.experiment, "llm_settled", call=number, **paid, **reply)


Ended = tuple[Verdict, FakeExecutor, FakeModel]


async def run(folder: Path, ends: list[dict[str, Any]], answers: list[Answer], **plan: Any) -> Ended:
    """One experiment to its end."""
    world = World(ends)
    return await carry(new_experiment(folder, world, **plan), world, answers)


async def carry(
    experiment: Experiment,
    world: World,
    answers: list[Answer],
    kill_at: int | None = None,
    progress: Progress | None = None,
) -> Ended:
    executor, model = FakeExecutor(experiment, world, kill_at), FakeModel(experiment, answers)
    executor.progress = progress
    try:
        verdict = await loop.run(executor, LlmPolicy(experiment, model, asyncio.Event()))  # type: ignore[arg-type]
    finally:
        experiment.close()
        assert all(every_call_is_answered(request) for request in model.requests)
    return verdict, executor, model


def every_call_is_answered(request: Request) -> bool:
    turns = [*request.turns, None]
    return all(
        isinstance(after, ToolResultTurn) and after.call_id == turn.call.id
        for turn, after in pairwise(turns)
        if isinstance(turn, AssistantTurn) and turn.call is not None
    )


EDIT: Answer = ("set_environment", {"name": "OMP_NUM_THREADS", "value": "1", "why": "too many threads"})
END: Answer = ("finish", {"reason": "all said"})


def repaired() -> list[Answer]:
    said = {"section": "findings", "interpretation": "It ran."}
    return [EDIT, ("check", {}), ("launch", {"why": "fewer"}), ("write_sections", {"sections": [said]})]


def kinds(folder: Path) -> list[str]:
    entries = journal.read(folder / "journal.jsonl")
    return [intent.action for intent in journal.events_of(entries, Intent)]


async def test_a_clean_run_asks_only_about_its_results(tmp_path: Path) -> None:
    verdict, _, model = await run(tmp_path, [done()], [END])
    assert verdict.outcome is Outcome.SUCCEEDED
    (request,) = model.requests
    assert "The experiment is over: succeeded" in request.turns[0].text


@pytest.mark.parametrize(
    ("answer", "noted"),
    [
        (("note", {"text": "kl_loss is 0 at every step"}), ["kl_loss is 0 at every step"]),
        (("wait", {}), []),
        (("stop", {"why": "plateau"}), []),
        ("It looks fine to me.", []),
        (OutOfPatienceError("down"), []),
    ],
)
async def test_a_look_at_a_healthy_training_can_only_note(
    tmp_path: Path, answer: Answer, noted: list[str]
) -> None:
    world = World([done()])
    experiment = new_experiment(tmp_path, world, RunOptions("llm"))
    verdict, _, model = await carry(experiment, world, [answer, END], progress=Progress(7200.0, 0.4))
    assert verdict.outcome is Outcome.SUCCEEDED
    look, results = model.requests
    assert "40% of its steps are done" in look.turns[0].text
    assert "The experiment is over" in results.turns[0].text
    entries = journal.read(tmp_path / "journal.jsonl")
    assert [note.text for note in journal.events_of(entries, Noted)] == noted
    again = await asyncio.to_thread(
        lambda: [each for each in replay(tmp_path) if each.action in ("note", "wait")]
    )
    assert again and not any("decided" in why or "recorded" in why for each in again for why in each.differs)


@pytest.mark.parametrize("has_ended", [True, False], ids=["it ends", "a minute is over"])
async def test_a_look_that_is_not_answered_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_ended: bool
) -> None:
    monkeypatch.setattr(llm, "PATIENCE_WHILE_RUNNING_S", 3600.0 if has_ended else 0.01)
    world = World([done()])
    experiment = new_experiment(tmp_path, world, RunOptions("llm"))
    files = experiment.attempt_files(1)
    if has_ended:
        files.dir.mkdir(parents=True)
        files.exit_file.write_text(json.dumps({"attempt_id": "a", "reason": "exited", "status": 0}))
    answers: list[Answer] = [asyncio.Event(), END]
    async with asyncio.timeout(30):
        verdict, _, _ = await carry(experiment, world, answers, progress=Progress(7200.0, 0.4))
    assert verdict.outcome is Outcome.SUCCEEDED
    assert not list(journal.events_of(journal.read(tmp_path / "journal.jsonl"), Noted))


async def test_an_unknown_failure_is_repaired_by_what_the_model_asks_for(tmp_path: Path) -> None:
    verdict, executor, model = await run(tmp_path, [BUG, done()], repaired())
    state = executor.experiment.state
    assert verdict.outcome is Outcome.SUCCEEDED
    assert len(executor.world.launches) == 2
    assert state.attempts[1].draft.environment == state.environment == {"OMP_NUM_THREADS": "1"}
    assert state.narrative["findings"]["interpretation"] == "It ran."
    assert (state.llm.calls, round(state.llm.cost_usd, 3)) == (4, 0.4)
    for before, after in pairwise(model.requests[:3]):
        assert (before.system, before.tools) == (after.system, after.tools)
        assert after.turns[: len(before.turns)] == before.turns, "what was sent stays in the cache"
        assert len(after.turns) > len(before.turns)


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.soak)])
async def test_killed_at_any_moment_it_ends_the_same(tmp_path: Path, every: int) -> None:
    for moment in range(0, 50, every):
        folder = tmp_path / str(moment)
        answers, world = repaired(), World([BUG, done()])
        for kill_at in (moment, moment // 2, None):
            try:
                verdict, _, _ = await carry(new_experiment(folder, world), world, answers, kill_at)
            except Killed:
                continue
        assert verdict.outcome is Outcome.SUCCEEDED
        assert len(world.launches) == 2
        assert not answers


async def test_a_cause_named_at_the_first_look_is_repaired_by_the_program_without_another_call(
    tmp_path: Path,
) -> None:
    open_cause = {**BUG, "diagnosis": {**BUG["diagnosis"], "family": "unknown"}}
    naming: Answer = [
        ("name_cause", {"family": "rate_limit", "cause": "Too many.", "lines": [1]}),
        ("read_pane", {}),
    ]
    for folder, repair, calls in (("waits", failed(None, True), 2), ("none", BUG, 3)):
        world = World([open_cause, done()])
        world.named = {**repair["diagnosis"], "family": "rate_limit", "by": "fake"}
        world.named["cause"] = "By fake: Too many."
        experiment = new_experiment(tmp_path / folder, world, RunOptions("llm"))
        verdict, executor, model = await carry(experiment, world, [naming, END, END])
        assert (verdict.outcome is Outcome.SUCCEEDED) == (folder == "waits")
        assert ("By fake: Too many." in verdict.reason) == (folder == "none")
        first = model.requests[0]
        assert "rate_limit: " in first.turns[0].text and "name_cause" in [tool.name for tool in first.tools]
        assert executor.experiment.state.llm.calls == calls
        again = await asyncio.to_thread(lambda folder=folder: list(replay(tmp_path / folder)))
        repairing = again[: [each.action for each in again].index("collect")]
        assert not any("decided" in why or "recorded" in why for each in repairing for why in each.differs)


async def test_a_model_that_gives_up_ends_the_run_as_failed(tmp_path: Path) -> None:
    note: Answer = ("note", {"text": "the data has no column `answer`"})
    verdict, _, model = await run(tmp_path, [BUG], [note, END, END])
    assert verdict.outcome is Outcome.FAILED
    assert "the data has no column `answer`" in model.requests[2].turns[0].text


async def test_the_same_look_again_and_again_is_stopped(tmp_path: Path) -> None:
    await run(tmp_path, [BUG], [*[("read_pane", {}) for _ in range(2 + MAX_TROUBLES)], END])
    assert kinds(tmp_path).count("read_pane") == 2


async def test_looks_of_one_reply_are_made_in_order_and_what_else_it_asks_for_is_answered(
    tmp_path: Path,
) -> None:
    looks: list[Call] = [("read_pane", {}), ("read_pane", {"lines": 5})]
    answers: list[Answer] = [[*looks, ("launch", {"why": "now"}), ("note", {"text": "n"})], END, END]
    _, _, model = await run(tmp_path, [BUG], answers)
    assert kinds(tmp_path).count("read_pane") == 2
    results = [turn for turn in model.requests[1].turns if isinstance(turn, ToolResultTurn)]
    assert [turn.is_error for turn in results] == [False, False, True]
    assert "launch was not done" in results[2].text and "1 further calls" in results[2].text
    assert "23 calls, 4 refusals in a row" in results[2].text


async def test_each_kind_of_question_has_its_tools_in_the_same_bytes_whatever_the_run(tmp_path: Path) -> None:
    prefixes = set()
    for number in (1, 2):
        answers: list[Answer] = [("stop", {"why": "fatal_error"}), *repaired()]
        _, _, model = await run(tmp_path / str(number), [BUG, done()], answers, purpose=f"plan {number}")
        assert "stop is no tool of this question" in model.requests[1].turns[-1].text
        prefixes |= {
            json.dumps([each.system, [asdict(tool) for tool in each.tools]]) for each in model.requests
        }
    of_failure, of_results = sorted(prefixes, key=len, reverse=True)
    assert len(of_failure) < 16_000 and len(of_results) < 10_000
    assert "write_sections" not in of_failure and "patch_code" not in of_results


async def test_an_edit_is_checked_without_a_call_and_can_be_launched_at_once(tmp_path: Path) -> None:
    answers: list[Answer] = [EDIT, ("launch", {"why": "now"}), END]
    _, executor, model = await run(tmp_path, [BUG, done()], answers)
    assert executor.experiment.state.llm.calls == 3
    assert kinds(tmp_path).count("launch") == 2
    assert "Meanwhile: checked: can run" in str(model.requests[1].turns[-1])


GIVING_UP: dict[str, list[Answer]] = {
    "in words": [("finish", {"reason": "no allowed change can help"})],
    "for want of an answer": [OutOfPatienceError("no answer")],
    "in nonsense": ["hm"] * MAX_TROUBLES,
}
giving_up = pytest.mark.parametrize("name", GIVING_UP)


@giving_up
async def test_half_a_repair_is_not_launched(tmp_path: Path, name: str) -> None:
    verdict, executor, _ = await run(tmp_path, [BUG], [EDIT, *GIVING_UP[name], END])
    assert verdict.outcome is Outcome.FAILED
    assert len(executor.world.launches) == 1
    assert executor.experiment.state.draft.is_empty


RENDER: Answer = ("render_config", {"settings": {"lr": 1e-5}, "why": "the plan says so"})


@giving_up
async def test_a_config_that_was_written_and_checked_is_launched(tmp_path: Path, name: str) -> None:
    answers = [RENDER, ("check", {}), *GIVING_UP[name], END]
    verdict, executor, _ = await run(tmp_path, [done()], answers, launch_command=None)
    assert verdict.outcome is Outcome.SUCCEEDED
    assert executor.experiment.state.attempts[0].draft.settings == {"lr": 1e-5}


@pytest.mark.parametrize("begun", [RENDER, ("note", {"text": "this trainer has no DPO"})])
@giving_up
async def test_without_a_config_nothing_else_is_launched(tmp_path: Path, name: str, begun: Answer) -> None:
    verdict, executor, _ = await run(tmp_path, [], [begun, *GIVING_UP[name]], launch_command=None)
    assert verdict.outcome is Outcome.CANNOT_RUN
    assert "the config of this plan was not written" in verdict.reason
    assert not executor.world.launches


async def test_a_model_that_talks_at_length_does_not_make_the_prompt_endless(tmp_path: Path) -> None:
    words: list[Answer] = ["I think, therefore " * 4000] * MAX_TROUBLES
    _, _, model = await run(tmp_path, [BUG], [*words, END])
    assert max(len(str(request.turns)) for request in model.requests) < 40_000
