"""Settings by name: what is a seed, and what is none."""

from pathlib import Path

import pytest

from harness.results.comparing.folders import gathered
from harness.results.comparing.types import Study
from harness.sweep import reporting
from tests.harness.results.comparing.result_folders import foreign

ROWS = [(step, {"loss": 1 / (step + 1)}) for step in range(30)]


def study_of(folders: list[Path]) -> Study:
    return gathered(folders, reporting.planned).study


@pytest.mark.parametrize("name", ["num_seed_examples", "seed_data_path", "use_seed"])
def test_a_name_that_speaks_of_seeds_is_no_seed(tmp_path: Path, name: str) -> None:
    values = ("true", "false") if name == "use_seed" else ("10", "1000")
    runs = [foreign(tmp_path / v, f"python t.py --seed 0 {name}={v}", ROWS) for v in values]
    assert [key.levels for key in study_of(runs).keys] == [values]


@pytest.mark.parametrize("name", ["--data-seed", "randomSeed", "train.SEED", "seed_everything"])
def test_what_a_seed_is_called(tmp_path: Path, name: str) -> None:
    commands = [f"PYTHONHASHSEED={seed} python t.py {name}={seed}" for seed in (3, 5)]
    runs = [foreign(tmp_path / str(at), command, ROWS) for at, command in enumerate(commands)]
    study = study_of(runs)
    assert study.keys == () and [run.seed for run in study.runs] == [3, 5]


def test_folders_called_after_what_they_vary_are_no_seeds_of_one_point(tmp_path: Path) -> None:
    runs = [foreign(tmp_path / one, f"python t.py --seed 0 --opt {one}", ROWS) for one in ("adam", "sgd")]
    assert [key.levels for key in study_of(runs).keys] == [("adam", "sgd")]
    tagged = [
        foreign(tmp_path / f"r{n}", f"python t.py --tag r{n} --seed {n} --lr {lr}", ROWS)
        for n, lr in enumerate((1, 1, 2, 2))
    ]
    assert [key.name for key in study_of(tagged).keys] == ["arg:--lr"]


def test_seeds_that_vary_apart_are_not_one_seed(tmp_path: Path) -> None:
    runs = [
        foreign(tmp_path / f"{data}{seed}", f"python t.py --data_seed {data} --seed {seed}", ROWS)
        for data in (7, 8)
        for seed in (1, 2)
    ]
    study = study_of(runs)
    assert [(key.name, key.levels) for key in study.keys] == [("arg:--data_seed", ("7", "8"))]
    assert [run.seed for run in study.runs] == [1, 2, 1, 2]
