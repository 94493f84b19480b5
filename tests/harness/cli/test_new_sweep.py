"""`harness new sweep`: what is written beside a blueprint reads back, can be planned, and is about it."""

import shutil
from pathlib import Path

import pytest

from harness.blueprint import read
from harness.cli.new_sweep import write_sweep_file
from harness.sweep.design import make_plan
from harness.sweep.plan import SweepError, SweepPlan
from harness.sweep.spec_text import read_spec
from tests.harness.sweep.varied import experiment

QUICKSTART = Path(__file__).parents[3] / "blueprints" / "quickstart"


@pytest.fixture
def quickstart(tmp_path: Path) -> Path:
    shutil.copytree(QUICKSTART, tmp_path / "quickstart")
    return tmp_path / "quickstart/blueprint.md"


def planned(written: Path) -> SweepPlan:
    spec = read_spec(written)
    return make_plan(spec, read(spec.blueprint), gpus_here=lambda: 0)


def test_the_quickstart_is_varied_around_its_own_values(quickstart: Path, tmp_path: Path) -> None:
    (tmp_path / "sweeps").mkdir()
    for folder in (quickstart.parent, tmp_path / "sweeps"):
        written = write_sweep_file(quickstart, folder)
        assert written == folder / "sweep.yaml"
        plan = planned(written)
        baselines = {key.name.removeprefix("ajet.trainer_common."): key.baseline for key in plan.keys}
        assert baselines == {"kl_loss_coef": 0.001, "optim.lr": 3e-4}
        assert (len(plan.points), len(plan.runs), plan.metric) == (5, 15, "val/task_pass_rate@1")
        assert plan.blueprint == str(quickstart)


@pytest.mark.parametrize("config", [None, "train: {steps: 10}\n"])
def test_a_command_gets_a_flag_to_be_replaced(tmp_path: Path, config: str | None) -> None:
    base = experiment(tmp_path, "python train.py --name x", config)
    plan = planned(write_sweep_file(base.path, tmp_path))
    assert [(key.name, key.baseline) for key in plan.keys] == [("arg:--lr", "1e-4")]
    assert plan.seed_key == "" and len(plan.runs) == len(plan.points) == 3
    assert "only an example" in (tmp_path / "sweep.yaml").read_text()


def test_the_comments_become_entries_when_their_sign_is_taken_away(quickstart: Path) -> None:
    written = write_sweep_file(quickstart, quickstart.parent)
    written.write_text(written.read_text().replace("expect: []", "expect:").replace("#   ", "  "))
    assert len(planned(written).expectations) == 1
    assert "ajet.rollout.num_repeat" in read_spec(written).vary


def test_nothing_is_overwritten(quickstart: Path) -> None:
    (quickstart.parent / "sweep.yaml").write_text("mine")
    with pytest.raises(SweepError, match="already there"):
        write_sweep_file(quickstart, quickstart.parent)
    assert (quickstart.parent / "sweep.yaml").read_text() == "mine"


def test_a_blueprint_that_cannot_run_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "bad.md").write_text("# nothing\n")
    with pytest.raises(SweepError, match=r"bad\.md:1: "):
        write_sweep_file(tmp_path / "bad.md", tmp_path)
    assert not (tmp_path / "sweep.yaml").exists()
