"""Many disturbed runs side by side, compared with an undisturbed one."""

import fcntl
import hashlib
import json
import os
import pickle
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, cast

import pytest

from tests.e2e.mortal import PLACES, Death
from tests.e2e.short_run import PATIENCE_S, ShortRun

AT_ONCE = 3


def often(few: int, many: int) -> pytest.MarkDecorator:
    """Run a test with a small `count`, and in `make soak` with a large one."""
    return pytest.mark.parametrize("count", [few, pytest.param(many, marks=pytest.mark.soak)])


@dataclass(frozen=True)
class Undisturbed:
    """What an undisturbed run told, how often it came to each place, and how long it took (s)."""

    command: str
    story: dict[str, Any]
    counts: dict[str, int]
    took_s: float

    @classmethod
    def of(cls, command: str, folders: pytest.TempPathFactory) -> "Undisturbed":
        """Run the command in peace, once so that everything is imported, and once to know it; workers that
        test side by side share what is known."""
        base, session = folders.getbasetemp(), os.environ.get("PYTEST_XDIST_TESTRUNUID")
        place = base.parent / session if session else base
        place.mkdir(exist_ok=True)
        known = place / f"undisturbed-{hashlib.sha256(command.encode()).hexdigest()[:8]}"
        with known.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not known.stat().st_size:
                pickle.dump(cls._seen(command, folders), file)
                file.flush()
            file.seek(0)
            return cast(Undisturbed, pickle.load(file))

    @classmethod
    def _seen(cls, command: str, folders: pytest.TempPathFactory) -> "Undisturbed":
        with ShortRun(folders.mktemp("undisturbed"), command) as first:
            first.begin().end(PATIENCE_S)
        with ShortRun(folders.mktemp("undisturbed"), command) as run:
            begun = time.monotonic()
            life = run.begin(counts_file=run.folder / "counts.json")
            assert life.end(PATIENCE_S) == 0, life.output
            took_s = time.monotonic() - begun
            run.assert_tidy()
        return cls(command, run.story(), json.loads((run.folder / "counts.json").read_text()), took_s)

    def deaths(self) -> list[Death]:
        """Every place in a life where it can be ended."""
        return [Death(place, nth) for place in PLACES for nth in range(1, self.counts[place] + 1)]

    def assert_same(self, story: dict[str, Any], *but: str) -> None:
        """The other run's story is this one, apart from the parts named in `but`."""
        differing = [part for part in self.story if part not in but and story[part] != self.story[part]]
        said = [f"{part}: {self.story[part]}\n  not: {story[part]}" for part in differing]
        assert not differing, "another story\n" + "\n".join(said)


def try_all(names: Sequence[str], trial: Callable[[int], None]) -> None:
    """Do the trials, a few at a time, and fail with all that went wrong, by the trials' names."""

    def outcome(number: int) -> str | None:
        try:
            trial(number)
        except Exception as error:  # noqa: BLE001  every trial is done, whatever one of them meets
            where = traceback.extract_tb(error.__traceback__)[-1]
            return f"{number}: {names[number]}: {error!r} at {where.filename}:{where.lineno}"
        return None

    with ThreadPoolExecutor(AT_ONCE) as pool:
        failures = [failure for failure in pool.map(outcome, range(len(names))) if failure]
    assert not failures, f"{len(failures)} of {len(names)} trials:\n" + "\n".join(failures)
