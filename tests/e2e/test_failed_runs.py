"""Runs that fail: they are ended when nothing can come of them, and say what to do."""

from tests.e2e.bench import Bench

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
