"""Whole runs decided by a scripted model through the real SDKs, over HTTP, in both protocols."""

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import journal
from harness.agent import loop
from harness.agent.llm import MAX_CALLS, MAX_TROUBLES, LlmPolicy
from harness.agent.replay import replay
from harness.providers.anthropic import AnthropicProvider
from harness.providers.cost import Limits, Price
from harness.providers.model import Model
from harness.providers.openai import OpenAIProvider
from harness.providers.transcript import Transcript
from harness.redaction import NO_SECRETS
from harness.state import ExperimentState, Outcome
from tests.harness.agent.world import FakeExecutor, World, done, failed, new_experiment
from tests.harness.results.narrative.written import run_evidence
from tests.harness.runs import record
from tests.model_server import steps
from tests.model_server.seen import Seen
from tests.model_server.server import ModelServer
from tests.model_server.steps import Script, Step, call, overloaded, say, say_and_call, status

BUG = failed(None, transient=False)
PRICE = Price(input=3.0, cached_input=0.3, cache_write=3.75, cache_write_1h=6.0, output=15.0)
READ = (call("finish", reason="all said"),)
REPAIR = (
    say_and_call("The threads fight.", "set_environment", name="OMP_NUM_THREADS", value="1", why="fewer"),
    call("check"),
    call("launch", why="with one thread"),
    *READ,
)


@pytest.fixture(autouse=True)
def _same_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The facts of these runs are made up, in a replay as in the run."""
    monkeypatch.setattr("harness.results.narrative.run.evidence_of_run", lambda *given: run_evidence())


class FakeClock:
    """Waiting is instant, and moves the world's time."""

    def __init__(self, world: World) -> None:
        self._world = world

    def time(self) -> float:
        return self._world.now

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        await asyncio.sleep(0)
        self._world.now += max(0.0, seconds)


PROVIDERS: dict[str, Any] = {"anthropic": AnthropicProvider, "openai": OpenAIProvider}


@pytest.fixture(params=PROVIDERS)
def protocol(request: pytest.FixtureRequest) -> str:
    return request.param


async def drive(
    folder: Path,
    protocol: str,
    script: Script,
    ends: list[dict[str, Any]],
    limits: Limits = Limits(5.0, 100),
    back_after_s: float = 0.0,
) -> tuple[Outcome, ExperimentState, ModelServer]:
    """One experiment from its start to its end; the model is overloaded until `back_after_s`."""
    world = World(ends, max_time_s=86_400.0)
    back_at, steps = world.now + back_after_s, iter(script if isinstance(script, tuple) else ())
    late: Script = lambda seen: overloaded() if world.now < back_at else next(steps)  # noqa: E731
    with ModelServer(late if back_after_s else script, now=world.clock) as server:
        provider = PROVIDERS[protocol]("scripted", "test-key", getattr(server, f"{protocol}_url"))
        experiment = new_experiment(folder, world)
        record(experiment, "options", policy="llm", model=f"{protocol}:scripted")
        transcript = Transcript(folder / "transcript.jsonl", NO_SECRETS)
        clock = FakeClock(world)
        model = Model(provider, PRICE, limits, experiment.record, transcript, clock, random.Random(0))
        executor = FakeExecutor(experiment, world)
        try:
            verdict = await loop.run(executor, LlmPolicy(experiment, model, asyncio.Event()))  # type: ignore[arg-type]
        finally:
            await model.close()
            experiment.close()
        return verdict.outcome, experiment.state, server


async def test_a_failure_is_repaired_and_a_replay_shows_the_same(tmp_path: Path, protocol: str) -> None:
    outcome, state, server = await drive(tmp_path, protocol, REPAIR, [BUG, done()])
    assert outcome is Outcome.SUCCEEDED
    assert state.attempts[1].draft.environment == {"OMP_NUM_THREADS": "1"}
    assert state.llm.calls == len(server.log) == 4
    assert 0 < state.llm.cost_usd < 0.2
    assert state.llm.spending.reserved_usd == 0
    decisions = await asyncio.to_thread(lambda: list(replay(tmp_path)))
    asked = [decision.action for decision in decisions if decision.calls]
    assert asked[:3] == ["set_environment", "check", "launch"]
    assert {decision.differs for decision in decisions} == {()}
    entries = journal.read(tmp_path / "journal.jsonl")
    assert len(decisions) == sum(entry.kind in ("intent", "refused") for entry in entries)
    (tmp_path / "blueprint.md").write_text("# Another plan\n")
    decisions = await asyncio.to_thread(lambda: list(replay(tmp_path)))
    assert any("the prompt is not the one" in " ".join(each.differs) for each in decisions)


NONSENSE: dict[str, Step] = {
    "malformed arguments": steps.raw_call("launch", '{"why": "again'),
    "arguments that are no object": steps.raw_call("launch", "[1, 2]"),
    "wrong arguments": call("search_log", pattern=17, lines="many"),
    "arguments that are not its business": call("launch", why="again", attempt=7),
    "an unknown tool": call("run_bash", command="rm -rf /"),
    "words only": say("I would restart it."),
    "nothing at all": say(""),
    "a refusal": steps.refuse("I cannot help with that."),
    "a reply cut off in words": steps.truncate("Let me think about this for a very long"),
    "a reply cut off in a call": steps.truncate_call("set_environment", '{"name": "OMP_'),
    "several calls at once": steps.several(
        steps.as_call("read_pane"), steps.as_call("launch", why="at once")
    ),
    "a forbidden wish": call("stop", why="fatal_error", detail="because"),
    "a launch of nothing new": call("launch", why="once more"),
}


