"""The folder that a sweep of `varied` is planned into."""

from pathlib import Path

import pytest

from harness.sweep.plan import SweepFolder


@pytest.fixture
def folder(tmp_path: Path) -> SweepFolder:
    made = SweepFolder(tmp_path / "results" / "trial-sweep")
    made.dir.mkdir(parents=True)
    return made
