"""The loop with the built-in playbook: no kill makes it launch twice or lose anything."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness import journal
from harness.actions import Launch, Stop
from harness.agent import loop
from harness.agent.playbook import Playbook
from harness.journal.events import Launched
from harness.state import Outcome, fold
from monitors.rules import Health
from tests.harness.agent.world import FakeExecutor, Killed, World, done, failed, new_experiment
from tests.harness.runs import record

NETWORK = failed("connection_lost", transient=True)
BUG = failed(None, transient=False)
FURTHER = [failed("connection_lost", True, step) for step in range(1, 10)]

SCENARIOS = {
    "clean": ([done()], Outcome.SUCCEEDED, 1),
    "cured by a restart": ([NETWORK, done()], Outcome.SUCCEEDED, 2),
    "a bug": ([BUG], Outcome.FAILED, 1),
    "transient without progress": ([NETWORK, NETWORK, NETWORK], Outcome.FAILED, 3),
    "transient, cured by one further try": ([NETWORK, NETWORK, done()], Outcome.SUCCEEDED, 3),
    "transient with progress": ([*FURTHER[4:9:4], done()], Outcome.SUCCEEDED, 3),
    "for ever transient": (FURTHER, Outcome.FAILED, 5),
    "deadline": ([{**failed("deadline", transient=False), "reason": "deadline"}], Outcome.TIMED_OUT, 1),
}


async def carry_to_the_end(folder: Path, world: World, kills: list[int]) -> Outcome:
    """Run; at each kill, throw the harness away and start another on the same folder."""
    for kill_at in [*kills, None]:
        experiment = new_experiment(folder, world)
        try:
            verdict = await loop.run(FakeExecutor(experiment, world, kill_at), Playbook())
        except Killed:
            continue
        finally:
            experiment.close()
        return verdict.outcome
    raise AssertionError("the last run is never killed")


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", SCENARIOS)
async def test_killed_at_any_moment_it_launches_nothing_twice(tmp_path: Path, name: str, every: int) -> None:
    ends, outcome, launches = SCENARIOS[name]
    for moment in range(0, 60, every):
        folder = tmp_path / str(moment)
        world = World(ends)
        assert await carry_to_the_end(folder, world, [moment, moment // 2, 1]) is outcome
        assert len(world.launches) == launches
        entries = journal.read(folder / "journal.jsonl")
        assert entries[-1].kind == "finish"
        events = [entry.event for entry in entries]
        launched = [number for number, event in enumerate(events) if isinstance(event, Launched)]
        numbers = [events[number - 1].args["attempt"] for number in launched]
        assert numbers == sorted(set(numbers))


async def test_a_failed_preflight_cannot_run(tmp_path: Path) -> None:
    world = World([], preflight_ok=False)
    assert await carry_to_the_end(tmp_path, world, []) is Outcome.CANNOT_RUN
    assert not world.launches
    assert fold(journal.read(tmp_path / "journal.jsonl")).verdict.reason == "no such interpreter"


async def test_resumed_after_its_deadline_it_launches_nothing(tmp_path: Path) -> None:
    world = World([done()])
    new_experiment(tmp_path, world).close()
    world.now += 5000
    assert await carry_to_the_end(tmp_path, world, []) is Outcome.TIMED_OUT
    assert not world.launches


@pytest.fixture
def executor(tmp_path: Path) -> Iterator[FakeExecutor]:
    world = World([done()])
    experiment = new_experiment(tmp_path, world)
    yield FakeExecutor(experiment, world)
    experiment.close()


async def test_a_person_stops_it(executor: FakeExecutor) -> None:
    def launch(action: Launch) -> dict:
        record(executor.experiment, "stop_asked", by="`harness stop`")
        return FakeExecutor.launch(executor, action)

    executor.launch = launch
    verdict = await loop.run(executor, Playbook())
    assert verdict.outcome is Outcome.CANCELLED
    assert verdict.outcome.exit_code == 130


async def test_an_overdue_first_step_is_stopped_and_fails(executor: FakeExecutor) -> None:
    executor.first_step_overdue = True
    executor.diagnose = lambda action: {"diagnosis": failed("first_step_timeout", False)["diagnosis"]}
    verdict = await loop.run(executor, Playbook())
    assert verdict.outcome is Outcome.FAILED
    assert executor.experiment.state.attempt.stop_reason == "first_step_timeout"


NAN = "the last 3 metric rows all have a value that is not finite: first loss is NaN at step 6"


@pytest.mark.parametrize("sign", ["not_finite", "silence", "after_error"])
async def test_d3_values_that_stay_nan_end_an_attempt_and_no_other_sign_does(
    tmp_path: Path, sign: str
) -> None:
    experiment = new_experiment(tmp_path, World([done()]))
    executor = FakeExecutor(experiment, World([done()]))
    seen = executor.observe
    executor.observe = lambda: replace(seen(), health=Health(fatal=(NAN,), sign=sign))
    cause = {"family": "numerics_nan", "cause": NAN}
    executor.diagnose = lambda action: {"diagnosis": {**failed("x", False)["diagnosis"], **cause}}
    verdict = await loop.run(executor, Playbook())
    experiment.close()
    if sign == "not_finite":
        assert (verdict.outcome, verdict.reason) == (Outcome.FAILED, f"attempt 1: {NAN}")
        assert experiment.state.attempt.stop_reason == "fatal_error"
    else:
        assert verdict.outcome is Outcome.SUCCEEDED


class Stubborn(Playbook):
    async def decide(self, observation: object) -> Stop:
        return Stop(why="fatal_error", detail="it looks bad")


async def test_a_policy_that_only_breaks_rules_is_ended_and_they_are_recorded(executor: FakeExecutor) -> None:
    with pytest.raises(loop.PolicyStuckError, match="no running attempt"):
        await loop.run(executor, Stubborn())
    refusals = [entry for entry in executor.experiment.journal.entries if entry.kind == "refused"]
    assert len(refusals) == loop.MAX_REFUSALS + 1
