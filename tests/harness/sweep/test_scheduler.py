"""The queue: order, slots, canary, failures, budget, stop, and a scheduler that dies anywhere."""

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness import journal
from harness.agent import approval
from harness.blueprint import read
from harness.journal import Entry, Event, Journal
from harness.journal.events import ApprovalAsked, AttemptEvent, Created, Held, Intent, Launched
from harness.notifications import message
from harness.state import Verdict
from harness.sweep.hosts import NeverFitsError
from harness.sweep.plan import SweepError, SweepPlan
from harness.sweep.scheduler import Scheduler
from harness.sweep.state import CanaryPassed, RunAsks, RunStarted, Sweep, SweepReported
from tests.harness.runs import created
from tests.harness.sweep.plans import begun, plan
from tests.harness.sweep.scripted_host import Play, ScriptedHost, dies, ends, fails, gets_on

PATIENCE_S = 20.0


def journal_of(run: Path) -> Sequence[Entry]:
    return journal.read(run / "journal.jsonl")


async def done(sweep: Sweep, host: ScriptedHost, **more: Any) -> Verdict:
    scheduler = Scheduler(sweep, host, dict, more.get("reporter"), pause_s=0.0)
    return await asyncio.wait_for(scheduler.run(), PATIENCE_S)


async def until(condition: Callable[[], object]) -> None:
    for _ in range(20_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("waited in vain")


async def test_all_runs_once_in_order_and_never_more_than_fit(tmp_path: Path) -> None:
    sweep, host = begun(tmp_path, plan(4, 3, parallel=3)), ScriptedHost(room_for=2)
    verdict = await done(sweep, host)
    assert (verdict.outcome.value, verdict.reason) == ("succeeded", "12 of 12 runs succeeded")
    order = [entry.event.run for entry in sweep.journal.entries if isinstance(entry.event, RunStarted)]
    assert order == ["canary", *(f"p{p:02d}-s{s}" for s in range(3) for p in range(1, 5))]
    assert sorted(host.started) == sorted(f"{run}/01" for run in order)
    assert host.most == 2 and not host.leases
    flag = json.loads((tmp_path / "finish.flag").read_text())
    assert flag["exit_code"] == 0 and set(flag["runs"].values()) == {"succeeded"}


async def test_nothing_else_starts_after_a_canary_or_a_first_run_that_failed(tmp_path: Path) -> None:
    no_memory = [ends("failed", "CUDA out of memory", 1)]
    sweep, host = begun(tmp_path / "a"), ScriptedHost({"canary": no_memory})
    verdict = await done(sweep, host)
    assert host.started == ["canary/01"]
    assert verdict.outcome.value == "failed"
    assert "the canary failed: CUDA out of memory" in verdict.reason and "6 not run" in verdict.reason
    assert {run.reason for run in sweep.state.compared} == {"the canary failed: CUDA out of memory"}
    sweep = begun(tmp_path / "b", plan(2, 2, canary={}))
    assert (await done(sweep, ScriptedHost({"p01-s0": no_memory}))).outcome.value == "failed"
    assert sweep.state.runs["p02-s0"].status == "not_run"


async def test_without_a_canary_the_first_run_goes_ahead_until_its_first_value(tmp_path: Path) -> None:
    sweep, host = begun(tmp_path, plan(2, 2, parallel=2, canary={}, metric="Loss")), ScriptedHost()
    host.held = {"p01-s0"}
    running = asyncio.ensure_future(done(sweep, host))
    await until(host.running)
    for _ in range(50):
        await asyncio.sleep(0)
    assert host.started == ["p01-s0/01"]
    result_dir = sweep.folder.result_dir("p01-s0")
    rows = result_dir / "attempts/01/metrics.jsonl"
    rows.parent.mkdir(parents=True)
    rows.write_text('{"step": 1, "values": {"lr": 0.1}}\n')
    with Journal(result_dir / "journal.jsonl", lambda: 1.0) as journal:
        journal.append(Created("id", "run", 9.0, "playbook", read(tmp_path / "b.md")))
        args = {"attempt": 1, "session": "s", "attempt_id": "a", "why": "first"}
        for event in (Intent("launch", args), Launched(1.0), AttemptEvent(1, "first_step", 1.0)):
            journal.append(event)
    for _ in range(50):
        await asyncio.sleep(0.001)
    assert host.started == ["p01-s0/01"], "its first value of the metric is waited for"
    with rows.open("a") as file:
        file.write('{"step": 2, "values": {"loss": 0.5}}\n')
    await until(lambda: len(host.started) == 4)
    assert host.running() >= {"p01-s0"}
    host.let_end("p01-s0")
    assert (await running).outcome.value == "succeeded"


LOSSES = {"loss": 0.5, "val_loss": 0.6}


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (LOSSES, "no run has val_los; did you mean val_loss? ("),
        ({}, "has no row of metrics, so that no runs could be compared"),
    ],
)
@pytest.mark.parametrize(("first", "canary"), [("canary", {"b": 1}), ("p01-s0", {})])
async def test_d6_a_metric_that_no_run_has_ends_a_sweep_at_its_first_run(
    tmp_path: Path, values: dict[str, float], why: str, first: str, canary: dict[str, Any]
) -> None:
    sweep = begun(tmp_path, plan(3, 2, canary=canary, metric="val_los"))
    host = ScriptedHost({first: [ends(values=values)]})
    verdict = await done(sweep, host)
    assert host.started == [f"{first}/01"]
    assert verdict.outcome.value == "failed" and why in verdict.reason
    assert json.loads((tmp_path / "finish.flag").read_text())["exit_code"] == 1


