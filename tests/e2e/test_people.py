"""People and a running agent: what it asks, what they answer and say, and what it tries before a launch."""

import json

import pytest

from harness.journal.events import Launched, PersonAnswered, SmokeRan
from monitors import overlay
from tests.e2e.bench import Bench, until
from tests.e2e.mortal import Life, Prepare
from tests.model_server.seen import Seen
from tests.model_server.server import ModelServer
from tests.model_server.steps import Step, call

TRAIN = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--data")
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--seed", type=int, default=0)
given = parser.parse_args()
open(given.data).read()
if given.lr > 0.05:
    raise RuntimeError("the loss grows without bound")
for step in range(1, 4):
    print(f"step:{step} - loss:{given.lr / step:.4f}", flush=True)
"""
RESUMING = """
import argparse, pathlib, time
parser = argparse.ArgumentParser()
parser.add_argument("--num_workers", type=int)
parser.add_argument("--steps", type=int)
given = parser.parse_args()
if given.num_workers > 4: raise RuntimeError("pool exhausted")
reached = pathlib.Path("reached")
for step in range(int(reached.read_text()) + 1 if reached.exists() else 1, given.steps + 1):
    print(f"step:{step} - loss:{1 / step}", flush=True)
    if given.num_workers == 4: raise RuntimeError("pool exhausted later")
    reached.write_text(str(step))
    time.sleep(0.2)
"""
QUESTION = "The learning rate is too high for this loss. May it be lower?"


class Model:
    """Asks a person once, waits, and goes on as the answer says; `seen` is all it was shown."""

    def __init__(self, changes: dict[str, object]) -> None:
        self._changes = changes
        self.seen: list[Seen] = []

    def __call__(self, seen: Seen) -> Step:
        self.seen.append(seen)
        done = [each.name for each in seen.calls]
        if "The experiment is over" in seen.text or "person answered: no" in seen.text:
            return call("finish", reason="a person said so")
        steps = ["ask_person", "wait", "check", "launch"]
        step = steps[len({*done} & {*steps})]
        if step == "check" and "person answered" not in seen.text:
            step = "wait"  # a word of the person ends a wait, too
        arguments = {"question": QUESTION, "changes": self._changes} if step == "ask_person" else {}
        why = {"launch": "allowed", "ask_person": "it diverged at once"}
        return call(step, **arguments, **({"why": why[step]} if step in why else {}))


def start(bench: Bench, server: ModelServer, prepare: Prepare | None = None) -> Life:
    word = f"anthropic:scripted@{server.anthropic_url}"
    return bench.start("run", str(bench.blueprint), "--model", word, prepare=prepare)


def without_overlays(*_: object) -> None:
    overlay.works = lambda folder, scratch: False  # type: ignore[assignment]


def plan(bench: Bench) -> None:
    bench.script("train.py", TRAIN)
    (bench.codebase / "data").mkdir()
    (bench.codebase / "data" / "train.csv").write_text("x,y\n1,2\n3,4\n")
    bench.plan("python train.py --data data/train.csv --seed 3", purpose="Does the loss fall?")


def asked(bench: Bench) -> bool:
    path = bench.result_dir / "journal.jsonl"
    return path.exists() and '"person_asked"' in path.read_text()


@pytest.mark.parametrize(
    ("answer", "outcome", "command"),
    [
        (["approve"], "succeeded", "python train.py --data data/train.csv --lr 0.01 --seed 3"),
        (
            ["approve", "--modify", "mine.yaml"],
            "succeeded",
            "python train.py --data data/train.csv --lr 0.02 --seed 4",
        ),
        (["deny", "--because", "it is what we study"], "failed", ""),
    ],
)
def test_a_person_allows_what_only_they_may(
    bench: Bench, answer: list[str], outcome: str, command: str
) -> None:
    plan(bench)
    model = Model({"--lr": 0.01})
    (bench.folder / "mine.yaml").write_text("--lr: 0.02\n--seed: 4\n")
    with ModelServer(model) as server:
        life = start(bench, server)
        until(lambda: asked(bench), "the question")
        shown = bench.harness("show", str(bench.result_dir))
        assert (
            QUESTION in shown and "+python train.py --data data/train.csv" in shown and "--lr 0.01" in shown
        )
        assert bench.launches() == 1
        assert "answer with `harness approve results/trial`: The learning rate" in bench.harness("ls")
        bench.harness(answer[0], str(bench.result_dir), *answer[1:])
        assert "the first one counts" in bench.harness("deny", str(bench.result_dir), status=2)
        life.end(90.0)
    assert bench.flag["outcome"] == outcome
    launched = [each for each in (entry.event for entry in bench.entries()) if isinstance(each, Launched)]
    assert len(launched) == (1 if outcome == "failed" else 2)
    if command:
        assert sorted(launched[-1].command.split()) == sorted(command.split())
        assert "a model's words: it diverged at once" in (bench.result_dir / "result.md").read_text()
        changed = "a person changed for this run: --lr" in "".join(bench.flag["headline"])
        assert changed, "what a person changed stands at the top"
    report = (bench.result_dir / "report.html").read_text()
    assert "a person was asked" in report and "then: no)" in report
    assert "a question was answered" in report and ("it is what we study" in report) == (outcome == "failed")
    assert ("it is what we study" in "".join(bench.flag["headline"])) == (outcome == "failed")
    assert "the same" in bench.harness("replay", str(bench.result_dir))


BROKEN = """\
import os
import sys
steps = 3
for step in range(1, steps + 1):
    pause = 1 / (step - 1)
    print(f"step:{step} - loss:{1 / step}", flush=True)
