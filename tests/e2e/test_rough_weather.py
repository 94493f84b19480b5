"""What else can happen; each time the run ends well or can be resumed to a good end, and nothing is trained
twice. `make test` does a seeded sample of the trials, `make soak` all of them."""

import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import journal
from tests.e2e.bench import until
from tests.e2e.mortal import ClockJump, Death
from tests.e2e.short_run import PATIENCE_S, SUCCEEDS, ShortRun
from tests.e2e.trials import Undisturbed, often, try_all
from tests.small_disk import small_disk

DISK_MB = 3
HOUR_S = 3600.0


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return Undisturbed.of(SUCCEEDS, tmp_path_factory)


def end_or_resume(run: ShortRun, status: int) -> None:
    """A harness that gave up has said how to go on, and that brings the run to a good end."""
    if status != 0:
        said = (run.lives / "01.txt").read_text()
        assert status == 1 and "harness resume" in said, f"exit status {status}:\n{said}"
        run.finish()


# --- the tmux server dies --------------------------------------------------------------------------------


def assert_trained_once(run: ShortRun, undisturbed: Undisturbed) -> None:
    """The whole training ran once, alone: in the first attempt, or in the second where tmux died before."""
    flag = run.story()["flag"]
    assert flag["outcome"] == "succeeded"
    assert run.starts() == {f"{flag['attempts']:02d}": 1}
    if flag["attempts"] == 1:
        undisturbed.assert_same(_without_loss_of_session(run.story()))
    run.assert_tidy()


def _without_loss_of_session(story: dict[str, Any]) -> dict[str, Any]:
    kept = {key: count for key, count in story["events"].items() if "event='session_gone'" not in key}
    return {**story, "events": Counter(kept)}


@often(2, 60)
def test_the_tmux_server_dies(undisturbed: Undisturbed, tmp_path: Path, count: int) -> None:
    """Before or after one of the harness's own commands, or at any other instant."""
    deaths = [Death(d.place, d.nth, "tmux server") for d in undisturbed.deaths() if d.place.endswith("tmux")]
    deaths = deaths if count > 2 else random.Random(41).sample(deaths, 3)
    when = instants(undisturbed, count, seed=42)

    def at_a_command(number: int) -> None:
        with ShortRun(tmp_path / f"command-{number}") as run:
            end_or_resume(run, run.begin(death=deaths[number]).end(PATIENCE_S))
            assert_trained_once(run, undisturbed)

    def at_an_instant(number: int) -> None:
        with ShortRun(tmp_path / f"instant-{number}") as run:
            life = run.begin()
            life.is_over(when[number])
            run.tmux("kill-server")
            end_or_resume(run, life.end(PATIENCE_S))
            assert_trained_once(run, undisturbed)

    try_all([str(death) for death in deaths], at_a_command)
    try_all([f"after {instant:.4f} s" for instant in when], at_an_instant)


def instants(undisturbed: Undisturbed, count: int, seed: int) -> list[float]:
    chance = random.Random(seed)
    return [undisturbed.took_s * (number + chance.random()) / count for number in range(count)]