async def test_d6_nor_does_it_succeed_where_all_runs_had_been_started(tmp_path: Path) -> None:
    sweep = begun(tmp_path, plan(2, 1, canary={}, metric="val_los"))
    plays = {run.name: [ends(values=LOSSES)] for run in sweep.plan.runs}
    verdict = await done(sweep, ScriptedHost(plays))
    assert verdict.outcome.value == "failed" and "no run has val_los" in verdict.reason
    assert [run.outcome for run in sweep.state.compared].count("succeeded") == 1


async def test_a_canary_too_short_for_a_validation_leaves_the_question_to_the_first_run(
    tmp_path: Path,
) -> None:
    sweep = begun(tmp_path, plan(2, 2, metric="val/task_pass_rate@1"))
    host = ScriptedHost()
    assert "no run has val/task_pass_rate@1" in (await done(sweep, host)).reason
    assert host.started == ["canary/01", "p01-s0/01"]


async def test_the_first_run_names_the_metric_where_the_plan_does_not(tmp_path: Path) -> None:
    sweep = begun(tmp_path, plan(2, 1))
    assert (sweep.state.metric, sweep.state.goal) == ("", None)
    await done(sweep, ScriptedHost({"canary": [ends(values=LOSSES)], "p01-s0": [ends(values=LOSSES)]}))
    assert (sweep.state.metric, sweep.state.goal) == ("val_loss", "min")
    assert [run.value for run in sweep.state.compared] == [0.6, None]


@pytest.mark.parametrize(
    ("plays", "outcome", "jobs"),
    [
        ([ends("failed", "NaN", 1)], "failed", 1),
        ([dies(2, begun=False)], "cannot_run", 1),
        ([dies(137)] * 9, "lost", 4),
        ([fails(1)] * 9, "lost", 5),
    ],
)
async def test_no_run_is_tried_for_ever(tmp_path: Path, plays: list[Play], outcome: str, jobs: int) -> None:
    sweep, host = begun(tmp_path), ScriptedHost({"p02-s1": plays})
    verdict = await done(sweep, host)
    assert verdict.outcome.value == "failed" and sweep.state.runs["p02-s1"].outcome == outcome
    assert verdict.reason == f"5 of 6 runs succeeded, 1 {outcome.replace('_', ' ')} (p02-s1)"
    assert [name for name in host.started if "p02-s1" in name] == [f"p02-s1/0{n + 1}" for n in range(jobs)]


async def test_a_harness_that_died_is_followed_by_one_that_resumes(tmp_path: Path) -> None:
    sweep, host = begun(tmp_path / "few"), ScriptedHost({"p02-s0": [dies(137), dies(None, begun=True)]})
    assert (await done(sweep, host)).outcome.value == "succeeded"
    first, second, third = host.commands("p02-s0")
    assert first[4] == "run" and second[4] == third[4] == "resume"
    assert second[5] == str(sweep.folder.result_dir("p02-s0"))
    sweep, host = begun(tmp_path / "many"), ScriptedHost({"p02-s0": [gets_on(137)] * 9})
    assert (await done(sweep, host)).outcome.value == "succeeded", "each job brings it further"
    assert host.started.count("p02-s0/10") == 1


