"""What is ours is freed; what is not, is not."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import index
from harness.experiment import Experiment
from harness.repair.leftovers import free, owned
from monitors.processes import ATTEMPT_VARIABLE
from tests.harness.agent.world import launch
from tests.harness.runs import record

SLEEP = [sys.executable, "-I", "-S", "-c", "print(flush=True); import time; time.sleep(600)"]


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return made(tmp_path / "mine", "aaaa00000000", attempts=3, carried=(None, "step_20", "step_30"))


def made(
    folder: Path, experiment_id: str, attempts: int, carried: tuple[str | None, ...] = (), **end: Any
) -> Experiment:
    """An experiment whose attempts have all ended. `carried`: the checkpoint that each went on from."""
    folder.mkdir()
    found = Experiment(folder, lambda: 1000.0)
    record(found, "created", experiment_id=experiment_id, name=folder.name, deadline_at=9e9)
    for number in range(1, attempts + 1):
        went_on_from = dict(enumerate(carried, start=1)).get(number)
        launch(found, number, went_on_from, reason="exited", complete=False)
        files = found.attempt_files(number)
        files.started.mkdir(parents=True)
        ended = {"attempt_id": f"{experiment_id}-{number:02d}", "reason": "exited", "status": 1}
        files.exit_file.write_text(json.dumps(ended))
    if end:
        record(found, "finish", **end)
    return found


@pytest.fixture
def left_behind() -> Iterator[Any]:
    """Starts processes that carry an attempt's id."""
    started: list[subprocess.Popen[bytes]] = []

    def start(attempt_id: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, ATTEMPT_VARIABLE: attempt_id}
        started.append(subprocess.Popen(SLEEP, env=environment, stdout=subprocess.PIPE))
        assert started[-1].stdout is not None
        started[-1].stdout.readline()
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_processes_of_attempts_that_are_over_are_ended(experiment: Experiment, left_behind: Any) -> None:
    ours, other = left_behind("aaaa00000000-02"), left_behind("bbbb00000000-01")
    assert owned(experiment, "processes") == 1
    assert free(experiment, "processes") == 1
    assert ours.wait(timeout=30) != 0 and other.poll() is None
    assert owned(experiment, "processes") == 0


def test_of_other_experiments_only_those_that_have_finished(
    experiment: Experiment, tmp_path: Path, left_behind: Any
) -> None:
    made(tmp_path / "over", "cccc00000000", 1, outcome="failed", reason="r").close()
    made(tmp_path / "live", "dddd00000000", 1).close()
    for experiment_id, name in (("cccc00000000", "over"), ("dddd00000000", "live")):
        index.add(index.IndexedRun(experiment_id, name, str(tmp_path / name), 1.0))
    left_behind("cccc00000000-01")
    goes_on = left_behind("dddd00000000-01")
    assert free(experiment, "processes") == 1
    assert goes_on.poll() is None


def checkpoint(experiment: Experiment, number: int, name: str, size: int = 1000, newest: bool = True) -> Path:
    folder = experiment.attempt_files(number).trainer / "checkpoints"
    (folder / name).mkdir(parents=True)
    (folder / name / "model.pt").write_bytes(b"x" * size)
    if newest:
        (folder / "latest").write_text(f"{name}\n")
    return folder / name


CARRIED = (None, "step_20", "step_30")
CHAIN = "1/step_20 2/step_30 3/step_30"
CHECKPOINTS = {
    "what a later attempt went beyond": (CARRIED, "1/step_20 2/step_20 2/step_30", "1/step_20"),
    "what a chain went beyond, though its newest has not begun": (CARRIED, CHAIN, "1/step_20"),
    "not the only one": (CARRIED, "1/step_10", ""),
    "not those that the newest did not go on from": ((), "1/step_1000 2/step_10", ""),
}


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_what_goes_of_the_checkpoints(tmp_path: Path, name: str) -> None:
    carried, written, gone = CHECKPOINTS[name]
    fresh = made(tmp_path / "fresh", "eeee00000000", 3, carried)
    folders = {each: checkpoint(fresh, int(each[0]), each[2:]) for each in written.split()}
    assert owned(fresh, "checkpoints") == free(fresh, "checkpoints") == 1000 * len(gone.split())
    assert [each for each, folder in folders.items() if not folder.exists()] == gone.split()
    assert owned(fresh, "checkpoints") == 0


def test_all_of_one_attempt_go_but_no_half_written_one(experiment: Experiment) -> None:
    old = [checkpoint(experiment, 1, "step_10"), checkpoint(experiment, 1, "step_20")]
    kept = [checkpoint(experiment, 2, "step_20"), checkpoint(experiment, 2, "step_30")]
    half_written = checkpoint(experiment, 3, "step_40", newest=False)
    assert free(experiment, "checkpoints") == 2000
    assert not any(folder.exists() for folder in old)
    assert all(folder.exists() for folder in (*kept, half_written))


def linked(first: Path, experiment: Experiment) -> Path:
    """The second attempt shares this checkpoint; returns the folder of those it has."""
    second = experiment.attempt_files(2).trainer / "checkpoints"
    (second / first.name).mkdir(parents=True)
    os.link(first / "model.pt", second / first.name / "model.pt")
    return second


def test_a_shared_file_makes_no_room(experiment: Experiment) -> None:
    linked(checkpoint(experiment, 1, "step_10"), experiment)
    checkpoint(experiment, 2, "step_30")
    assert owned(experiment, "checkpoints") == 0


def test_nothing_goes_before_the_newest_went_beyond_it(experiment: Experiment) -> None:
    first = checkpoint(experiment, 1, "step_20")
    (linked(first, experiment) / "latest").write_text("step_20\n")
    other = checkpoint(experiment, 1, "step_10", newest=False)
    assert free(experiment, "checkpoints") == 0 and other.exists()


@pytest.mark.parametrize("file", ["model.pt", "model.safetensors"])
def test_weights_that_were_cut_off_replace_nothing(experiment: Experiment, file: str) -> None:
    old, cut = checkpoint(experiment, 1, "step_20"), checkpoint(experiment, 2, "step_30")
    (cut / file).write_bytes(b"" if file == "model.pt" else b"x" * 100)
    assert free(experiment, "checkpoints") == 0 and old.exists()


def test_links_that_lead_out_of_the_experiment_are_not_followed(tmp_path: Path) -> None:
    mine = made(tmp_path / "linked", "ffff00000000", 3, carried=(None, "step_20", "step_30"))
    outside = tmp_path / "outside" / "checkpoints" / "precious"
    outside.mkdir(parents=True)
    (outside / "model.pt").write_bytes(b"x" * 500)
    mine.attempt_files(1).trainer.symlink_to(tmp_path / "outside")
    beyond = checkpoint(mine, 2, "step_20")
    (beyond.parent / "link").symlink_to(outside)
    checkpoint(mine, 3, "step_40")
    assert free(mine, "checkpoints") == 1000 and (outside / "model.pt").exists()
