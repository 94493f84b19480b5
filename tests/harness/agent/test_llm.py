"""The LLM policy in a world without processes: when it asks, what it makes of answers, and that kills,
outages and nonsense cost no more than they must."""

import asyncio
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from harness import journal
from harness.agent import loop
from harness.agent.llm import MAX_TROUBLES, LlmPolicy
from harness.experiment import Experiment
from harness.journal.events import Intent
from harness.providers.chat import AssistantTurn, Request, ToolResultTurn
from harness.providers.model import OutOfPatienceError
from harness.state import Outcome
from tests.harness.agent.world import FakeExecutor, Killed, World, done, failed, new_experiment
from tests.harness.runs import record

BUG = failed(None, transient=False)
Answer = tuple[str, dict[str, Any]] | Exception | str


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
        record(self.experiment, "llm_reserved", call=number, model="fake", reserved_usd=0.5, request="0")
        calls = (
            []
            if isinstance(answer, str)
            else [{"id": f"c{number}", "name": answer[0], "arguments": json.dumps(answer[1])}]
        )
        said = answer if isinstance(answer, str) else ""
        record(
            self.experiment,
            "llm_settled",
            call=number,
            cost_usd=0.1,
            usage={"output_tokens": 7},
            stop="tool_call" if calls else "end",
            text=said,
            calls=calls,
        )


def start(
    folder: Path, ends: list[dict[str, Any]], answers: list[Answer]
) -> tuple[FakeExecutor, LlmPolicy, FakeModel]:
    world = World(ends)
    experiment = new_experiment(folder, world)
    model = FakeModel(experiment, answers)
    return FakeExecutor(experiment, world), LlmPolicy(experiment, model, asyncio.Event()), model  # type: ignore[arg-type]


def repaired() -> list[Answer]:
    return [
        ("set_environment", {"name": "OMP_NUM_THREADS", "value": "1", "why": "too many threads"}),
        ("check", {}),
        ("launch", {"why": "fewer threads"}),
        ("write_report_section", {"section": "findings", "interpretation": "It ran."}),
        ("finish", {"reason": "all said"}),
    ]


def kinds(folder: Path) -> list[str]:
    entries = journal.read(folder / "journal.jsonl")
    return [intent.action for intent in journal.events_of(entries, Intent)]


async def test_a_clean_run_asks_only_about_its_results(tmp_path: Path) -> None:
    executor, policy, model = start(tmp_path, [done()], [("finish", {"reason": "nothing to add"})])
    verdict = await loop.run(executor, policy)  # type: ignore[arg-type]
    assert verdict.outcome is Outcome.SUCCEEDED
    assert len(model.requests) == 1
    assert "The experiment is over: succeeded" in model.requests[0].turns[0].text
    executor.experiment.close()


async def test_an_unknown_failure_is_repaired_by_what_the_model_asks_for(tmp_path: Path) -> None:
    executor, policy, _ = start(tmp_path, [BUG, done()], repaired())
    verdict = await loop.run(executor, policy)  # type: ignore[arg-type]
    state = executor.experiment.state
    assert verdict.outcome is Outcome.SUCCEEDED
    assert len(executor.world.launches) == 2
    assert state.attempts[1].draft.environment == {"OMP_NUM_THREADS": "1"}
    assert state.environment == {"OMP_NUM_THREADS": "1"}
    assert state.narrative["findings"]["interpretation"] == "It ran."
    assert (state.llm.calls, round(state.llm.cost_usd, 3)) == (5, 0.5)
    executor.experiment.close()


