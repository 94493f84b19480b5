"""The command is tried before its first launch: it leaves nothing, and only what fails is a failure."""

import asyncio
import sys
from pathlib import Path

import pytest

from harness.config import keys
from harness.repair import first_smoke
from monitors import overlay
from tests.harness.doctor.planning import plan

TRAIN = """
import argparse, pathlib, time
parser = argparse.ArgumentParser()
parser.add_argument("--max_steps", type=int)
parser.add_argument("--output_dir", type=pathlib.Path)
parser.add_argument("--wait", type=float, default=0)
parser.add_argument("--width", type=int, default=4)
given = parser.parse_args()
given.output_dir.mkdir(exist_ok=True)
(given.output_dir / "checkpoint").write_text("x")
pathlib.Path("latest").write_text("x")
time.sleep(given.wait)
if given.max_steps < 10: raise ValueError("warm-up alone takes 10 steps")
if given.width != 4: raise IndexError(f"index {given.width} is out of range")
for step in range(given.max_steps):
    print(f"step:{step} - loss:0.5", flush=True)
    time.sleep(0.05)
"""


@pytest.mark.parametrize(
    ("words", "seconds", "fails", "said"),
    [
        ("--max_steps 5000", 60.0, False, "metric rows"),
        ("--max_steps 5000 --wait 99", 4.0, False, "no metric row yet"),
        ("--max_steps 5000 --width 7", 60.0, True, "index 7 is out of range"),
    ],
    ids=["only the limit of steps makes it fail", "slow", "fails"],
)
@pytest.mark.parametrize("is_there", [True, False], ids=["output is there", "new output"])
def test_a_trial(tmp_path: Path, words: str, seconds: float, fails: bool, said: str, is_there: bool) -> None:
    code, output = tmp_path / "code", tmp_path / "output"
    code.mkdir()
    if is_there:
        output.mkdir()
    if not overlay.works(code, tmp_path / "scratch"):
        pytest.skip("there are no overlays here")
    (code / "train.py").write_text(TRAIN)
    planned = plan(code, f"{sys.executable} train.py --output_dir {output} {words}")
    ran = asyncio.run(first_smoke.of_plan(planned, seconds))
    assert (ran.failed, ran.error) == (fails, "")
    found = first_smoke.finding(ran)
    assert found.severity == ("problem" if fails else "ok") and said in found.text
    assert [path.name for path in code.iterdir()] == ["train.py"]
    assert (list(output.iterdir()) if output.exists() else []) == [] and output.exists() == is_there


def test_a_plan_that_prepares_something_is_not_tried(tmp_path: Path) -> None:
    planned = plan(tmp_path, "touch tried", prepare_command="touch prepared")
    ran = asyncio.run(first_smoke.of_plan(planned))
    assert not ran.failed and "exp_prepare_command" in ran.error and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "value", "limit"),
    [
        ("arg:--max_steps", 500, 2),
        ("trainer.max_steps", -1, 2),
        ("arg:--num-train-epochs", 3, 1),
        ("training.log_every_n_steps", 50, 1),
        ("push_to_hub", True, False),
        ("max_steps", 1, None),
        ("save_steps", 500, None),
        ("lr_scheduler.warmup_steps", 100, None),
        ("diffusion.num_steps_schedule", 50, None),
        ("max_epochs", "many", None),
    ],
)
def test_what_is_lowered(name: str, value: object, limit: object) -> None:
    assert keys.smoke_limit(name, value, 2) == limit
