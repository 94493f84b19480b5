"""Runs that fail: they are ended when nothing can come of them, and say what to do."""

import subprocess
import sys
from pathlib import Path

from tests.e2e.bench import Bench
from tests.harness.repair.test_installing import wheel

NEVER_FINITE_AGAIN = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: exit(0))
for step in range(1, 6000):
    print(f"step={step} loss={'nan' if step > 5 else 1 / step}", flush=True)
    time.sleep(0.05)
"""


def test_d3_nan_that_lasts_ends_the_run_long_before_its_time_limit(bench: Bench) -> None:
    bench.script("train.py", NEVER_FINITE_AGAIN)
    bench.plan("python train.py", max_time="4 minutes")
    output = bench.run(status=1)
    attempt = bench.state.attempt
    assert attempt.stop_reason == "fatal_error" and attempt.ended.last_step < 2000
    assert (attempt.diagnosis.family, attempt.diagnosis.signature) == ("numerics_nan", "values_not_finite")
    assert "step=6 loss=nan" in [line.text for line in attempt.diagnosis.evidence]
    assert "NaN" in output and "NaN" in bench.flag["reason"] and "NaN" in bench.flag["headline"][0]


def test_d9_a_failed_run_says_what_to_do_wherever_a_person_looks(bench: Bench) -> None:
    bench.script("train.py", "print('starting')\ndef load():\n    import einops_of_mine\nload()\n")
    bench.plan("python train.py")
    output = bench.run(status=1)
    (first, *_) = bench.flag["what_to_do"]
    assert first.startswith("If einops_of_mine is code of yours, `export PYTHONPATH=`")
    assert "what to do:" in output and first in output
    for document in ("result.md", "trial_and_error.md"):
        assert "1. If einops_of_mine is code of yours" in (bench.result_dir / document).read_text(), document
    shown = bench.harness("diagnose", str(bench.result_dir), status=0)
    assert first in shown and "line 3, in load" in shown
    assert "nothing differs" in bench.harness("verify", str(bench.result_dir))


def test_d10_what_the_check_found_is_said_before_the_launch_and_in_the_report(bench: Bench) -> None:
    bench.script("train.py", "print('step=1 loss=0.5', flush=True)\n")
    (bench.codebase / "c.yaml").write_text("lr: 1e-2\n")
    bench.plan("python train.py c.yaml")
    output = bench.run()
    warning = "c.yaml: `lr: 1e-2` is text to PyYAML"
    assert output.index(f"warning: {warning}") < output.index("attempt 1")
    assert "is text to PyYAML" in (bench.result_dir / "result.md").read_text()


NEEDS_ACCELERATE = """
import importlib.util
if importlib.util.find_spec("accelerate") is None:
    raise ImportError("Using the `Trainer` with `PyTorch` requires `accelerate>=1.1.0`: Please run "
                      "`pip install transformers[torch]` or `pip install 'accelerate>=1.1.0'`")
print("step=1 loss=0.5", flush=True)
"""


def test_d17_what_the_log_asks_for_is_installed_where_that_is_allowed(bench: Bench, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(bench.codebase / "venv")], check=True)
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    wheel(shelf, "accelerate", "1.2.0")
    bench.env = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(shelf)}
    bench.script("train.py", NEEDS_ACCELERATE)
    bench.plan("python train.py")
    output = bench.harness("run", str(bench.blueprint), "--allow-install")
    assert "ucceeded" in output and "accelerate" in output
    assert bench.launches() == 2 and "what_to_do" not in bench.flag


def test_secret_in_the_last_line_is_masked_in_the_flag_too(bench: Bench) -> None:
    bench.script("train.py", "raise RuntimeError('denied for token=sk-proj-abcdefghijklmnopqrstuvwx1234')\n")
    bench.plan("python train.py")
    bench.run(status=1)
    assert "denied for" in bench.flag["reason"]
    for document in ("finish.flag", "result.md", "report.html", "result.json"):
        assert "sk-proj-abcdef" not in (bench.result_dir / document).read_text(), document
    assert "nothing differs" in bench.harness("verify", str(bench.result_dir))
