"""An example of the benchmark `any_training.py`, run as a user does: what leads, and its true last value."""

import re
import sys
from pathlib import Path

from tests.e2e.bench import Bench

EXAMPLES = Path(__file__).parents[2] / "benchmarks" / "examples"


def test_validation_loss_leads_with_the_last_value_that_was_printed(bench: Bench) -> None:
    bench.plan(f"{sys.executable} {EXAMPLES / 'nanogpt_like.py'}")
    bench.run()
    printed = re.findall(r"^step (\d+): .*val loss (\S+?)\r?$", bench.log(), re.MULTILINE)
    assert len(printed) == 7
    result = bench.result["result"]
    assert (result["metric"], result["goal"], result["at"]) == ("val_loss", "min", "step 300")
    assert float(result["start"]["text"]) == round(float(printed[0][1]), 3)
    assert float(result["text"]) == float(printed[-1][1])
    assert bench.result["figures"][0]["title"] == "val_loss" and bench.result["missing"] == []
    assert "nothing differs" in bench.harness("verify", str(bench.result_dir))
