"""From a spec to points and runs: which there are, what they are called, in which order they start."""

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.power import TTestIndPower

from harness.blueprint import Blueprint, read
from harness.blueprint.surroundings import ask_own_trainer
from harness.codec import decode, encode
from harness.config import NOTHING
from harness.config import edit as config_edit
from harness.config.edit import Scalar
from harness.earlier_runs import Estimate
from harness.sweep.design import MOST_RUNS, forecast, make_plan
from harness.sweep.hosts import Needs
from harness.sweep.plan import SweepError, SweepPlan
from harness.sweep.spec_text import checked, fields_of
from tests.harness.sweep.plans import grid, plan
from tests.harness.sweep.varied import experiment

OWN = {
    "kl_loss_coef": 0.001,
    "seed": 7,
    "total_training_steps": 240,
    "test_freq": 40,
    "val_before_train": True,
}
AJET = {"ajet.rollout.num_repeat": 16, **{f"ajet.trainer_common.{key}": value for key, value in OWN.items()}}
KL = "ajet.trainer_common.kl_loss_coef=0,1e-3,1e-2"
VALIDATED = "val_max_num_task_each_validation"
REPEAT = "ajet.rollout.num_repeat=4,8,16"


@pytest.fixture
def ajet(tmp_path: Path) -> Blueprint:
    """A blueprint with a config of the bundled trainer."""
    return experiment(tmp_path, "", "ajet: {trainer_common: {seed: 7}}\n")


@pytest.fixture
def foreign(tmp_path: Path) -> Blueprint:
    """A blueprint with a command of the author's own."""
    return experiment(tmp_path, "python train.py --lr 1e-4", None)


def planned(base: Blueprint, present: dict[str, object] = AJET, gpus: int = 0, **options: Any) -> SweepPlan:
    words = {name: options.pop(name) for name in ("vary", "settings", "seeds") if name in options}
    spec = checked({"blueprint": base.path, **fields_of(**words), **options})
    now: Callable[[str], object] = lambda key: present.get(key, NOTHING)  # noqa: E731
    return make_plan(spec, base, now=now, gpus_here=lambda: gpus)


def test_a_grid_has_every_combination_and_one_at_a_time_changes_one_key(ajet: Blueprint) -> None:
    plan = planned(ajet, vary=[KL, REPEAT])
    found = [tuple(point.levels.values()) for point in plan.points]
    assert sorted(found) == sorted(itertools.product((0, 0.001, 0.01), (4, 8, 16)))
    assert found[0] == (0.001, 16) and [point.is_baseline for point in plan.points] == [True] + [False] * 8
    assert plan.points[1].name == "p02-kl_loss_coef-0-num_repeat-4"
    plan = planned(ajet, vary=[KL, REPEAT], design="one-at-a-time")
    found = [tuple(point.levels.values()) for point in plan.points]
    assert found == [(0.001, 16), (0, 16), (0.01, 16), (0.001, 4), (0.001, 8)]
    assert [point.name for point in plan.points[:2]] == ["p01-baseline", "p02-kl_loss_coef-0"]


def test_random_draws_points_of_the_grid_by_its_seed(ajet: Blueprint) -> None:
    first, again, other = (
        planned(ajet, vary=[KL, REPEAT], design="random", samples=5, design_seed=seed) for seed in (0, 0, 1)
    )
    assert first == again and first.points != other.points
    assert len(planned(ajet, vary=[KL, REPEAT], design="random", samples=9).points) == 9
    with pytest.raises(SweepError, match="a grid that has 9"):
        planned(ajet, vary=[KL, REPEAT], design="random")


def test_random_reaches_every_point_of_a_grid_too_large_to_write_down(ajet: Blueprint) -> None:
    many = [f"a.k{number}={','.join(map(str, range(30)))}" for number in range(20)]
    plan = planned(ajet, vary=many, design="random", samples=40)
    for key in plan.keys:
        drawn = {point.levels[key.name] for point in plan.points}
        assert len(drawn) > 10, "every key takes many of its 30 values in 40 points"