print("done")
"""


def test_a_correction_that_a_person_changed_is_what_runs_and_what_the_report_shows(bench: Bench) -> None:
    """The model hides a command behind a telling name; the person sees all of it, and writes their own."""
    bench.script("train.py", BROKEN)
    bench.plan(
        "python train.py", purpose="Does the loss fall?", more="\n## [exp_code_changes]\n- `train.py`\n"
    )
    hidden = 'token = "abcdef"; os.system("touch stolen"); pause = 0'
    mine = BROKEN.replace("1 / (step - 1)", "1 / max(step - 1, 1)")
    (bench.folder / "mine.py").write_text(mine)

    def model(seen: Seen) -> Step:
        done = [each.name for each in seen.calls]
        if "The experiment is over" in seen.text:
            return call("finish", reason="all said")
        if not done:
            patch = {"path": "train.py", "old": "pause = 1 / (step - 1)", "new": hidden}
            return call("patch_code", **patch, why="it divides by zero")
        return call("launch", why="corrected")

    with ModelServer(model) as server:
        life = start(bench, server)
        path = bench.result_dir / "journal.jsonl"
        until(lambda: path.exists() and '"approval_asked"' in path.read_text(), "the question")
        asks = bench.harness("show", str(bench.result_dir))
        approved = bench.harness("approve", str(bench.result_dir), "--modify", str(bench.folder / "mine.py"))
        life.end(90.0)
    assert "in the model's words: it divides by zero" in asks and f"+    {hidden}\n" in asks
    assert "--- before/train.py\n+++ after/train.py\n@@ -2,6 +2,6 @@\n import sys\n" in asks, "lines around"
    added = "+    pause = 1 / max(step - 1, 1)\n"
    assert added in approved and "stolen" not in approved
    assert bench.flag["outcome"] == "succeeded_with_changed_code" and "done" in bench.log(2)
    assert not list(bench.folder.rglob("stolen"))
    report = (bench.result_dir / "result.md").read_text()
    assert added in report and "A person changed this correction" in report and "stolen" not in report
    assert added in (bench.attempt(1) / "change.diff").read_text()
    assert "a person changed for this run: train.py corrected" in "".join(bench.flag["headline"])
    assert "nothing differs" in bench.harness("verify", str(bench.result_dir))
    (bench.attempt(1) / "change.diff").write_text("--- before/train.py\n+++ after/train.py\n")
    assert "change.diff" in bench.harness("verify", str(bench.result_dir), status=1)


@pytest.mark.parametrize("answer", ["approve", "", "deny"])
def test_a_misspelt_path_is_put_to_a_person_without_a_model(bench: Bench, answer: str) -> None:
    plan(bench)
    bench.plan("python train.py --lr 0.01 --data dta/train.csv", purpose="Does the loss fall?")
    life = bench.start("run", str(bench.blueprint), *([] if answer else ["--answer-within", "3 s"]))
    until(lambda: asked(bench), "the question")
    if answer:
        bench.harness(answer, str(bench.result_dir))
    life.end(90.0)
    [given] = [entry.event for entry in bench.entries() if isinstance(entry.event, PersonAnswered)]
    assert given.answer == ("yes" if answer == "approve" else "no") and bench.launches() == len(given.changes)
    assert bench.flag["outcome"] == ("succeeded" if answer == "approve" else "cannot_run")
    if not answer:
        assert "nobody answered" in given.by
        waited_s = bench.state.deadline_at - bench.state.created_at - 600.0
        assert 2.0 < waited_s < 60.0, "the time limit counts the wait"
    state, flag = bench.state, bench.flag
    assert state.waited_s == pytest.approx(given.waited_s) and state.finished_at is not None
    [row] = json.loads(bench.harness("ls", "--json"))
    took_s = state.finished_at - state.created_at - given.waited_s
    assert row["elapsed_s"] == pytest.approx(took_s) and flag["waited_s"] == given.waited_s
    if answer == "approve":
        [exit_record] = [json.loads((bench.attempt() / "exit.json").read_text())]
        shown = {fact["id"]: fact["value"] for fact in bench.result["facts"]}
        ran_s = exit_record["ended_at"] - state.created_at - given.waited_s
        assert shown["key/wall_time"] == pytest.approx(ran_s, abs=0.1)
        bench.harness("verify", str(bench.result_dir))


def test_a_word_reaches_the_agent_at_its_next_decision(bench: Bench) -> None:
    plan(bench)
    model = Model({"--lr": 0.01})
    with ModelServer(model) as server:
        life = start(bench, server)
        until(lambda: asked(bench), "the question")
        bench.harness("tell", str(bench.result_dir), "the file was moved last week")
        bench.harness("approve", str(bench.result_dir))
        life.end(90.0)
    assert any("the file was moved last week" in seen.text for seen in model.seen)
    assert "the file was moved last week" in (bench.result_dir / "report.html").read_text()
    assert "no decision before it" in bench.harness("tell", str(bench.result_dir), "too late", status=2)


@pytest.mark.parametrize(
    ("workers", "has_overlays"), [(8, True), (2, True), (2, False)], ids=["fails", "runs", "without overlays"]
)
def test_a_smoke_run_tries_what_is_prepared_and_leaves_nothing(
    bench: Bench, workers: int, has_overlays: bool
) -> None:
    if has_overlays and not overlay.works(bench.codebase, bench.folder / "scratch"):
        pytest.skip("there are no overlays here")
    bench.script("train.py", RESUMING)
    bench.plan("python train.py --num_workers 4 --steps 12", purpose="Does the loss fall?")

    def model(seen: Seen) -> Step:
        done = [each.name for each in seen.calls]
        if "The experiment is over" in seen.text or "it failed after" in seen.text:
            return call("finish", reason="all said")
        steps = {"edit_arguments": {"changes": {"--num_workers": workers}}, "check": {}}
        steps |= {"smoke_run": {"steps": 2, "seconds": 60}, "launch": {}}
        step = list(steps)[sum(name in steps for name in done)]
        return call(step, **steps[step], **({} if step == "check" else {"why": "try"}))

    with ModelServer(model) as server:
        start(bench, server, prepare=None if has_overlays else without_overlays).end(120.0)
    (ran,) = [entry.event for entry in bench.entries() if isinstance(entry.event, SmokeRan)]
    assert ran.failed == (workers == 8), ran
    assert bench.flag["outcome"] == ("failed" if ran.failed else "succeeded")
    assert "smoke run" in (bench.result_dir / "report.html").read_text()
    assert (bench.result_dir / "smoke" / "01" / "pane.log").exists()
    assert ran.left == (() if has_overlays else ("reached",))
    if ran.failed:
        assert "pool exhausted" in ran.log and not (bench.codebase / "reached").exists()
        return
    assert 2 <= ran.steps < 11
    rows = (bench.attempt(2) / "metrics.jsonl").read_text().splitlines()
    assert (len(rows) == 12) == has_overlays, "the launch went on from what the smoke run had left"