@pytest.mark.parametrize("step", [*NONSENSE.values(), steps.context_overflow()], ids=[*NONSENSE, "overflow"])
async def test_after_nonsense_the_repair_still_comes(tmp_path: Path, protocol: str, step: Step) -> None:
    outcome, state, server = await drive(tmp_path, protocol, (step, *REPAIR), [BUG, done()])
    assert outcome is Outcome.SUCCEEDED
    assert len(state.attempts) == 2
    assert len(server.log) == 1 + len(REPAIR)


@pytest.mark.parametrize("name", NONSENSE)
async def test_endless_nonsense_ends_in_an_honest_failure(tmp_path: Path, protocol: str, name: str) -> None:
    def model(seen: Seen) -> Step:
        return READ[0] if "The experiment is over" in seen.text else NONSENSE[name]

    outcome, state, server = await drive(tmp_path, protocol, model, [BUG])
    assert outcome is Outcome.FAILED
    assert len(state.attempts) == 1
    assert len(server.log) <= MAX_TROUBLES + 4


def restless(seen: Seen) -> Step:
    """Looks again and again, never at the same."""
    return READ[0] if "experiment is over" in seen.text else call("read_pane", lines=1 + seen.number % 100)


async def test_an_endless_loop_of_different_looks_is_ended(tmp_path: Path, protocol: str) -> None:
    outcome, _, server = await drive(tmp_path, protocol, restless, [BUG])
    assert outcome is Outcome.FAILED
    assert len(server.log) == MAX_CALLS + 1


TROUBLE: dict[str, tuple[Step, ...]] = {
    "a storm of rate limits": tuple(status(429, retry_after=7) for _ in range(10)),
    "overload": (overloaded(), overloaded()),
    "server errors": tuple(status(code) for code in (500, 502, 503, 504)),
    "an error in the stream": (steps.error_in_stream(),),
    "a stream cut off": (steps.cut_off(2), steps.cut_off(4)),
}


@pytest.mark.parametrize("name", TROUBLE)
async def test_what_passes_is_waited_for(tmp_path: Path, protocol: str, name: str) -> None:
    script = (*TROUBLE[name], *REPAIR[:1], *TROUBLE[name], *REPAIR[1:])
    outcome, state, _ = await drive(tmp_path, protocol, script, [BUG, done()])
    assert outcome is Outcome.SUCCEEDED
    assert state.llm.calls == 4
    lines = (tmp_path / "journal.jsonl").read_text().splitlines()
    assert sum('"llm_retried"' in line for line in lines) <= 12


async def test_an_outage_of_twenty_minutes(tmp_path: Path, protocol: str) -> None:
    outcome, state, server = await drive(tmp_path, protocol, REPAIR, [BUG, done()], back_after_s=1220.0)
    assert outcome is Outcome.SUCCEEDED
    assert state.llm.calls == 4
    assert len(server.log) < 30


@pytest.mark.parametrize(
    ("step", "most", "waited_s"),
    [
        *((step, 2, 0) for step in (steps.unauthorized(), steps.quota_exceeded(), status(403), status(404))),
        (overloaded(), 30, 1800),
    ],
)
async def test_without_a_usable_model_the_playbook_goes_on(
    tmp_path: Path, protocol: str, step: Step, most: int, waited_s: float
) -> None:
    outcome, state, server = await drive(tmp_path, protocol, lambda seen: step, [BUG])
    assert outcome is Outcome.FAILED
    assert 2 <= len(server.log) <= most  # about the failure, and about the results
    assert state.finished_at is not None and waited_s <= state.finished_at - state.created_at < waited_s + 60
    assert state.llm.cost_usd < 0.5


async def test_the_limits_on_calls_and_cost_are_hard(tmp_path: Path, protocol: str) -> None:
    ends = [BUG, done()]
    outcome, state, server = await drive(tmp_path / "calls", protocol, REPAIR, ends, Limits(None, 3))
    assert outcome is Outcome.SUCCEEDED  # repaired with three calls; nobody reads the results
    assert state.llm.calls == len(server.log) == 3
    _, state, _ = await drive(tmp_path / "cost", protocol, restless, [BUG], Limits(0.3, None))
    assert 0 < state.llm.cost_usd <= 0.3


async def test_a_call_cut_off_by_a_kill_is_no_difference_to_a_replay(tmp_path: Path, protocol: str) -> None:
    await drive(tmp_path, protocol, REPAIR, [BUG, done()])
    lines = (tmp_path / "journal.jsonl").read_bytes().splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if b'"llm_reserved"' in line)
    entries = journal.read(tmp_path / "journal.jsonl")
    killed = replace(entries[first], event=journal.Owner.this_process())
    lost = [*entries[: first + 1], killed, *entries[first:]]
    renumbered = [replace(entry, seq=number) for number, entry in enumerate(lost, start=1)]
    (tmp_path / "journal.jsonl").write_bytes(b"".join(entry.to_line() for entry in renumbered))
    decisions = await asyncio.to_thread(lambda: list(replay(tmp_path)))
    assert {decision.differs for decision in decisions} == {()}