async def test_a_machine_too_small_ends_a_sweep_that_begins_and_the_scheduler_of_another(
    tmp_path: Path,
) -> None:
    def shrinks(job: Any) -> Any:
        host.fits = False
        return ends()(job)

    sweep, host = begun(tmp_path), ScriptedHost({"p01-s0": [shrinks]})
    with pytest.raises(NeverFitsError):
        await done(sweep, host)
    assert sweep.state.verdict is None and not sweep.state.closing
    verdict = await done(begun(tmp_path / "next"), host)
    assert verdict.outcome.value == "failed"
    assert "a run needs 8 GPUs, and this machine has 0" in verdict.reason
    host.fits = True
    assert (await done(sweep, host)).outcome.value == "succeeded"


async def test_nothing_starts_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = [1 << 20]
    monkeypatch.setattr("harness.sweep.scheduler.disk_free", lambda folder: free[0])
    monkeypatch.setattr("harness.sweep.scheduler.LOOK_AGAIN_S", 0.01)
    sweep, host = begun(tmp_path), ScriptedHost()
    running = asyncio.ensure_future(done(sweep, host))
    await until(lambda: sweep.state.held)
    assert not host.started and "only 1 MiB are free" in sweep.state.held
    free[0] = 1 << 40
    assert (await running).outcome.value == "succeeded"
    held = [entry.event.reason for entry in sweep.journal.entries if isinstance(entry.event, Held)]
    assert [reason != "" for reason in held] == [True, False]


async def test_what_the_jobs_need_is_asked_for_when_one_is_started(tmp_path: Path) -> None:
    def missing() -> dict[str, str]:
        raise SweepError("the sweep was started with HF_TOKEN set, and now that is not")

    sweep, host = begun(tmp_path), ScriptedHost()
    with pytest.raises(SweepError):
        await asyncio.wait_for(Scheduler(sweep, host, missing, None).run(), PATIENCE_S)
    scheduler = Scheduler(sweep, host, missing, None)
    scheduler.ask_to_stop("`harness stop`")
    assert (await asyncio.wait_for(scheduler.run(), PATIENCE_S)).outcome.value == "cancelled"


async def test_the_budget_closes_the_queue_and_bounds_what_runs(tmp_path: Path) -> None:
    now = [1000.0]
    sweep = begun(tmp_path, plan(2, 2, budget_s=100.0), clock=lambda: now[0])

    def slow(job: Any) -> Any:
        now[0] += 60.0
        return ends()(job)

    host = ScriptedHost({"p01-s0": [slow]})
    verdict = await done(sweep, host)
    assert verdict.outcome.value == "timed_out"
    assert "a run takes about 60 s, and 40 s of the budget are left" in verdict.reason
    assert host.started == ["canary/01", "p01-s0/01"]
    command = host.commands("p01-s0")[0]
    assert command[command.index("--max-time") + 1] == "100 s"


async def test_a_stop_ends_what_runs_and_starts_nothing_more(tmp_path: Path) -> None:
    sweep, host = begun(tmp_path, plan(3, 2, parallel=2)), ScriptedHost()
    host.held = {"p01-s0", "p02-s0"}
    scheduler = Scheduler(sweep, host, dict, None)
    running = asyncio.ensure_future(scheduler.run())
    await until(lambda: len(host.running()) == 2)
    scheduler.ask_to_stop("`harness stop`")
    verdict = await asyncio.wait_for(running, PATIENCE_S)
    assert verdict.outcome.value == "cancelled"
    assert set(host.stopped) == {"p01-s0", "p02-s0"}
    assert {run.status for run in sweep.state.runs.values()} == {"ended", "not_run"}
    assert not {"p03-s0/01"} & set(host.started)


async def test_a_report_that_cannot_be_built_does_not_keep_a_sweep_from_its_end(tmp_path: Path) -> None:
    async def reporter(_: Sweep) -> SweepReported:
        return SweepReported(error="ValueError: odd")

    sweep = begun(tmp_path)
    assert (await done(sweep, ScriptedHost(), reporter=reporter)).outcome.value == "succeeded"
    assert sweep.state.reported is not None and sweep.state.reported.error == "ValueError: odd"


class _DiedError(BaseException):
    """The scheduler's process is gone."""