# --- the disk is full for a while ------------------------------------------------------------------------


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """No byte is free on the disk until the end of the block."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 10, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue
    try:
        yield
    finally:
        filler.unlink()


@contextmanager
def run_on_a_small_disk(folder: Path) -> Iterator[ShortRun]:
    with small_disk(folder / "disk", DISK_MB) as disk, ShortRun(folder / "run", disk=disk) as run:
        yield run


@often(2, 60)
def test_the_disk_is_full_for_a_while(undisturbed: Undisturbed, tmp_path: Path, count: int) -> None:
    """The story is that of a run on a small disk with room enough: it tells that the disk is small."""
    with run_on_a_small_disk(tmp_path / "roomy") as run:
        assert run.begin().end(PATIENCE_S) == 0
        roomy = replace(undisturbed, story=run.story())
    chance = random.Random(51)
    when = [(begins, chance.choice((0.2, 1.0, 3.0))) for begins in instants(undisturbed, count, seed=51)]

    def trial(number: int) -> None:
        full_after_s, full_for_s = when[number]
        with run_on_a_small_disk(tmp_path / str(number)) as run:
            life = run.begin()
            life.is_over(full_after_s)
            with filled(run.disk):
                life.is_over(full_for_s)
            if (status := life.end(PATIENCE_S)) != 0:  # it could not even begin, and a person stands there
                assert status == 2 and "No space left on device" in life.output, life.output
                run.finish()
            roomy.assert_same(run.story(), "flag")
            run.assert_tidy()

    try_all([f"full after {begins:.4f} s for {lasts:.1f} s" for begins, lasts in when], trial)


@often(1, 20)
def test_the_disk_is_full_and_the_harness_killed(tmp_path: Path, count: int) -> None:
    """Killed while there is no room, resumed once there is."""
    chance = random.Random(52)
    when = [chance.uniform(0.3, 2.0) for _ in range(count)]

    def trial(number: int) -> None:
        with run_on_a_small_disk(tmp_path / str(number)) as run:
            life = run.begin()
            life.is_over(when[number])
            with filled(run.disk):
                life.is_over(chance.choice((0.1, 0.5)))
                life.kill()
            assert_good_end(run)

    try_all([f"full after {begins:.4f} s" for begins in when], trial)


@often(1, 20)
def test_the_disk_of_the_state_folder_is_full_for_a_while(tmp_path: Path, count: int) -> None:
    chance = random.Random(53)
    when = [chance.uniform(0.0, 2.0) for _ in range(count)]

    def trial(number: int) -> None:
        folder = tmp_path / str(number)
        with small_disk(folder / "disk", DISK_MB) as disk, ShortRun(folder / "run", state=disk) as run:
            life = run.begin()
            life.is_over(when[number])
            with filled(disk):
                life.is_over(1.0)
            life.end(PATIENCE_S)
            assert_good_end(run)

    try_all([f"full after {begins:.4f} s" for begins in when], trial)


@often(1, 20)
def test_the_results_are_read_only_for_a_while(tmp_path: Path, count: int) -> None:
    """As after an error of the file system."""
    chance = random.Random(54)
    when = [chance.uniform(0.3, 2.0) for _ in range(count)]

    def trial(number: int) -> None:
        with run_on_a_small_disk(tmp_path / str(number)) as run:
            life = run.begin()
            until(lambda: run.result_dir.is_dir(), "the result folder")
            life.is_over(when[number])
            with read_only(run.result_dir):
                life.is_over(2.0)
            life.end(PATIENCE_S)
            assert_good_end(run)

    try_all([f"read-only after {begins:.4f} s" for begins in when], trial)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nothing can be opened for writing below it; what is open stays so."""
    subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def assert_good_end(run: ShortRun) -> None:
    """It has ended well, or does once it is resumed, with a report; trained once."""
    if not (run.result_dir / "finish.flag").exists():
        run.finish()
    assert run.flag["outcome"] == "succeeded"
    assert run.starts() == {f"{run.flag['attempts']:02d}": 1}
    assert (run.result_dir / "report.html").exists() and (run.result_dir / "result.json").exists()
    run.assert_tidy()


# --- the clock is set ------------------------------------------------------------------------------------


@often(2, 60)
def test_the_clock_is_set_ahead_or_back(undisturbed: Undisturbed, tmp_path: Path, count: int) -> None:
    """While the harness runs; a limit counts the time that passes, not the clock's."""
    chance = random.Random(61)
    when = instants(undisturbed, count, seed=61)
    jumps = [ClockJump(after, chance.choice((-1, 1)) * HOUR_S) for after in when]

    def trial(number: int) -> None:
        with ShortRun(tmp_path / f"run-{number}") as run:
            life = run.begin(jump=jumps[number])
            status = life.end(PATIENCE_S)
            assert status == 0, f"exit status {status}:\n{life.output}"
            assert all(getattr(entry.event, "waited_s", 0) >= 0 for entry in run.entries()), "a negative wait"
            undisturbed.assert_same(run.story())
            run.assert_tidy()

    try_all([str(jump) for jump in jumps], trial)


# --- two resumes at once ---------------------------------------------------------------------------------


@often(2, 30)
def test_two_resumes_at_once(undisturbed: Undisturbed, tmp_path: Path, count: int) -> None:
    """One goes on, the other says who does, at once, and changes nothing."""

    def trial(number: int) -> None:
        with ShortRun(tmp_path / f"run-{number}") as run:
            watching = run.begin()
            watching.is_over(when[number])
            watching.kill()
            if not journal.has_begun(run.result_dir / "journal.jsonl"):
                return
            lives = [run.live("resume", str(run.result_dir)) for _ in range(2)]
            statuses = [life.end(PATIENCE_S) for life in lives]
            assert sorted(statuses) == [0, 2], [life.output for life in lives]
            winner, loser = lives[statuses.index(0)], lives[statuses.index(2)]
            assert f"being run by process {winner.process.pid} " in loser.output, loser.output
            undisturbed.assert_same(run.story())
            run.assert_tidy()

    # while there is something left to do for a second or so
    when = [undisturbed.took_s * (0.1 + 0.5 * number / count) for number in range(count)]
    try_all([f"killed after {instant:.4f} s" for instant in when], trial)
