"""An ablation of the quickstart: 12 points, 3 seeds, 36 trainings in two slots. The learning rate truly
matters; how often a checkpoint is saved does not. One run fails once and is repaired, one fails for good."""

import json
import sys
from pathlib import Path

import pytest

from harness.blueprint import read
from tests.e2e.bench import Bench

QUICKSTART = Path(__file__).parents[2] / "blueprints" / "quickstart" / "config.yaml"
LR, SAVE = "ajet.trainer_common.optim.lr", "ajet.trainer_common.save_freq"
FAILS_ONCE, FAILS = "p09-lr-0.0003-save_freq-10-s1", "p04-lr-1e-07-save_freq-15-s2"
LAUNCH = f"""
import os, pathlib, sys
attempt = pathlib.Path(os.environ["HARNESS_ATTEMPT_DIR"])
with open(os.environ["STARTS"], "a") as starts:
    starts.write(f"{{attempt.parents[1].name}}/{{attempt.name}}\\n")
run = attempt.parents[1].name
if run == {FAILS!r}:
    raise ValueError("the reward function got an answer it does not know")
if run == {FAILS_ONCE!r} and attempt.name == "01":
    raise ConnectionResetError(104, "Connection reset by peer")
os.execv(sys.executable, [sys.executable, "-m", "trainer_core.cli", *sys.argv[1:]])
"""


@pytest.mark.soak
def test_thirty_six_trainings(bench: Bench, tmp_path: Path) -> None:
    bench.script("launch.py", LAUNCH)
    config = QUICKSTART.read_text().replace("num_validation_tasks: 256", "num_validation_tasks: 96")
    (bench.codebase / "config.yaml").write_text(config)
    more = f"\n## [exp_yaml_path]\n- path: `config.yaml`\n\n## [exp_venv_exe]\n- path: `{sys.executable}`\n"
    bench.plan("python launch.py --conf config.yaml", more=more)
    assert read(bench.blueprint).can_run
    steps = [f"ajet.trainer_common.{key}" for key in ("total_training_steps=30", "test_freq=10")]
    output = bench.harness(
        "sweep", str(bench.blueprint), "--set", "name=ablation", "--policy", "playbook",
        "--vary", f"{LR}=1e-7,3e-4", "--vary", f"{SAVE}=5,10,15,20,30,40", "--seeds", "3", "--parallel", "2",
        "--set", steps[0], "--set", steps[1],
        status=1, env={"STARTS": str(tmp_path / "starts")}, patience_s=3600.0,
    )  # fmt: skip
    folder = bench.folder / "results" / "ablation"
    flag = json.loads((folder / "finish.flag").read_text())
    assert len(flag["runs"]) == 36
    assert {run for run, outcome in flag["runs"].items() if outcome != "succeeded"} == {FAILS}
    starts = (tmp_path / "starts").read_text().split()
    assert len(starts) == len(set(starts))
    assert {f"{FAILS_ONCE}/01", f"{FAILS_ONCE}/02"} <= set(starts)
    compared = json.loads((folder / "sweep.json").read_text())["comparison"]
    keys = {effect["key"]: effect for effect in compared["keys"]}
    assert keys[LR]["matters"] is True
    assert keys[SAVE]["matters"] is not True
    assert FAILS in output
    assert FAILS in (folder / "sweep_report.md").read_text()
    bench.harness("verify", str(folder))
