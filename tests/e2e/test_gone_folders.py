"""A result folder, or a part of it, is moved, deleted or copied while a training runs in it, or the terminal
of its harness is gone: the training goes on, alone, and nothing is made in a place that is not the run's."""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from monitors.processes import members_of_attempt, send_signal
from tests.e2e.bench import until
from tests.e2e.mortal import Life, Prepare
from tests.e2e.short_run import PATIENCE_S, ShortRun
from tests.small_disk import small_disk

LASTS = "python train.py 100 0.1"


def impatient() -> None:
    """What is gone is given up soon."""
    from harness.agent import holding

    holding.FIRST_LOOK_S, holding.GONE_PATIENCE_S = 0.5, 1.0


@pytest.fixture
def run(tmp_path: Path) -> Iterator[ShortRun]:
    with ShortRun(tmp_path / "run", LASTS) as made:
        yield made


def without_more_sessions() -> None:
    """tmux makes the session of the training, and no other one."""
    from monitors.tmux import Session, TmuxError

    create = Session.create

    def refuse(name: str, *arguments: Any) -> Session:
        if "watch" in name:
            raise TmuxError("no more sessions")
        return create(name, *arguments)

    Session.create = refuse


def seen(run: ShortRun, prepare: Prepare | None = impatient) -> Life:
    """A harness that has seen the training run."""
    life = run.start("run", str(run.blueprint), prepare=prepare)
    until(lambda: any(entry.kind == "supervisor_seen" for entry in run.entries()), "the supervisor is known")
    until(lambda: "step=3 " in run.log(), "the third step")
    return life


@pytest.mark.parametrize("gone", ["started", "."])
def test_a_part_that_comes_back_is_as_if_nothing_had_happened(run: ShortRun, gone: str) -> None:
    watching = seen(run, prepare=None)
    away = (run.attempt() / gone).resolve().rename(run.folder / "away")
    assert not watching.is_over(3.0)
    away.rename(run.attempt() / gone if gone != "." else run.attempt())
    assert watching.end(PATIENCE_S) == 0, watching.output
    assert ("The run is held" in watching.output) == (gone == ".")
    assert run.starts() == {"01": 1} and run.result["facts"]
    run.assert_tidy()


def test_a_disk_that_is_unmounted_for_a_while(tmp_path: Path) -> None:
    """The training ends meanwhile."""
    with small_disk(tmp_path / "disk", 20) as disk, bound(disk, tmp_path / "place") as place:
        with ShortRun(
            tmp_path / "run", "python train.py 40 0.1", disk=place, state=tmp_path / "state"
        ) as run:
            run.result_dir.parent.mkdir()
            watching = run.begin()
            until(lambda: "step=3 " in run.log(), "the third step")
            subprocess.run(["umount", "--lazy", str(place)], check=True)
            until(lambda: "The run is held" in watching.output, "the hold")
            assert not watching.is_over(6.0) and list(place.iterdir()) == []
            subprocess.run(["mount", "--bind", str(disk), str(place)], check=True)
            assert watching.end(PATIENCE_S) == 0, watching.output
            assert run.flag["outcome"] == "succeeded" and run.starts() == {"01": 1}


@contextmanager
def bound(disk: Path, place: Path) -> Iterator[Path]:
    place.mkdir()
    subprocess.run(["mount", "--bind", str(disk), str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_moved_result_folder_ends_the_watch_and_is_gone_on_with(run: ShortRun) -> None:
    watching = seen(run)
    place, there = run.result_dir, run.result_dir.with_name("elsewhere")
    place.rename(there)
    assert watching.end(PATIENCE_S) == 1
    assert f"{place}: moved to {there}" in watching.output
    assert f"`harness resume {there}` goes on from here" in watching.output
    assert not place.exists()
    resumed = run.live("resume", str(there))
    assert resumed.end(PATIENCE_S) == 0, resumed.output
    assert not place.exists()
    run.result_dir = there
    assert run.starts() == {"01": 1} and run.flag["outcome"] == "succeeded"
    run.assert_tidy()


def test_nothing_trains_beside_a_training_whose_folder_was_deleted(run: ShortRun) -> None:
    watching = seen(run)
    name = run.state.attempt.attempt_id
    try:
        shutil.rmtree(run.result_dir)
        assert watching.end(PATIENCE_S) == 1
        assert not run.result_dir.exists()
        assert members_of_attempt(name), "the training was ended"
        refused = run.begin()
        assert refused.end(PATIENCE_S) == 2
        assert "a training of an earlier run still runs" in refused.output
        assert run.starts() == {"01": 1}
    finally:
        for pid in members_of_attempt(name):
            send_signal(pid, signal.SIGKILL)


def test_a_copy_is_refused_while_the_run_itself_is_there(run: ShortRun) -> None:
    seen(run).kill()
    copy = Path(shutil.copytree(run.result_dir, run.result_dir.with_name("copy")))
    for command in ("resume", "stop"):
        refused = run.live(command, str(copy))
        assert refused.end(PATIENCE_S) == 2
        assert f"is a copy of {run.result_dir}" in refused.output
    run.finish()
    assert run.starts() == {"01": 1}
    run.assert_tidy()


def test_a_lost_terminal_hands_the_watch_over(run: ShortRun) -> None:
    watching = seen(run)
    for _ in range(2):  # one from the kernel, one from the shell
        watching.send_signal(signal.SIGHUP)
    assert watching.end(PATIENCE_S) == 0
    assert "the terminal is gone: the run goes on in a tmux session of its own" in watching.output
    assert "running on in tmux session ajet_watch_trial-" in watching.output
    until(lambda: (run.result_dir / "finish.flag").exists(), "finish.flag")
    assert run.flag["outcome"] == "succeeded" and run.starts() == {"01": 1}
    until(lambda: "ajet_" not in run.tmux("list-sessions", "-F", "#S"), "no session is left")
    run.assert_tidy()


def test_a_watch_that_nobody_can_take_over_goes_on_without_its_terminal(run: ShortRun) -> None:
    watching = seen(run, prepare=without_more_sessions)
    watching.send_signal(signal.SIGHUP)
    assert watching.end(PATIENCE_S) == 0, watching.output
    assert "no more sessions" in watching.output
    assert run.flag["outcome"] == "succeeded" and run.starts() == {"01": 1}
    run.assert_tidy()