@given(
    st.lists(st.integers(2, 4), min_size=1, max_size=4),
    st.sampled_from(["grid", "one-at-a-time", "random"]),
    st.integers(1, 3),
)
def test_every_plan_is_a_part_of_its_grid(sizes: list[int], design: str, seeds: int) -> None:
    base = read(Path("no such file.md"))
    vary = [f"a.k{place}={','.join(map(str, range(size)))}" for place, size in enumerate(sizes)]
    present = {f"a.k{place}": size - 1 for place, size in enumerate(sizes)}
    samples = {"samples": 2} if design == "random" else {}
    plan = planned(base, present, vary=vary, design=design, seeds=str(seeds), seed_key="arg:--s", **samples)
    grid = set(itertools.product(*map(range, sizes)))
    found = [tuple(point.levels.values()) for point in plan.points]
    assert len(set(found)) == len(found) and set(found) <= grid
    assert [point.is_baseline for point in plan.points] == [True] + [False] * (len(found) - 1)
    assert found[0] == tuple(size - 1 for size in sizes)
    numbers = {"grid": len(grid), "one-at-a-time": 1 + sum(sizes) - len(sizes), "random": 2}
    assert len(found) == numbers[design]
    names = [run.name for run in plan.runs]
    assert len(set(names)) == len(names) == len(found) * seeds
    assert not set(names) & {"plan", "jobs", "snapshot", "figures", "canary"}
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+", name) for name in names)
    assert decode(SweepPlan, json.loads(json.dumps(encode(plan), allow_nan=False))) == plan


def test_every_seed_is_a_round_over_all_points(ajet: Blueprint) -> None:
    plan = planned(ajet, vary=[KL], seeds="2")
    assert [(run.point[:3], run.seed) for run in plan.runs] == [
        ("p01", 7), ("p02", 7), ("p03", 7), ("p01", 8), ("p02", 8), ("p03", 8),
    ]  # fmt: skip
    assert plan.runs[0].name == f"{plan.points[0].name}-s7" and plan.seed_key == "ajet.trainer_common.seed"


def test_seeds_of_a_command_need_to_know_where_they_go(foreign: Blueprint) -> None:
    alone = planned(foreign, {}, vary=["arg:--lr=1e-4,3e-4"])
    assert [(run.name, run.seed) for run in alone.runs] == [(point.name, None) for point in alone.points]
    assert alone.seed_key == ""
    for seeds in ("3", "[3]"):
        with pytest.raises(SweepError, match="--seed-key arg:--seed"):
            planned(foreign, {}, vary=["arg:--lr=1e-4,3e-4"], seeds=seeds)
    told = planned(foreign, {"arg:--seed": "42"}, vary=["arg:--lr=1,2"], seeds="2", seed_key="arg:--seed")
    assert [run.seed for run in told.runs] == [42, 42, 43, 43]


def test_the_seed_is_neither_varied_nor_set(ajet: Blueprint) -> None:
    for words in ({"vary": ["ajet.trainer_common.seed=1,2"]}, {"settings": ["ajet.trainer_common.seed=1"]}):
        with pytest.raises(SweepError, match="seeds"):
            planned(ajet, **{"vary": [KL], **words})


@pytest.mark.parametrize(
    ("present", "levels", "baseline"),
    [("1e-4", "3e-4,0.0001", "0.0001"), ("7", "1,2", "1"), (NOTHING, "1,2", "1"), ("b", "a,b", "b")],
)
def test_the_baseline_is_the_blueprints_else_the_first(
    foreign: Blueprint, present: object, levels: str, baseline: str
) -> None:
    plan = planned(foreign, {"arg:--x": present}, vary=[f"arg:--x={levels}"])
    assert plan.keys[0].baseline == baseline and plan.points[0].levels == {"arg:--x": baseline}


def test_too_many_runs_are_refused_with_their_number(ajet: Blueprint) -> None:
    many = [f"a.k{number}={','.join(map(str, range(10)))}" for number in range(3)]
    assert len(planned(ajet, vary=many, seeds="2").runs) == MOST_RUNS
    with pytest.raises(SweepError, match=r"1000 points x 3 seeds = 3000 runs .*\(a\.k0 has 10 values"):
        planned(ajet, vary=many, seeds="3")
    with pytest.raises(SweepError, match="100000000000000000000 points"):
        planned(ajet, vary=[f"a.k{number}={','.join(map(str, range(10)))}" for number in range(20)])


