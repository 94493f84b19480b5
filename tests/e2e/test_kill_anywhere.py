"""Whatever place or instant the harness is killed at (SIGKILL), resuming it ends in the story of an
undisturbed run. `make test` does a seeded sample of the trials, `make soak` all of them."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.mortal import Death
from tests.e2e.short_run import FAILS_ONCE, PATIENCE_S, SUCCEEDS, ShortRun
from tests.e2e.trials import Undisturbed, often, try_all

COMMANDS = {"succeeds": SUCCEEDS, "fails once": FAILS_ONCE}


@pytest.fixture(scope="module", params=list(COMMANDS))
def undisturbed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return Undisturbed.of(COMMANDS[request.param], tmp_path_factory)


Trial = Callable[[ShortRun], None]


def dies_at(*deaths: Death) -> Trial:
    """One life after the other dies at its place, where it comes to it."""

    def trial(run: ShortRun) -> None:
        run.begin(death=deaths[0]).end(PATIENCE_S)
        for death in deaths[1:]:
            run.go_on(death).end(PATIENCE_S)

    return trial


def dies_after(seconds: float, rest_s: float) -> Trial:
    """The harness is killed `seconds` after its start, and resumed `rest_s` later."""

    def trial(run: ShortRun) -> None:
        life = run.begin()
        life.is_over(seconds)
        life.kill()
        time.sleep(rest_s)

    return trial


def check(trials: Sequence[tuple[str, Trial]], undisturbed: Undisturbed, folder: Path) -> None:
    """After each trial the run is finished and its story is the undisturbed one."""

    def the_same_story(number: int) -> None:
        with ShortRun(folder / f"{number:03d}", undisturbed.command) as run:
            trials[number][1](run)
            run.finish()
            undisturbed.assert_same(run.story())
            run.assert_tidy()

    try_all([name for name, _ in trials], the_same_story)


def instants(undisturbed: Undisturbed, count: int) -> Iterator[tuple[str, Trial]]:
    """Spread evenly over the run's life, each at random within its share of it."""
    chance = random.Random(20)
    for number in range(count):
        seconds = undisturbed.took_s * (number + chance.random()) / count
        rest = chance.choice((0.0, 0.0, 0.3, 1.0))
        yield f"after {seconds:.4f} s, resumed {rest:.1f} s later", dies_after(seconds, rest)


def chains(undisturbed: Undisturbed, count: int) -> list[tuple[str, Trial]]:
    """The run is killed, then its resume, then the resume of that."""
    chance = random.Random(30)
    first = undisturbed.deaths()
    soon = [death for death in first if death.nth <= 12]
    drawn = [(chance.choice(first), chance.choice(soon), chance.choice(soon)) for _ in range(count)]
    return [(", then ".join(map(str, chain)), dies_at(*chain)) for chain in drawn]


@often(3, 0)
def test_places(undisturbed: Undisturbed, tmp_path: Path, count: int) -> None:
    """Some of them, and in `make soak` (0) every one."""
    trials = [(str(death), dies_at(death)) for death in undisturbed.deaths()]
    check(random.Random(10).sample(trials, count) if count else trials, undisturbed, tmp_path)


@often(2, 100)
def test_instants(undisturbed: Undisturbed, tmp_path: Path, count: int) -> None:
    check(list(instants(undisturbed, count)), undisturbed, tmp_path)


@often(1, 40)
def test_chains(undisturbed: Undisturbed, tmp_path: Path, count: int) -> None:
    check(chains(undisturbed, count), undisturbed, tmp_path)
