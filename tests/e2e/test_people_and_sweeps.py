"""A sweep whose runs ask a person: once for all that ask the same, without holding a slot."""

import json
import time
from pathlib import Path

from harness.journal import read
from harness.journal.events import PersonAnswered, PersonAsked
from tests.e2e.bench import until
from tests.e2e.sweep_bench import TRAIN, SweepBench
from tests.e2e.test_notifications import Service
from tests.model_server.seen import Seen
from tests.model_server.server import ModelServer
from tests.model_server.steps import Step, call, unauthorized

CLIPPED = TRAIN.replace(
    "if step == 2 and fault.exists():",
    "if step == 2 and given.clip > 0.5:\n        raise RuntimeError('the loss grows without bound')\n"
    "    if step == 2 and fault.exists():",
).replace("given = parser", 'parser.add_argument("--clip", type=float)\ngiven = parser')


class Asks:
    """Asks a person for a smaller clip, in other words each time, and goes on as the answer says."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, seen: Seen) -> Step:
        done = [each.name for each in seen.calls]
        if "person answered: no" in seen.text:
            return call("finish", reason="a person said so")
        if "ask_person" not in done:
            self.asked += 1
            return call(
                "ask_person", question=f"The loss grows ({self.asked}).", changes={"--clip": 0.1}, why="grows"
            )
        steps = ["ask_person", "wait", "check", "launch"]
        step = [*steps, "finish"][len({*done} & {*steps})]
        return call(step, **{"launch": {"why": "allowed"}, "finish": {"reason": "all said"}}.get(step, {}))


def clipped(folder: Path) -> SweepBench:
    sweep = SweepBench(folder, {}, pause=0.1)
    sweep.script("train.py", CLIPPED)
    sweep.plan("python train.py --lr 0.1 --note plain --seed 0 --steps 4 --pause 0.1 --clip 1.0")
    return sweep


def with_model(sweep: SweepBench, server: ModelServer) -> list[str]:
    words = sweep.arguments("arg:--lr=0.1,0.2", seeds=1, parallel=2)
    return [*words[: words.index("--policy")], "--model", f"anthropic:scripted@{server.anthropic_url}"]


def waiting(sweep: SweepBench) -> int:
    return len(sweep.sweep_state.waiting) if (sweep.dir / "sweep.jsonl").exists() else 0


def test_runs_that_ask_the_same_ask_once_and_are_answered_together(tmp_path: Path) -> None:
    sweep, service = clipped(tmp_path), Service()
    with ModelServer(Asks()) as server:
        leader = sweep.start(*with_model(sweep, server), "--notify", service.url)
        until(lambda: waiting(sweep) == 2, "two runs that ask")
        shown = sweep.harness("show", str(sweep.dir)).splitlines()
        assert shown[0].endswith("waits for your answer") and "2 runs ask: The loss grows" in shown[1]
        assert any("--clip 0.1" in line for line in shown)
        assert f"answer    harness approve {sweep.dir}" in shown
        listed = sweep.harness("ls")
        assert "2 waiting for an answer" in listed and "harness approve" in listed
        sweep.harness("report", str(sweep.dir))
        report = (sweep.dir / "sweep_report.md").read_text()
        assert "It waits for your answer" in report.splitlines()[2] and "harness approve" in report
        answered_at = time.time()
        assert "for all runs of the sweep" in sweep.harness("approve", str(sweep.dir))
        assert leader.end(120.0) == 0
    assert "waits for your answer: 1 run asks: The loss grows" in leader.output
    for run in sweep.sweep_state.runs.values():
        entries = read(sweep.dir / run.name / "journal.jsonl")
        [given] = [entry for entry in entries if isinstance(entry.event, PersonAnswered)]
        assert given.event.answer == "yes" and "for all runs" in given.event.by
        assert given.time - answered_at < 20.0, "it is not woken by the answer"
        assert run.outcome == "succeeded"
    titles = [service.next()["title"], service.next()["title"]]
    assert titles == ["trial-sweep waits for your answer", "trial-sweep: succeeded"]
    assert service.posted.empty()
    assert sweep.starts() == {f"{run}/{n:02d}": 1 for run in sweep.sweep_state.runs for n in (1, 2)}


def test_an_answer_in_one_run_holds_for_later_ones_and_other_questions_stay(tmp_path: Path) -> None:
    """A path with exactly one file like it, which differs by the key that is varied: no model is needed."""
    sweep = SweepBench(tmp_path, {}, pause=0.05)
    sweep.script("train.py", TRAIN.replace("given = parser", 'parser.add_argument("--data")\ngiven = parser'))
    (sweep.codebase / "data").mkdir()
    (sweep.codebase / "data" / "train.csv").write_text("x,y\n1,2\n")
    sweep.plan("python train.py --lr 0.1 --note a --seed 0 --steps 4 --pause 0.05 --data dta/train.csv")
    leader = sweep.start(*sweep.arguments("arg:--lr=0.1,0.2,0.3", seeds=1, parallel=1))
    until(lambda: waiting(sweep) == 1, "the first run, which asks")
    [first] = sweep.sweep_state.waiting
    sweep.harness("approve", str(sweep.dir / first.name))
    assert leader.end(120.0) == 0
    asked = [
        entry.event
        for run in sweep.sweep_state.runs
        for entry in read(sweep.dir / run / "journal.jsonl")
        if isinstance(entry.event, PersonAsked)
    ]
    assert len(asked) == 3 and len(sweep.sweep_state.questions) == 1
    waits = [run.idle_s for run in sweep.sweep_state.runs.values() if run.name != first.name]
    assert max(waits) < 5.0


def test_a_model_that_shuts_a_sweep_out_holds_no_slot(tmp_path: Path) -> None:
    sweep = clipped(tmp_path)
    with ModelServer(lambda seen: unauthorized()) as server:
        began = time.monotonic()
        leader = sweep.start(*with_model(sweep, server))
        assert leader.end(120.0) == 1
    assert time.monotonic() - began < 90.0
    assert json.loads((sweep.dir / "finish.flag").read_text())["outcome"] == "failed"
