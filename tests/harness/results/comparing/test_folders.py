"""Any result folders: which runs are one point, what the keys are, what else differs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.journal import Journal
from harness.results.compare import compare_folders as compared
from harness.results.comparing.folders import gathered
from harness.results.comparing.types import Comparison, Goal, Key, NotComparableError, Point, Study
from harness.sweep import reporting
from harness.sweep.folder import SweepFolder
from harness.sweep.sweep import load_state
from harness.sweep.types import SweepPlan, SweepRun
from tests.harness.results.comparing.made import METRIC
from tests.harness.results.comparing.result_folders import foreign, trained

KL = "ajet.kl_loss_coef"


def study_of(folders: list[Path]) -> Study:
    return gathered(folders, reporting.planned).study


def compare_folders(folders: list[Path], metric: str = "", goal: Goal | None = None) -> Comparison:
    return compared(folders, reporting.planned, metric, goal)


def test_runs_that_differ_in_the_seed_are_one_point(tmp_path: Path) -> None:
    folders = [
        trained(tmp_path / f"run{number}", seed=seed, kl=kl)
        for number, (kl, seed) in enumerate([(0.01, 1), (0.1, 1), (0.01, 2), (0.1, 2)])
    ]
    study = study_of(folders)
    assert study.keys == (Key(KL, (0.01, 0.1), 0.01),)
    assert [point.name for point in study.points] == ["kl_loss_coef=0.01", "kl_loss_coef=0.1"]
    assert [point.is_baseline for point in study.points] == [True, False]
    assert [(run.name, run.point, run.seed) for run in study.runs] == [
        ("run0", "kl_loss_coef=0.01", 1),
        ("run1", "kl_loss_coef=0.1", 1),
        ("run2", "kl_loss_coef=0.01", 2),
        ("run3", "kl_loss_coef=0.1", 2),
    ]
    assert study.seed_key == "ajet.trainer_common.seed"


def test_a_comparison_of_folders_is_whole(tmp_path: Path) -> None:
    folders = [
        trained(tmp_path / f"{kl}-{seed}", seed=seed, kl=kl, rates={0: 0.3, 40: rate + seed / 40})
        for kl, rate in ((0.01, 0.3), (0.1, 0.8))
        for seed in (1, 2, 3)
    ]
    found = compare_folders(folders)
    assert (found.metric, found.chosen_afterwards) == (METRIC, True)
    assert found.keys[0].contrasts[0].finding == "higher"
    assert found.best == "kl_loss_coef=0.1"
    assert found.confounds == ()
    assert compare_folders(folders, METRIC).chosen_afterwards  # nobody planned it


def test_what_differs_beside_the_keys_is_named(tmp_path: Path) -> None:
    one = trained(tmp_path / "a", kl=0.01, model="/models/tiny")
    other = trained(tmp_path / "b", kl=0.1, model="/models/large")
    for folder, commit, torch in ((one, "1111", "2.0"), (other, "2222", "2.1")):
        record = {"git": {"commit": commit}, "interpreter": {"packages": {"torch": torch, "numpy": "2"}}}
        (folder / "provenance.json").write_text(json.dumps(record))
    found = compare_folders([one, other])
    assert found.study.keys[0].name == KL
    assert found.confounds == (
        "ajet.model.path differs: /models/tiny (a); /models/large (b)",
        "git commit differs: 1111 (a); 2222 (b)",
        "packages differ: torch 2.0 (a), 2.1 (b)",
    )


def test_settings_that_change_together_are_one_key_and_the_other_a_confound(tmp_path: Path) -> None:
    found = compare_folders(
        [trained(tmp_path / "a", kl=0.01, lr=1e-6), trained(tmp_path / "b", kl=0.1, lr=1e-5)]
    )
    assert [key.name for key in found.study.keys] == [KL]
    assert found.confounds == ("ajet.lr differs: 1e-06 (a); 1e-05 (b)",)


def test_where_only_the_model_differs_the_model_is_the_key(tmp_path: Path) -> None:
    found = compare_folders([trained(tmp_path / "a"), trained(tmp_path / "b", model="/models/large")])
    assert [key.name for key in found.study.keys] == ["ajet.model.path"]
    assert found.confounds == ()


def test_points_that_differ_in_several_keys_at_once_are_compared_whole(tmp_path: Path) -> None:
    settings = {"a": (0.01, 1e-6), "b": (0.1, 1e-5), "c": (0.01, 1e-5), "d": (0.2, 1e-4)}
    folders = [trained(tmp_path / name, kl=kl, lr=lr) for name, (kl, lr) in settings.items()]
    study = study_of(folders)
    (key,) = study.keys
    assert key.name == "point" and key.baseline == study.points[0].name
    assert study.points[3].name == "kl_loss_coef=0.2 lr=0.0001"


def test_flags_of_foreign_commands_are_keys_and_positions_are_not(tmp_path: Path) -> None:
    rows = [(step, {"loss": 1 / (step + 1)}) for step in range(30)]
    command = (
        "OMP_NUM_THREADS={} python -m my.train data.csv --lr {} --seed={} -n 3 optim.beta=0.9 --out /x/{}"
    )
    folders = [
        foreign(tmp_path / f"r{n}", command.format(1, lr, seed, n), rows)
        for n, (lr, seed) in enumerate([("1e-4", 1), ("1e-4", 2), ("3e-4", 1)])
    ]
    study = study_of(folders)
    assert [(key.name, key.levels) for key in study.keys] == [("arg:--lr", ("1e-4", "3e-4"))]
    assert [run.seed for run in study.runs] == [1, 2, 1]
    assert compare_folders(folders, goal="min").metric == "loss"


def test_switches_of_a_launcher_and_variables_behind_a_cd_are_what_they_are(tmp_path: Path) -> None:
    rows = [(step, {"loss": 1 / (step + 1)}) for step in range(30)]
    command = "cd /a && WORKERS={} torchrun --standalone train.py --default_local_dir /x/{}"
    folders = [foreign(tmp_path / f"r{n}", command.format(n, n), rows) for n in (1, 2)]
    assert [(key.name, key.levels) for key in study_of(folders).keys] == [("env:WORKERS", ("1", "2"))]


def test_models_and_programs_are_never_seeds_of_one_point(tmp_path: Path) -> None:
    models = [
        trained(tmp_path / f"{lr}-{model}", lr=lr, model=f"/models/{model}")
        for lr in (1e-4, 1e-3)
        for model in ("large", "tiny")
    ]
    study = study_of(models)
    assert [key.name for key in study.keys] == ["ajet.lr", "ajet.model.path"]
    assert len({run.point for run in study.runs}) == 4
    rows = [(step, {"loss": 1 / (step + 1)}) for step in range(30)]
    programs = [
        foreign(
            tmp_path / f"{name}{seed}", f"python {name}.py --seed {seed} --log-file /x/{name}{seed}", rows
        )
        for name in ("old", "new")
        for seed in (1, 2)
    ]
    (key,) = study_of(programs).keys
    assert (key.name, key.levels) == ("launch command", ("python old.py", "python new.py"))


def test_places_of_runs_that_were_never_started_do_not_split_their_points(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "kl")
    for run in folder.glob("p0*"):
        config = run / "attempts/01/config.yaml"
        config.write_text(f"{config.read_text()}  trace_file: /traces/{run.name}\n")
    study = study_of([trained(tmp_path / "alone", kl=0.5, seed=1), folder])
    assert [key.name for key in study.keys] == [KL]


def test_a_seed_run_again_is_no_second_seed(tmp_path: Path) -> None:
    folders = [
        trained(tmp_path / f"{kl}-{number}", kl=kl, rates={0: 0.3, 40: kl + 0.1 * number})
        for kl in (0.01, 0.1)
        for number in range(3)
    ]
    (folders[0] / "finish.flag").write_text('{"outcome": "failed", "reason": "no memory"}')
    found = compare_folders(folders)
    assert found.is_single_seed and found.keys[0].matters is None
    assert found.missing == (
        "0.01-0: failed: no memory (last step 40)",
        "0.01-2: the same seed as 0.01-1: says nothing about other seeds",
        "0.1-1: the same seed as 0.1-0: says nothing about other seeds",
        "0.1-2: the same seed as 0.1-0: says nothing about other seeds",
    )


def test_only_a_seed_differs_and_there_is_one_point_without_a_key(tmp_path: Path) -> None:
    found = compare_folders([trained(tmp_path / name, seed=seed) for seed, name in enumerate("ab")])
    assert found.study.keys == () and len(found.points) == 1
    assert found.points[0].value is not None and found.points[0].value.n == 2


def test_an_unknown_or_unclear_metric_is_an_error_that_says_which_there_are(tmp_path: Path) -> None:
    rows = [(step, {"loss": 1 / (step + 1), "accuracy": step / 30}) for step in range(30)]
    folders = [foreign(tmp_path / name, f"python t.py --lr {name}", rows) for name in "ab"]
    with pytest.raises(NotComparableError, match="name one with --metric; all of them have: loss, accuracy"):
        compare_folders(folders)
    with pytest.raises(NotComparableError, match="no run has acuracy: did you mean accuracy"):
        compare_folders(folders, "acuracy")


# --- sweeps -------------------------------------------------------------------------------------------------


def sweep(folder: Path) -> Path:
    """A sweep of two points and two seeds, whose last run was never started."""
    points = (Point("p01", {KL: 0.01}, True), Point("p02", {KL: 0.1}))
    runs = tuple(SweepRun(f"{point.name}-s{seed}", point.name, seed) for point in points for seed in (1, 2))
    key = Key(KL, (0.01, 0.1), 0.01)
    plan = SweepPlan(
        *("kl", "Does the KL loss matter?", "/b/blueprint.md", "grid", (key,), points, runs),
        seed_key="ajet.trainer_common.seed",
        metric="val/mean_reward",
    )
    folder.mkdir()
    journal = Journal(SweepFolder(folder).journal, lambda: 1_760_000_000.0)
    journal.append("sweep_created", sweep_id="5", plan=plan.as_json())
    journal.append("not_run", run="p02-s2", reason="the budget was used up")
    journal.close()
    for run in runs[:3]:
        kl = 0.01 if run.point == "p01" else 0.1
        trained(folder / run.name, seed=run.seed or 0, kl=kl)
    return folder


def test_a_sweep_is_compared_by_its_own_plan(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "kl")
    found = reporting.comparison(SweepFolder(folder), load_state(folder))
    assert (found.metric, found.study.question) == ("val/mean_reward", "Does the KL loss matter?")
    assert found.missing == ("p02-s2: never started: the budget was used up",)
    assert [point.value.n for point in found.points if point.value] == [2, 1]


def test_some_runs_of_a_sweep_are_compared_by_its_plan(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "kl")
    study = study_of([folder / "p02-s1", folder / "p01-s2"])
    assert [run.name for run in study.runs] == ["p01-s2", "p02-s1"]
    assert study.keys == (Key(KL, (0.01, 0.1), 0.01),)
    assert [point.is_baseline for point in study.points] == [True, False]


def test_points_of_a_sweep_that_differ_in_several_keys_are_compared_whole(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "kl")
    plan = reporting.planned(folder)
    assert plan is not None
    points = [
        replace(one, levels={**one.levels, "lr": lr})
        for one, lr in zip(plan.points, (1e-6, 1e-5), strict=True)
    ]
    plan = replace(plan, keys=(*plan.keys, Key("lr", (1e-6, 1e-5), 1e-6)), points=tuple(points))
    study = gathered([folder / "p01-s1", folder / "p02-s1"], lambda _: plan).study
    assert study.keys == (Key("point", ("p01", "p02"), "p01"),)


@pytest.mark.parametrize("is_alone", [True, False])
def test_another_metric_than_the_planned_one_was_chosen_afterwards(tmp_path: Path, is_alone: bool) -> None:
    folder = sweep(tmp_path / "kl")
    runs = [folder / "p01-s1", folder / "p02-s1"] if is_alone else [trained(tmp_path / "a", kl=0.5), folder]
    planned, asked = compare_folders(runs), compare_folders(runs, METRIC)
    assert (planned.metric, planned.chosen_afterwards) == ("val/mean_reward", False)
    assert (asked.metric, asked.chosen_afterwards) == (METRIC, True)
    told = f"the metric that was planned is val/mean_reward, and these numbers are {METRIC}"
    assert asked.confounds == (*planned.confounds, told)


def test_what_a_plan_calls_its_seed_is_one(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "kl")
    plan = reporting.planned(folder)
    assert plan is not None
    plan = replace(plan, seed_key="ajet.lr")
    runs = [folder / "p01-s1", trained(tmp_path / "alone", seed=1, lr=1)]
    study = gathered(runs, lambda _: plan).study
    assert (study.keys, study.seed_key) == ((), "ajet.lr")


def test_a_sweep_and_a_run_beside_it_are_compared_by_their_settings(tmp_path: Path) -> None:
    study = study_of([trained(tmp_path / "alone", kl=0.5, seed=1), sweep(tmp_path / "kl")])
    assert study.keys[0].levels == (0.5, 0.01, 0.1)
    assert [run.name for run in study.runs] == ["alone", "p01-s1", "p01-s2", "p02-s1", "p02-s2"]
