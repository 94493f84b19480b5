"""Runs whose code, config and results lie in folders with odd names."""

from pathlib import Path

import pytest

from harness import launching
from harness.blueprint import read
from harness.experiment import plan_of
from harness.sweep import confounds, snapshot
from harness.sweep.folder import SweepFolder
from harness.sweep.varying import write_runs
from harness.sweep.varying.command_line import flag_value
from tests.harness.sweep.varied import experiment, plan


@pytest.mark.parametrize("name", ["my exp's ü", "a (b) #1, c: d - e", "实验 数据", "two  spaces", "*a*__b__"])
def test_what_is_written_into_a_blueprint_is_read_back(tmp_path: Path, name: str) -> None:
    home = tmp_path / name
    home.mkdir()
    base = experiment(home)
    folder = SweepFolder(home / "results" / "trial sweep")
    folder.dir.mkdir(parents=True)
    taken = snapshot.take(base, folder)
    made = plan({"optim.weight_decay": [1e-6, 1e-3], "arg:--lr": ["a b", "c"]})
    write_runs(made, base, folder, taken.codebase)
    confounds.check(made, folder)
    run = read(folder.run_blueprint("p02-s0"))
    assert run.can_run
    assert (run.codebase_dir, run.result_dir, run.yaml_path) == (
        taken.codebase, folder.result_dir("p02-s0"), folder.run_config("p02-s0")
    )  # fmt: skip
    attempt = Path("/x/attempts/01/config.yaml")
    assert flag_value(launching.command(plan_of(run), attempt), "--config") == str(attempt)
    assert flag_value(run.launch_command or "", "--config") == str(run.yaml_path)
