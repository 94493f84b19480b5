"""`harness new sweep`: what is written beside a blueprint reads back, can be planned, and is about it."""

import shutil
from pathlib import Path

import pytest

from harness.blueprint import read
from harness.cli.new_sweep import write_sweep_file
from harness.sweep.design import make_plan
from harness.sweep.plan import SweepError, SweepPlan
from harness.sweep.points import current
from harness.sweep.spec_text import read_spec

QUICKSTART = Path(__file__).parents[3] / "blueprints" / "quickstart"
COMMAND = """
## [exp_purpose]
x
## [exp_codebase_dir]
./
## [exp_venv_exe]
NA
## [exp_yaml_path]
{yaml}
## [exp_launch_command]
```bash
{command}
```
## [exp_result_dir]
NA
## [exp_max_time]
1 hour
"""


def planned(written: Path) -> SweepPlan:
    spec = read_spec(written)
    blueprint = read(spec.blueprint)
    return make_plan(spec, blueprint, lambda key: current(blueprint, key), lambda: 0)


def of_command(folder: Path, command: str, yaml: str = "NA") -> SweepPlan:
    (folder / "mine.md").write_text(COMMAND.format(command=command, yaml=yaml))
    return planned(write_sweep_file(folder / "mine.md", folder))


def test_the_quickstart_is_varied_around_its_own_values(tmp_path: Path) -> None:
    shutil.copytree(QUICKSTART, tmp_path / "quickstart")
    written = write_sweep_file(tmp_path / "quickstart/blueprint.md", tmp_path / "quickstart")
    assert written == tmp_path / "quickstart/sweep.yaml"
    plan = planned(written)
    assert {key.name: key.baseline for key in plan.keys} == {
        "ajet.trainer_common.kl_loss_coef": 0.001,
        "ajet.trainer_common.optim.lr": 3e-4,
    }
    assert (len(plan.points), len(plan.runs), plan.metric) == (5, 15, "val/task_pass_rate@1")


def test_a_sweep_can_be_written_elsewhere(tmp_path: Path) -> None:
    shutil.copytree(QUICKSTART, tmp_path / "quickstart")
    (tmp_path / "sweeps").mkdir()
    plan = planned(write_sweep_file(tmp_path / "quickstart/blueprint.md", tmp_path / "sweeps"))
    assert plan.blueprint == str(tmp_path / "quickstart/blueprint.md")


@pytest.mark.parametrize(
    ("command", "key", "baseline", "seed_key"),
    [
        ("python train.py --port 1 --batch 8 --lr 1e-4 --seed 7", "arg:--lr", "1e-4", "arg:--seed"),
        ("torchrun --nproc 2 train.py --epochs=3 --random_seed=1", "arg:--epochs", "3", "arg:--random_seed"),
        ("python train.py optim.lr=0.01 trainer.seed=5", "arg:optim.lr", "0.01", "arg:trainer.seed"),
        ("python train.py --name x", "arg:--lr", "1e-4", ""),
        ("python train.py --lr $LR --wd 0", "arg:--wd", "0", ""),
    ],
)
def test_a_command_is_varied_by_a_number_it_has(
    tmp_path: Path, command: str, key: str, baseline: str, seed_key: str
) -> None:
    plan = of_command(tmp_path, command)
    assert [(found.name, found.baseline) for found in plan.keys] == [(key, baseline)]
    assert plan.seed_key == seed_key and len(plan.runs) == len(plan.points) * (3 if seed_key else 1)


def test_a_config_of_ones_own_is_varied_where_the_command_reads_it(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("train: {steps: 10, learning_rate: 1e-3, seed: 4}\n")
    plan = of_command(tmp_path, "python train.py --conf my.yaml", "`my.yaml`")
    assert (plan.keys[0].name, plan.keys[0].baseline) == ("train.learning_rate", 1e-3)
    assert (plan.seed_key, plan.runs[0].seed) == ("train.seed", 4)


def test_the_comments_become_entries_when_their_sign_is_taken_away(tmp_path: Path) -> None:
    shutil.copytree(QUICKSTART, tmp_path / "quickstart")
    written = write_sweep_file(tmp_path / "quickstart/blueprint.md", tmp_path / "quickstart")
    text = written.read_text().replace("expect: []", "expect:").replace("#   ", "  ")
    written.write_text(text)
    assert len(planned(written).expectations) == 1
    assert "ajet.rollout.num_repeat" in read_spec(written).vary


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    shutil.copytree(QUICKSTART, tmp_path / "quickstart")
    (tmp_path / "quickstart/sweep.yaml").write_text("mine")
    with pytest.raises(SweepError, match="already there"):
        write_sweep_file(tmp_path / "quickstart/blueprint.md", tmp_path / "quickstart")
    assert (tmp_path / "quickstart/sweep.yaml").read_text() == "mine"


def test_a_blueprint_that_cannot_run_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "bad.md").write_text("# nothing\n")
    with pytest.raises(SweepError, match=r"bad\.md:1: "):
        write_sweep_file(tmp_path / "bad.md", tmp_path)
    assert not (tmp_path / "sweep.yaml").exists()
