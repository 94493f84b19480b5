"""The workbench fixture."""

from pathlib import Path

import pytest

from tests.e2e.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
