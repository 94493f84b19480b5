"""`harness ls`, `ls --tree` and `show` with sweeps among the runs."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from harness import index
from harness.blueprint import read
from harness.journal import Journal
from harness.journal.events import Collected, Created, Finish, Intent, Launched
from harness.outcome import Outcome
from harness.sweep.state import SWEEP, RunEnded, SweepReported
from tests.harness.cli.typed import typed
from tests.harness.sweep.sweep_states import CHECKED, ended, plan, started, succeeded, write, write_metrics

KL = plan({"ajet.kl_loss_coef": [0.001, 0.01]}, seeds=(0, 1), question="Does the KL term matter?")
EVENTS = [
    CHECKED,
    *succeeded(0, 100, "p01-s0", 0.5),
    *(started(0, "p02-s0"), ended(60, "p02-s0", "failed", "CUDA out of memory")),
    started(100, "p01-s1"),
]


def make_run(folder: Path, name: str = "") -> Path:
    folder.mkdir(parents=True)
    with Journal(folder / "journal.jsonl", time.time) as journal:
        blueprint = read(folder / "blueprint.md")
        journal.append(Created("0123456789ab", name or folder.name, time.time() + 60, "playbook", blueprint))
    index.add(index.IndexedRun("0123456789ab", name or folder.name, str(folder), time.time()))
    return folder


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """A sweep between two runs of their own, three of its runs begun."""
    make_run(tmp_path / "before")
    folder = write(tmp_path / "ablation", KL, *EVENTS)
    for run, steps in (("p01-s0", 240), ("p02-s0", 3), ("p01-s1", 57)):
        make_run(folder / run)
        write_metrics(folder / run, steps)
    make_run(tmp_path / "after")
    return folder


def called(*words: str) -> tuple[int, str]:
    status, out, err = typed(*words)
    return status, out + (err if status else "")


def as_json(*arguments: str) -> Any:
    status, out = called(*arguments, "--json")
    assert status == 0, out
    return json.loads(out)


def test_a_sweep_is_one_line(sweep: Path) -> None:
    lines = called("ls")[1].splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["before", "ablation", "after"]
    assert "1 of 4 runs done, 1 running, 1 failed, 1 queued" in lines[2] and "unwatched" in lines[2]
    rows = as_json("ls")
    assert [row["kind"] for row in rows] == ["run", "sweep", "run"]
    counts = {"queued": 1, "running": 1, "waiting": 0, "done": 1, "failed": 1, "cancelled": 0}
    assert rows[1]["counts"] == counts and "runs" not in rows[1]


def test_the_tree_has_the_runs_below_their_sweep(sweep: Path) -> None:
    lines = called("ls", "--tree")[1].splitlines()
    tree = ["before", "ablation", "├─ p01-s0", "├─ p01-s1", "├─ p02-s0", "└─ p02-s1", "after"]
    assert [line.split("  ")[0] for line in lines[1:]] == tree
    assert lines[3].split()[2:6] == ["succeeded", "1", "240", "0.500"]
    runs = {run["name"]: run for run in as_json("ls", "--tree")[1]["runs"]}
    assert (runs["p01-s0"]["value"], runs["p01-s0"]["elapsed_s"], runs["p01-s0"]["step"]) == (0.5, 100, 240)
    assert (runs["p02-s0"]["state"], runs["p02-s0"]["reason"]) == ("failed", "CUDA out of memory")
    assert (runs["p01-s1"]["state"], runs["p01-s1"]["step"]) == ("running", 57)
    assert (runs["p02-s1"]["state"], runs["p02-s1"]["step"]) == ("queued", None)
    path = index.state_home() / "runs.jsonl"
    path.write_text("".join(line for line in path.open() if '"kind": "sweep"' not in line))
    found = [row["name"] for row in as_json("ls")]
    assert found == ["before", "ablation", "after"], "it is found through its runs when its own line is lost"


def test_a_damaged_sweep_is_shown_as_damaged(sweep: Path) -> None:
    path = sweep / "sweep.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"kind":"checked"', b'"kind":"chocked"'))
    assert as_json("ls", "--tree")[1]["state"] == "damaged"
    assert "damaged" in called("show", str(sweep))[1]
    path.write_text("nothing of a plan\n")
    assert as_json("ls")[1]["state"] == "damaged"
    assert "the file is no journal" in called("show", str(sweep))[1]


def test_show_of_a_sweep(sweep: Path) -> None:
    out = called("show", "ablation")[1]
    facts = {line[:10].strip(): line[10:] for line in out.splitlines()[1:]}
    assert facts["question"] == "Does the KL term matter?"
    assert facts["best"] == "0.500 (one seed)  baseline  task_pass_rate@1  (so far)"
    assert facts["failed"] == "p02-s0: failed: CUDA out of memory"
    assert facts["next"] == f"harness resume {sweep}"
    told = as_json("show", "ablation")
    assert told["best_so_far"] == "p01" and len(told["runs"]) == 4 and told["verdict"] is None


def test_show_of_a_run_whose_name_is_no_markup(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a[bold]b")
    launch = {"attempt": 1, "session": "ajet_x-01", "attempt_id": "x-01", "why": "w"}
    with Journal(folder / "journal.jsonl", time.time) as journal:
        journal.append(Intent("launch", launch))
        journal.append(Launched(time.time(), "train"))
    (folder / "report.html").touch()
    first, *lines = called("show", str(folder))[1].splitlines()
    facts = {line[:10].strip(): line[10:] for line in lines}
    assert first.startswith("a[bold]b  ") and facts["folder"] == str(folder)
    assert facts["attempt"] == "01  ajet_x-01  running" and facts["report"].endswith("report.html")
    (attempt,) = as_json("show", str(folder))["attempts"]
    assert (attempt["number"], attempt["end"]) == (1, "running")


def test_what_to_type_next(sweep: Path) -> None:
    with Journal(sweep / "sweep.jsonl", time.time, SWEEP) as journal:
        out = called("show", str(sweep))[1]
        assert f"harness logs -f {sweep / 'p01-s1'}, harness stop {sweep}" in out
        journal.append(RunEnded("p01-s1", "failed", ""))
        journal.append(SweepReported(("kl_loss_coef matters",)))
        journal.append(Finish(Outcome.FAILED, "1 of 4 runs succeeded"))
    assert f"next      harness report {sweep}" in called("show", str(sweep))[1]
    (sweep / "sweep_report.html").touch()
    out = called("show", str(sweep))[1]
    assert f"harness verify {sweep}" in out and "kl_loss_coef matters" in out
    assert "outcome   failed: 1 of 4 runs succeeded" in out and "(so far)" not in out


def test_commands_for_runs_say_that_it_is_a_sweep(sweep: Path) -> None:
    for command in ("logs", "attach", "replay", "diagnose"):
        status, out = called(command, str(sweep))
        assert status == 2 and "is a sweep, not a run" in out and str(sweep / "p01-s0") in out, command


def test_hundreds_of_runs_are_read_quickly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick because no journal of a sweep's run is read: all is in the sweep's own."""
    made = plan({"k": list(range(60))}, seeds=(0, 1, 2))
    events = [event for run in made.runs for event in succeeded(0, 100, run.name, 0.5)]
    folder = write(tmp_path / "big", made, *events)
    for run in made.runs:
        make_run(folder / run.name)
    read: list[Path] = []
    monkeypatch.setattr(index, "load_state", read.append)
    assert len(as_json("ls", "--tree")[0]["runs"]) == 180 and read == []


def test_ls_can_be_narrowed_to_a_state_and_the_newest(sweep: Path, tmp_path: Path) -> None:
    with Journal(tmp_path / "before" / "journal.jsonl", time.time) as journal:
        for event in (Intent("collect"), Collected(Outcome.FAILED, "why"), Intent("finish")):
            journal.append(event)
        journal.append(Finish(Outcome.FAILED, "why"))
    names = {
        state: [row["name"] for row in as_json("ls", "--state", state)]
        for state in ("failed", "finished", "unfinished", "running", "succeeded")
    }
    over, not_over = ["before"], ["ablation", "after"]
    assert names == {"failed": over, "finished": over, "unfinished": not_over, "running": [], "succeeded": []}
    assert [row["name"] for row in as_json("ls", "--last", "2")] == not_over
    assert "no run is succeeded" in called("ls", "--state", "succeeded")[1]


def test_the_folder_is_the_shorter_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(tmp_path / "results" / "one")
    monkeypatch.chdir(tmp_path)
    assert called("ls")[1].splitlines()[1].endswith("  results/one")