def test_the_canary_is_short_and_validates_and_saves_once(ajet: Blueprint) -> None:
    own = {"total_training_steps": 2, "val_before_train": False, "test_freq": 2, "save_freq": -1}
    canary = planned(ajet, vary=[KL]).canary
    assert canary == {f"ajet.trainer_common.{key}": value for key, value in own.items()}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"test_freq": -1, "val_before_train": False}, {"test_freq": -1}),
        ({"test_freq": -1}, {"test_freq": 2}),
        ({"backbone": "verl"}, {VALIDATED: 32}),
        ({"backbone": "verl", VALIDATED: 8}, {VALIDATED: 8}),
    ],
)
def test_the_canary_does_what_the_blueprint_does(ajet: Blueprint, changes: dict, expected: dict) -> None:
    keys = {name: f"ajet.{'' if name == 'backbone' else 'trainer_common.'}{name}" for name in changes}
    found = planned(ajet, AJET | {keys[name]: value for name, value in changes.items()}, vary=[KL]).canary
    assert {key.rpartition(".")[2]: value for key, value in found.items()}.items() >= expected.items()


def test_the_trainer_takes_the_canary(ajet: Blueprint, tmp_path: Path) -> None:
    quickstart = Path(__file__).parents[3] / "blueprints" / "quickstart" / "config.yaml"
    canary = cast(dict[str, Scalar], planned(ajet, vary=[KL]).canary)
    (tmp_path / "canary.yaml").write_text(config_edit.edit(quickstart.read_text(), canary))
    verdict = ask_own_trainer(tmp_path / "canary.yaml", tmp_path)
    assert verdict.failure == "" and [remark for remark in verdict.remarks if remark[2] == "error"] == []


def test_there_may_be_no_canary(ajet: Blueprint, foreign: Blueprint) -> None:
    assert planned(ajet, vary=[KL], canary=False).canary == {}
    assert planned(ajet, AJET | {"ajet.trainer_common.total_training_steps": 2}, vary=[KL]).canary == {}
    assert planned(foreign, {}, vary=["arg:--lr=1,2"]).canary == {}
    own = {"arg:--steps": "2"}
    assert planned(foreign, {}, vary=["arg:--lr=1,2"], canary=own).canary == own


@pytest.mark.parametrize(
    ("present", "options", "gpus", "needed", "parallel"),
    [
        ({}, {}, 0, 0, 1),
        ({}, {}, 8, 1, 8),
        ({}, {"each": {"gpus": 2}}, 8, 2, 4),
        ({}, {"each": {"gpus": 0}}, 8, 0, 1),
        ({}, {"parallel": 3}, 8, 1, 3),
        ({"ajet.backbone": "verl", "ajet.trainer_common.n_gpus_per_node": 4}, {}, 8, 4, 2),
        ({"ajet.backbone": "verl"}, {}, 4, 8, 1),
        ({"ajet.backbone": "verl", "ajet.trainer_common.device": "cpu"}, {}, 0, 0, 1),
        ({}, {"settings": ["ajet.backbone=verl", "ajet.trainer_common.n_gpus_per_node=2"]}, 8, 2, 4),
    ],
)
def test_slots_follow_the_gpus(
    ajet: Blueprint,
    present: dict[str, object],
    options: dict[str, Any],
    gpus: int,
    needed: int,
    parallel: int,
) -> None:
    plan = planned(ajet, AJET | present, gpus, vary=[KL], **options)
    assert (plan.needs.gpus, plan.parallel) == (needed, parallel)


