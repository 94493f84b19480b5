"""What is proposed after a run or a sweep: written beside the report, checked, and never started."""

from pathlib import Path
from typing import Any

import pytest

from harness.actions import ProposeNext
from harness.blueprint import Blueprint, read
from harness.redaction import NO_SECRETS
from harness.results.compare import compare_results
from harness.results.comparing.types import Comparison, Key
from harness.results.next_step import NextStep
from harness.sweep.next_experiment import MOST_RUNS, of_model, of_sweep
from harness.sweep.plan import SweepError, SweepFolder
from harness.sweep.spec_text import checked, read_spec, to_yaml
from tests.harness.results.comparing.made import result, study_of
from tests.harness.sweep.varied import experiment

LR = {"optim.weight_decay": [0.1, 0.3]}


def proposed(base: Blueprint, folder: Path, **asked: Any) -> NextStep:
    folder.mkdir(exist_ok=True)
    words = {"question": "Does it matter?", "why": "One seed is none."}
    action = ProposeNext.model_validate({**words, **asked})
    return of_model(action, base, folder, "acme:wise", ("loss",), NO_SECRETS)


def test_a_sweep_of_a_model_is_one_that_could_start(tmp_path: Path) -> None:
    base = experiment(tmp_path)
    step = proposed(base, tmp_path / "run", vary=LR, seeds=5, seed_key="seed", metric="loss")
    path = tmp_path / "run" / "next" / "sweep.yaml"
    assert step == NextStep.of(tmp_path / "run")
    assert (step.command, step.author) == (f"harness sweep {path}", "acme:wise")
    spec = read_spec(path)
    assert (spec.blueprint, spec.seeds, spec.metric) == (base.path, 5, "loss")
    assert spec.vary["optim.weight_decay"].values == [0.1, 0.3]


def test_a_run_of_a_model_is_a_blueprint_of_its_own(tmp_path: Path) -> None:
    base = experiment(tmp_path)
    proposed(base, tmp_path / "run", vary=LR, seed_key="seed")
    step = proposed(
        base, tmp_path / "run", set={"optim.weight_decay": 0.3, "arg:--lr": "1e-3"}, metric="loss"
    )
    path = tmp_path / "run" / "next" / "blueprint.md"
    assert step.command == f"harness run {path}"
    assert not path.with_name("sweep.yaml").exists(), "the newer proposal replaces the older one"
    plan = read(path)
    assert plan.can_run and plan.purpose == "Does it matter?"
    assert plan.metrics is not None and plan.metrics.metric == "loss"
    assert plan.result_dir == base.result_dir.with_name("trial-next")
    assert plan.yaml_path is not None and "weight_decay: 0.3" in plan.yaml_path.read_text()
    assert plan.launch_command is not None and "--lr 1e-3" in plan.launch_command
    assert str(plan.yaml_path) in plan.launch_command


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"vary": LR, "metric": "los"}, "did you mean loss?"),
        ({"vary": LR, "seed_key": "batch_size"}, "not named as a seed"),
        ({"vary": LR, "seeds": 3}, "not known where the command takes its seed"),
        ({"vary": {"arg:--out-dir": ["a", "b"]}}, "only the author sets it"),
        ({"vary": {"optim.weight_decy": [1, 2]}, "seed_key": "seed"}, "optim.weight_decy"),
        ({"set": {"env:LD_PRELOAD": "/a.so"}}, "LD_PRELOAD"),
        ({"set": {"optim.weight_decy": 1}}, "optim.weight_decy"),
        ({}, "nothing differs"),
    ],
)
def test_what_could_not_start_is_sent_back(tmp_path: Path, asked: dict[str, Any], why: str) -> None:
    with pytest.raises(SweepError, match=why):
        proposed(experiment(tmp_path), tmp_path / "run", **asked)
    assert NextStep.of(tmp_path / "run") is None


def swept(tmp_path: Path, values: dict[tuple, list[float]]) -> tuple[Comparison, SweepFolder]:
    base = experiment(tmp_path)
    levels = [level for (level,) in values]
    given = {"blueprint": base.path, "vary": {"optim.weight_decay": levels}, "seeds": 3, "seed_key": "seed"}
    folder = SweepFolder(tmp_path / "swept")
    folder.dir.mkdir()
    folder.spec.write_text(to_yaml(checked(given)))
    key = Key("optim.weight_decay", tuple(levels), levels[0])
    study = study_of([key], dict.fromkeys(values, 3), folder.dir, metric="loss")
    flat = [value for seeds in values.values() for value in seeds]
    runs = [result(r.name, r.point, r.seed or 0, value) for r, value in zip(study.runs, flat, strict=True)]
    return compare_results(study, runs), folder


def test_a_sweep_that_decided_nothing_proposes_the_seeds_that_it_needs(tmp_path: Path) -> None:
    close: dict[tuple, list[float]] = {
        (0.1,): [0.50, 0.56, 0.53],
        (0.3,): [0.54, 0.60, 0.57],
        (0.9,): [0.9, 0.91, 0.92],
    }
    found, folder = swept(tmp_path, close)
    step = of_sweep(found, folder)
    assert step is not None and step == NextStep.of(folder.dir) and step.author == ""
    spec = read_spec(folder.dir / "next" / "sweep.yaml")
    assert spec.vary["optim.weight_decay"].values == [0.1, 0.3], "what was found is not asked again"
    assert isinstance(spec.seeds, list) and min(spec.seeds) == 3, "fresh seeds"
    assert 2 * len(spec.seeds) <= MOST_RUNS and f"{len(spec.seeds)} seeds per point" in step.why


def test_a_sweep_that_is_decided_or_hopeless_proposes_nothing(tmp_path: Path) -> None:
    for number, last in enumerate(([0.9, 0.91, 0.92], [0.5001, 0.5601, 0.5301])):
        home = tmp_path / str(number)
        home.mkdir()
        assert of_sweep(*swept(home, {(0.1,): [0.50, 0.56, 0.53], (0.3,): last})) is None
        assert NextStep.of(home / "swept") is None
