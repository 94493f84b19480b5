"""`harness resume --all`: every unfinished run goes on, and what became of its training is said."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from harness import journal
from tests.e2e.bench import until
from tests.e2e.mortal import Death, Life
from tests.e2e.short_run import PATIENCE_S, SUCCEEDS, ShortRun

LONG = "python train.py 2000 0.05"
UNTIL_TOLD = "python train.py 5 0.1; until test -e end; do sleep 0.05; done"
SHORT_AT_LAST = "test -e seen && exec python train.py 5 0.1; touch seen; exec python train.py 2000 0.05"


class Machine:
    """Runs of one user on one tmux server, and the reboot."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs: list[ShortRun] = []

    def add(self, name: str, command: str, **limits: str) -> ShortRun:
        run = ShortRun(self.folder / name, command, state=self.folder / "state", **limits)
        if self.runs:
            run.socket = run.env["AJET_TMUX_SOCKET"] = self.runs[0].socket
        self.runs.append(run)
        return run

    def resume_all(self) -> str:
        life = self.runs[0].live("resume", "--all")
        assert life.end(PATIENCE_S) == 0, life.output
        return life.output


@pytest.fixture
def machine(tmp_path: Path):
    machine = Machine(tmp_path)
    yield machine
    for run in machine.runs:
        run.clean_up()


def watched_until(run: ShortRun, text: str) -> Life:
    """A harness whose training has printed `text`."""
    life = run.begin()
    until(lambda: text in run.log(), text)
    return life


def finished(run: ShortRun) -> Any:
    """The outcome of the run, when there is one."""
    until((run.result_dir / "finish.flag").exists, "the flag")
    return run.flag["outcome"]


def line_about(run: ShortRun, output: str) -> str:
    lines = [line for line in output.splitlines() if line.startswith(f"{run.result_dir}: ")]
    assert len(lines) == 1, output
    return lines[0]


def test_after_a_reboot(machine: Machine) -> None:
    runs = [machine.add("again", SHORT_AT_LAST), machine.add("late", LONG, max_time="4 seconds")]
    for run in runs:
        watched_until(run, "step=3 ").kill()
    for run in runs:
        run.kill_attempt()
    runs[0].tmux("kill-server")
    again, late = runs
    until(lambda: time.time() > late.state.deadline_at, "the deadline of a run")
    said = machine.resume_all()
    assert "died with the machine" in line_about(again, said)
    assert "started again from the beginning" in line_about(again, said)
    assert "not started again: the time limit" in line_about(late, said)
    assert finished(again) == "succeeded"
    assert again.starts() == {"01": 1, "02": 1}
    assert finished(late) == "timed_out"
    until(lambda: "ajet_" not in again.tmux("list-sessions", "-F", "#S"), "the sessions to close")
    assert machine.resume_all().strip() == "no unfinished run without a harness"


def test_from_the_last_checkpoint(machine: Machine) -> None:
    run = machine.add("checkpointed", LONG)
    watched_until(run, "step=3 ").kill()
    run.kill_attempt()
    checkpoint = run.files().trainer / "checkpoints" / "step_000002"
    checkpoint.mkdir(parents=True)
    (checkpoint.parent / "latest").write_text("step_000002\n")
    run.files().config.write_text("ajet:\n  backbone: local\n")
    assert "started again from checkpoint step_000002" in line_about(run, machine.resume_all())


def test_only_the_harness_had_died(machine: Machine) -> None:
    goes_on = machine.add("goes-on", UNTIL_TOLD)
    ended = machine.add("ended", SUCCEEDS)
    sealed = machine.add("sealed", SUCCEEDS)
    watched = machine.add("watched", UNTIL_TOLD)
    for life in [watched_until(run, "step=3 ") for run in (goes_on, ended)]:
        life.kill()
    dies_before_the_flag(sealed)
    watching = watched_until(watched, "step=3 ")
    until(lambda: ended.files().exit() is not None, "the end of a training")
    said = machine.resume_all()
    assert "(attempt 1) goes on" in line_about(goes_on, said)
    assert "(attempt 1) ended meanwhile: the command ended, exit status 0" in line_about(ended, said)
    assert "only its finish.flag was still to be written" in line_about(sealed, said)
    assert str(watched.result_dir) not in said
    for run in (goes_on, watched):
        (run.codebase / "end").touch()
    for run in (goes_on, ended, sealed, watched):
        assert finished(run) == "succeeded"
        assert run.starts() == {"01": 1}
    assert watching.end(PATIENCE_S) == 0
    assert journal.read(sealed.result_dir / "journal.jsonl")[-1].kind == "finish"


def dies_before_the_flag(run: ShortRun) -> None:
    """The last sync but two is that of the flag's content, before its name and its folder."""
    counts_file = run.folder / "counts.json"
    with ShortRun(run.folder / "rehearsal", SUCCEEDS) as rehearsal:
        assert rehearsal.begin(counts_file=counts_file).end(PATIENCE_S) == 0
    syncs = json.loads(counts_file.read_text())["sync"]
    assert run.begin(death=Death("sync", syncs - 1)).end(PATIENCE_S) == -9
    assert run.entries()[-1].kind == "finish"
    assert not (run.result_dir / "finish.flag").exists()