def test_the_rest_of_the_spec_is_in_the_plan(ajet: Blueprint) -> None:
    more = {"budget": "90 min", "threshold": 0.5, "goal": "min", "each": {"memory": "4 GB", "ports": []}}
    expect = [{"key": "ajet.trainer_common.kl_loss_coef", "level": 0.01, "effect": "lower"}]
    plan = planned(ajet, vary=[KL], settings=["a.b=3"], expect=expect, **more)
    assert (plan.name, plan.blueprint) == ("trial-sweep", str(ajet.path))
    assert (plan.settings, plan.budget_s, plan.threshold, plan.goal) == ({"a.b": 3}, 5400.0, 0.5, "min")
    assert plan.needs == Needs(0, None, 4_000_000_000, (), False)
    assert plan.expectations[0].level == 0.01
    with pytest.raises(SweepError, match="is the baseline"):
        planned(ajet, vary=[KL], expect=[{"key": KL.partition("=")[0], "level": 0.001, "effect": "none"}])


def test_a_config_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    base = experiment(tmp_path)
    (base.codebase_dir / "conf/run.yaml").write_text("a: [")
    with pytest.raises(SweepError, match=r"run\.yaml is not a config"):
        planned(base, vary=["a.b=1,2"])


def test_the_metric_of_validations_is_named_beforehand(ajet: Blueprint, foreign: Blueprint) -> None:
    assert planned(ajet, vary=[KL]).metric == "val/task_pass_rate@1"
    assert planned(ajet, vary=[KL], metric="critic/rewards/mean").metric == "critic/rewards/mean"
    never = {**AJET, "ajet.trainer_common.test_freq": -1}
    assert planned(ajet, never, vary=[KL]).metric == ""
    assert planned(foreign, vary=["arg:--lr=1,2"]).metric == ""


def test_more_seeds_find_smaller_differences_and_few_cost_more_than_equal_scatter_would() -> None:
    known = [(seeds, forecast(plan(seeds=seeds), None, 1.0).two_points) for seeds in (2, 3, 5, 10)]
    for (seeds, ours), more in zip(known, (1.5, 1.1, 1.02, 1.0), strict=True):
        student = TTestIndPower().solve_power(nobs1=seeds, alpha=0.05, power=0.8)
        assert ours is not None and ours >= more * student
    assert forecast(plan(seeds=1), None, 1.0).two_points is None


def test_two_values_in_a_grid_are_found_as_often_as_foretold() -> None:
    """By simulation: 2 x 3 points with 3 seeds, a value of the second key against its baseline."""
    from scipy import stats

    seen = forecast(grid({"a": range(2), "b": range(3)}, range(3)), None, 1.0)
    difference, runs = seen.two_levels["b"], 4000
    draws = np.random.default_rng(0).normal(size=(runs, 2, 2, 3))  # the other key, the two values, seeds
    draws[:, :, 1] += difference
    effect = (draws[:, :, 1].mean(axis=2) - draws[:, :, 0].mean(axis=2)).mean(axis=1)
    parts = draws.var(axis=3, ddof=1).reshape(runs, 4) / 3 / 4
    t, degrees = effect / np.sqrt(parts.sum(axis=1)), 2 * parts.sum(axis=1) ** 2 / (parts**2).sum(axis=1)
    found = (2 * stats.t.sf(np.abs(t), degrees) < 0.05).mean()
    assert found == pytest.approx(0.8, abs=0.025)


@pytest.mark.parametrize(
    ("changes", "estimate", "expected"),
    [
        ({"parallel": 1, "budget_s": None}, 10.0, (60.0, 600.0, None, None)),
        ({"parallel": 4, "budget_s": None}, 10.0, (20.0, 200.0, None, None)),
        ({"parallel": 1, "budget_s": 60.0}, 10.0, (60.0, 600.0, 6, True)),
        ({"parallel": 1, "budget_s": 59.0}, 10.0, (60.0, 600.0, 5, False)),
        ({"parallel": 2, "budget_s": 250.0}, None, (None, 300.0, 4, False)),
    ],
)
def test_time_and_budget(changes: dict[str, Any], estimate: float | None, expected: tuple) -> None:
    takes = None if estimate is None else Estimate(estimate, "")
    seen = forecast(plan(points=3, seeds=2, **changes), takes, 100.0)
    assert (seen.all_s, seen.most_all_s, seen.within_budget, seen.fits_budget) == expected