@pytest.mark.parametrize("canary", [{"b": 1}, {}])
async def test_a_scheduler_may_die_at_any_entry(tmp_path: Path, canary: dict[str, Any]) -> None:
    """Once for every entry of the journal, just before it is written and just after."""
    made = plan(2, 2, parallel=2, canary=canary)
    undisturbed, entries = await _story(tmp_path / "undisturbed", made)
    for nth in range(1, entries):
        for is_written in (False, True):
            story, _ = await _story(tmp_path / f"{nth}-{is_written}", made, nth, is_written)
            assert story == undisturbed, f"died {'after' if is_written else 'before'} entry {nth}"


async def _story(folder: Path, made: SweepPlan, nth: int = 0, is_written: bool = False) -> tuple[Any, int]:
    """What came of a sweep whose scheduler dies at its nth entry, and how many entries there are."""
    sweep, host = begun(folder, made), ScriptedHost({"p02-s0": [dies(137)]}, room_for=2)
    if nth:
        append = sweep.journal.append

        def mortal(event: Event) -> Entry:
            if len(sweep.journal.entries) == nth:
                if is_written:
                    append(event)
                raise _DiedError
            return append(event)

        sweep.journal.append = mortal  # type: ignore[method-assign]
        with pytest.raises(_DiedError):
            await done(sweep, host)
        sweep.close()
        sweep = Sweep.open(folder)
    verdict = await done(sweep, host)
    outcomes = {name: run.outcome for name, run in sweep.state.runs.items()}
    sweep.close()
    flag = json.loads((folder / "finish.flag").read_text())
    story = (verdict, outcomes, sorted(host.started), dict(host.leases), flag["runs"])
    return story, len(sweep.journal.entries)


def asks(made: Sweep, **about: str) -> Play:
    """The job asks a person about this, and gives its slot back."""

    def play(job: Any) -> int:
        job.result_dir.mkdir(exist_ok=True)
        with Journal(job.result_dir / "journal.jsonl", made.clock) as journal:
            journal.append(created())
            journal.append(ApprovalAsked("patch_code", {**about, "why": job.run}))
        return 75

    return play


async def test_what_runs_ask_alike_is_answered_once_also_for_those_that_ask_later(tmp_path: Path) -> None:
    made, told = begun(tmp_path, plan(4, 1, canary={}, parallel=4)), list[str]()
    made.record(CanaryPassed("a test"))
    made.listeners.append(lambda state, entry: told.append(message(tmp_path, state, entry)[0]))
    same = {"path": "t.py", "old": "a", "new": "b"}
    host = ScriptedHost({f"p0{n}-s0": [asks(made, **same)] for n in (1, 2, 4)})
    host.plays["p03-s0"] = [asks(made, **{**same, "new": "c"})]
    host.held.add("p04-s0")
    task = asyncio.ensure_future(done(made, host))
    await until(lambda: len(made.state.waiting) == 3)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    task = asyncio.ensure_future(done(made, host))  # the next scheduler waits for the same
    assert told.count("trial waits for your answer") == 2
    answered = made.folder.result_dir("p02-s0")
    question = approval.open_question(journal_of(answered))
    assert question is not None
    approval.answer(answered, question.number, approval.Answer("yes", "me"))
    await until(lambda: {"p01-s0/02", "p02-s0/02"} <= {*host.started})
    host.let_end("p04-s0")
    await until(lambda: "p04-s0/02" in host.started)
    assert [run.name for run in made.state.waiting] == ["p03-s0"] and "p03-s0/02" not in host.started
    given = json.loads((made.folder.result_dir("p04-s0") / "approvals/0002.json").read_text())
    assert (given["answer"], given["by"]) == ("yes", f"me{approval.FOR_ALL}")
    Scheduler(made, host, dict, None).ask_to_stop("me")  # heard by a run that waits, too
    assert (await task).outcome.value == "cancelled"
    assert sum(isinstance(entry.event, RunAsks) for entry in made.journal.entries) == 4 and not host.twice


async def test_a_run_that_asks_a_person_gives_its_slot_to_the_others(tmp_path: Path) -> None:
    made = begun(tmp_path, plan(2, 2, canary={}, parallel=1))
    host = ScriptedHost({"p02-s0": [asks(made, path="t.py", old="a", new="b")]})
    task = asyncio.ensure_future(done(made, host))
    await until(lambda: "p02-s1/01" in host.started and not host.leases)
    assert "p02-s0/02" not in host.started and not task.done()
    folder = made.folder.result_dir("p02-s0")
    question = approval.open_question(journal_of(folder))
    assert question is not None
    approval.answer(folder, question.number, approval.Answer("yes", "me"))
    assert (await task).outcome.value == "succeeded"
    assert host.started.count("p02-s0/02") == 1