async def test_each_request_is_the_one_before_and_something_more(tmp_path: Path) -> None:
    executor, policy, model = start(tmp_path, [BUG, done()], repaired())
    await loop.run(executor, policy)  # type: ignore[arg-type]
    first, second, third = model.requests[:3]
    assert first.system == third.system and first.tools == third.tools
    assert second.turns[: len(first.turns)] == first.turns
    assert third.turns[: len(second.turns)] == second.turns
    assert isinstance(second.turns[1], AssistantTurn) and isinstance(second.turns[2], ToolResultTurn)
    executor.experiment.close()


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.soak)])
async def test_killed_at_any_moment_it_ends_the_same_with_no_unanswered_call(
    tmp_path: Path, every: int
) -> None:
    for moment in range(0, 50, every):
        folder = tmp_path / str(moment)
        folder.mkdir()
        answers = repaired()
        world = World([BUG, done()])
        for kill_at in (moment, moment // 2, None):
            experiment = new_experiment(folder, world)
            model = FakeModel(experiment, answers)
            policy = LlmPolicy(experiment, model, asyncio.Event())  # type: ignore[arg-type]
            try:
                verdict = await loop.run(FakeExecutor(experiment, world, kill_at), policy)  # type: ignore[arg-type]
            except Killed:
                continue
            finally:
                experiment.close()
                assert all(every_call_is_answered(request) for request in model.requests)
        assert verdict.outcome is Outcome.SUCCEEDED
        assert len(world.launches) == 2
        assert not answers


def every_call_is_answered(request: Request) -> bool:
    turns = [*request.turns, None]
    return all(
        isinstance(after, ToolResultTurn) and after.call_id == turn.call.id
        for turn, after in pairwise(turns)
        if isinstance(turn, AssistantTurn) and turn.call is not None
    )


async def test_a_model_that_gives_up_ends_the_run_as_failed(tmp_path: Path) -> None:
    answers: list[Answer] = [
        ("note", {"text": "the data has no column `answer`"}),
        ("finish", {"reason": "a person has to mend the data"}),
        ("finish", {"reason": "nothing to add"}),
    ]
    executor, policy, model = start(tmp_path, [BUG], answers)
    verdict = await loop.run(executor, policy)  # type: ignore[arg-type]
    assert verdict.outcome is Outcome.FAILED
    assert "the data has no column `answer`" in model.requests[2].turns[0].text
    executor.experiment.close()


NONSENSE: dict[str, Callable[[], Answer]] = {
    "words": lambda: "I think we should restart it.",
    "an unknown tool": lambda: ("run_bash", {"command": "rm -rf /"}),
    "wrong arguments": lambda: ("launch", {"why": 3, "attempt": 9}),
    "refused actions": lambda: ("stop", {"why": "fatal_error", "detail": "I do not like it"}),
    "an unchecked launch of nothing new": lambda: ("launch", {"why": "again"}),
}


@pytest.mark.parametrize("name", NONSENSE)
async def test_a_model_that_talks_nonsense_is_left_alone_after_a_while(tmp_path: Path, name: str) -> None:
    answers = [NONSENSE[name]() for _ in range(MAX_TROUBLES)] + [("finish", {"reason": "done"})]
    executor, policy, model = start(tmp_path, [BUG], answers)
    verdict = await loop.run(executor, policy)  # type: ignore[arg-type]
    assert verdict.outcome is Outcome.FAILED
    assert len(executor.world.launches) == 1
    assert all(every_call_is_answered(request) for request in model.requests)
    executor.experiment.close()


async def test_the_same_look_again_and_again_is_stopped(tmp_path: Path) -> None:
    answers: list[Answer] = [("read_pane", {}) for _ in range(2 + MAX_TROUBLES)]
    executor, policy, _ = start(tmp_path, [BUG], [*answers, ("finish", {"reason": "done"})])
    await loop.run(executor, policy)  # type: ignore[arg-type]
    assert kinds(tmp_path).count("read_pane") == 2
    executor.experiment.close()


async def test_without_an_answer_the_playbook_goes_on(tmp_path: Path) -> None:
    outage = OutOfPatienceError("nobody answered for 6 hours")
    executor, policy, model = start(tmp_path, [BUG], [outage, outage])
    verdict = await loop.run(executor, policy)  # type: ignore[arg-type]
    assert verdict.outcome is Outcome.FAILED
    assert len(model.requests) == 2
    executor.experiment.close()


async def test_what_was_edited_after_a_check_is_not_launched_unchecked(tmp_path: Path) -> None:
    edit = ("set_environment", {"name": "OMP_NUM_THREADS", "value": "1", "why": "w"})
    answers: list[Answer] = [
        edit,
        ("launch", {"why": "unchecked"}),
        ("check", {}),
        ("launch", {"why": "now"}),
    ]
    executor, policy, model = start(tmp_path, [BUG, done()], [*answers, ("finish", {"reason": "done"})])
    await loop.run(executor, policy)  # type: ignore[arg-type]
    assert kinds(tmp_path).count("launch") == 2
    assert "Call check first" in str(model.requests[2].turns[-1])
    executor.experiment.close()


GIVING_UP: dict[str, list[Answer]] = {
    "in words": [("finish", {"reason": "no allowed change can help"})],
    "for want of an answer": [OutOfPatienceError("nobody answered")],
    "in nonsense": ["hm"] * MAX_TROUBLES,
}


@pytest.mark.parametrize("name", GIVING_UP)
async def test_half_a_repair_is_not_launched(tmp_path: Path, name: str) -> None:
    edit = ("set_environment", {"name": "OMP_NUM_THREADS", "value": "1", "why": "w"})
    answers: list[Answer] = [edit, *GIVING_UP[name], ("finish", {"reason": "done"})]
    executor, policy, _ = start(tmp_path, [BUG], answers)
    verdict = await loop.run(executor, policy)  # type: ignore[arg-type]
    assert verdict.outcome is Outcome.FAILED
    assert len(executor.world.launches) == 1
    assert executor.experiment.state.draft.is_empty
    executor.experiment.close()


def unwritten(folder: Path, ends: list[dict[str, Any]]) -> tuple[Experiment, World]:
    """An experiment whose plan names neither config nor command."""
    world = World(ends)
    experiment = Experiment(folder, world.clock)
    plan = {"name": "dpo", "max_time_s": 1e4, "yaml_path": None, "launch_command": None}
    data = {"experiment_id": "7f3a", "name": "dpo", "deadline_at": 1e4, "policy": "llm", "plan": plan}
    record(experiment, "created", **data)
    (folder / "blueprint.md").write_text("# DPO of a 70B model\n")
    return experiment, world


RENDER: Answer = ("render_config", {"settings": {"lr": 1e-5}, "why": "the plan says so"})


@pytest.mark.parametrize("name", GIVING_UP)
async def test_a_config_that_was_written_and_checked_is_launched_whatever_comes_then(
    tmp_path: Path, name: str
) -> None:
    experiment, world = unwritten(tmp_path, [done()])
    answers = [RENDER, ("check", {}), *GIVING_UP[name], ("finish", {"reason": "done"})]
    policy = LlmPolicy(experiment, FakeModel(experiment, answers), asyncio.Event())  # type: ignore[arg-type]
    verdict = await loop.run(FakeExecutor(experiment, world), policy)  # type: ignore[arg-type]
    assert verdict.outcome is Outcome.SUCCEEDED
    assert experiment.state.attempts[0].draft.settings == {"lr": 1e-5}
    experiment.close()


@pytest.mark.parametrize("first", ["note", "render"])
@pytest.mark.parametrize("name", GIVING_UP)
async def test_without_a_config_of_its_plan_nothing_else_is_launched(
    tmp_path: Path, name: str, first: str
) -> None:
    experiment, world = unwritten(tmp_path, [])
    begun: Answer = RENDER if first == "render" else ("note", {"text": "this trainer has no DPO"})
    model = FakeModel(experiment, [begun, *GIVING_UP[name]])
    executor = FakeExecutor(experiment, world)
    verdict = await loop.run(executor, LlmPolicy(experiment, model, asyncio.Event()))  # type: ignore[arg-type]
    assert verdict.outcome is Outcome.CANNOT_RUN
    assert "the config of this plan was not written" in verdict.reason
    assert not world.launches
    experiment.close()


async def test_a_model_that_talks_at_length_does_not_make_the_prompt_endless(tmp_path: Path) -> None:
    words = "I think, therefore " * 4000
    executor, policy, model = start(
        tmp_path, [BUG], [words] * MAX_TROUBLES + [("finish", {"reason": "done"})]
    )
    await loop.run(executor, policy)  # type: ignore[arg-type]
    assert max(len(str(request.turns)) for request in model.requests) < 40_000
    executor.experiment.close()
