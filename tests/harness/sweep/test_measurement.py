"""What a sweep takes for the value of a run."""

import json
from pathlib import Path

import pytest

from harness.sweep.measurement import Measurement
from harness.sweep.plan import SweepRun
from harness.sweep.state import SweepState
from tests.harness.results.comparing.result_folders import foreign


@pytest.mark.parametrize(("lost", "value"), [(0, 0.25), (9, None)])
def test_a_value_that_a_lost_log_may_have_hidden_is_none(
    tmp_path: Path, lost: int, value: float | None
) -> None:
    folder = foreign(tmp_path / "a", "python t.py", [(step, {"loss": 1 / step}) for step in range(1, 5)])
    ended = json.loads((folder / "attempts/01/exit.json").read_text())
    (folder / "attempts/01/exit.json").write_text(json.dumps(ended | {"log_lost_bytes": lost}))
    found = Measurement.of(folder, SweepRun("a", "p01", 0), SweepState(metric="loss"))
    assert (found.metric, found.value, found.lacks) == ("loss", value, "")
