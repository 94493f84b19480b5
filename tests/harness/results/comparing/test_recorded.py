"""Any result folders: which runs are one point, what the keys are, what is refused."""

import json
from contextlib import closing
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from harness.results.compare import compare_folders as compared
from harness.results.comparing.recorded import gathered
from harness.results.comparing.types import Asked, Comparison, Goal, Key, NotComparableError, Study
from harness.results.sweeps import wording
from harness.sweep import reporting
from harness.sweep.plan import SweepFolder
from harness.sweep.state import RunLeftOut, load_state
from tests.harness.results.comparing.made import METRIC
from tests.harness.results.comparing.result_folders import evaluated, foreign, trained
from tests.harness.sweep.plans import begun, grid

KL = "ajet.kl_loss_coef"
LOSS = [(step, {"loss": 1 / (step + 1)}) for step in range(30)]


def study_of(*folders: Path) -> Study:
    return gathered(folders, reporting.planned)[0]


def compare_folders(*folders: Path, metric: str = "", goal: Goal | None = None) -> Comparison:
    return compared(folders, reporting.planned, Asked(metric, goal))


def test_runs_that_differ_in_the_seed_are_one_point(tmp_path: Path) -> None:
    settings = [(0.01, 1), (0.1, 1), (0.01, 2), (0.1, 2)]
    folders = [trained(tmp_path / f"run{at}", seed=seed, kl=kl) for at, (kl, seed) in enumerate(settings)]
    study = study_of(*folders)
    assert study.keys == (Key(KL, (0.01, 0.1), 0.01),)
    points = [("kl_loss_coef=0.01", True), ("kl_loss_coef=0.1", False)]
    assert [(point.name, point.is_baseline) for point in study.points] == points
    runs = [(f"run{at}", f"kl_loss_coef={kl}", seed) for at, (kl, seed) in enumerate(settings)]
    assert [(run.name, run.point, run.seed) for run in study.runs] == runs
    assert study.seed_key == "ajet.trainer_common.seed"
    for found in (compare_folders(*folders), compare_folders(*folders, metric=METRIC)):
        assert (found.metric, found.chosen_afterwards, found.confounds) == (METRIC, True, ()), (
            "no plan named it"
        )


@pytest.mark.parametrize(
    ("more", "commit", "listed"),
    [
        ({"lr": 1e-5}, "1111", "ajet.lr differs: 1e-06 (a); 1e-05 (b)"),
        ({"model": "/models/large"}, "1111", "ajet.model.path differs: /models/tiny (a); /models/large (b)"),
        ({}, "2222", "code differs: 1111 (a); 2222 (b)"),
    ],
)
def test_several_differences_are_refused(tmp_path: Path, more: dict, commit: str, listed: str) -> None:
    one, other = trained(tmp_path / "a", kl=0.01), trained(tmp_path / "b", kl=0.1, **more)
    for folder, git in ((one, "1111"), (other, commit)):
        (folder / "provenance.json").write_text(json.dumps({"git": {"commit": git}}))
    with pytest.raises(NotComparableError) as refused:
        compare_folders(one, other)
    assert f"{KL} differs: 0.01 (a); 0.1 (b); {listed}" in str(refused.value)
    assert "Fix: name runs that differ in one of these" in str(refused.value)


def test_keys_that_are_varied_one_at_a_time_are_compared(tmp_path: Path) -> None:
    base, kl = trained(tmp_path / "a"), trained(tmp_path / "b", kl=0.1)
    study = study_of(base, kl, trained(tmp_path / "c", lr=1e-4))
    levels = ((0.01, "1e-06"), (0.1, "1e-06"), (0.01, "0.0001"))
    assert [point.name for point in study.points] == [f"kl_loss_coef={kl} lr={lr}" for kl, lr in levels]


def test_other_packages_and_machines_are_named_and_not_refused(tmp_path: Path) -> None:
    for name, torch, gpus in (("a", "2.0", 8), ("b", "2.1", 4)):
        folder = trained(tmp_path / name, kl=0.1 if name == "b" else 0.01)
        packages = {"torch": torch, "numpy": "2"}
        record = {"interpreter": {"packages": packages}, "hardware": {"gpus": ["H100"] * gpus}}
        (folder / "provenance.json").write_text(json.dumps(record))
    found = compare_folders(tmp_path / "a", tmp_path / "b")
    assert found.confounds == (
        "GPU differs: 8 × H100 (a); 4 × H100 (b)",
        "set of packages differs: torch 2.0 (a); torch 2.1 (b)",
    )
    (one,) = found.not_attributable
    beside = "GPU (4 × H100 against 8 × H100); set of packages (torch 2.1 against torch 2.0)"
    assert (one.key, one.beside) == (KL, beside)


@pytest.mark.parametrize("what", ["model", "code"])
def test_the_only_thing_that_differs_is_the_key(tmp_path: Path, what: str) -> None:
    one = trained(tmp_path / "a")
    other = trained(tmp_path / "b", **({"model": "/models/large"} if what == "model" else {}))
    for folder, diff in ((one, ""), (other, "+x" if what == "code" else "")):
        git = {"commit": "1" * 40, "dirty": bool(diff), "diff": diff}
        (folder / "provenance.json").write_text(json.dumps({"git": git}))
    (key,) = study_of(one, other).keys
    assert key.name == {"model": "ajet.model.path", "code": "code"}[what]


def test_flags_of_foreign_commands_are_keys_and_where_a_run_writes_is_not(tmp_path: Path) -> None:
    command = "OMP_NUM_THREADS=1 python -m my.train data.csv --lr {} --seed={} -n 3 a.b=0.9 --out /x/{}"
    settings = enumerate((("1e-4", 1), ("1e-4", 2), ("3e-4", 1)))
    folders = [foreign(tmp_path / f"r{at}", command.format(*each, at), LOSS) for at, each in settings]
    study = study_of(*folders)
    assert [(key.name, key.levels) for key in study.keys] == [("arg:--lr", ("1e-4", "3e-4"))]
    assert [run.seed for run in study.runs] == [1, 2, 1]
    assert compare_folders(*folders, goal="min").metric == "loss"


def test_programs_are_never_seeds_of_one_point(tmp_path: Path) -> None:
    command = "WORKERS=1 python {0}.py --seed {1} --log-file /x/{0}{1}"
    runs = product(("old", "new"), (1, 2))
    folders = [foreign(tmp_path / f"{name}{seed}", command.format(name, seed), LOSS) for name, seed in runs]
    (key,) = study_of(*folders).keys
    assert (key.name, key.levels) == ("launch command", ("python old.py", "python new.py"))


def test_a_seed_run_again_and_a_copy_are_no_second_seed(tmp_path: Path) -> None:
    folders = [
        trained(tmp_path / f"{kl}-{number}", kl=kl, rates={0: 0.3, 40: kl + 0.1 * number})
        for kl, number in product((0.01, 0.1), range(2))
    ]
    copy = folders[2].rename(tmp_path / "copy")
    trained(folders[2], kl=0.1)
    (copy / "journal.jsonl").write_bytes((folders[2] / "journal.jsonl").read_bytes())
    (folders[0] / "finish.flag").write_text('{"outcome": "failed", "reason": "no memory"}')
    found = compare_folders(*folders, copy)
    assert found.is_single_seed and found.keys[0].matters is None
    assert found.missing == (
        "0.01-0: failed: no memory (last step 40)",
        "0.1-1: the same seed as 0.1-0: says nothing about other seeds",
        "copy: a copy of 0.1-0, the same run counts once",
    )


def test_only_a_seed_differs_and_there_is_one_point_without_a_key(tmp_path: Path) -> None:
    found = compare_folders(*(trained(tmp_path / name, seed=seed) for seed, name in enumerate("ab")))
    assert found.study.keys == () and len(found.points) == 1
    assert found.points[0].value is not None and found.points[0].value.n == 2


def lengths(tmp_path: Path, *ends: tuple[str, int, int]) -> list[Path]:
    """Runs of a learning rate, a seed, and so many steps; the larger rate is truly better at any step."""
    made = []
    for lr, seed, last in ends:
        rows = [(step, {"val_loss": 1 / (step * float(lr)) + 0.01 * seed}) for step in range(1, last + 1)]
        command = f"python t.py --lr {lr} --seed {seed}"
        made.append(foreign(tmp_path / f"{lr}-{seed}-{last}", command, rows))
    return made


def test_d4_groups_that_trained_unequally_long_are_not_attributed_to_what_was_varied(tmp_path: Path) -> None:
    runs = lengths(tmp_path, ("0.01", 0, 40), ("0.01", 1, 40), ("0.03", 0, 8), ("0.03", 1, 9))
    found = compare_folders(*runs, metric="val_loss")
    (one,) = found.contrasts
    assert (one.finding, one.p, found.keys[0].matters) == ("confounded", None, None)
    assert one.why_not == "the runs of one side trained until 8 to 9 and of the other until 40"
    told = wording.findings(found)
    assert told.verdict == "Confounded: no difference can be attributed to lr"
    assert "lr: confounded; 0.03 against 0.01, +" in told.found[0] and "cannot be attributed" in told.found[0]


def test_d4_nothing_is_best_and_nothing_interacts_among_confounded_groups(tmp_path: Path) -> None:
    runs = []
    for lr, size, seed in product((1, 2), (1, 2), (0, 1)):
        last = 40 if lr == size else 8
        rows = [(step, {"val_loss": 1 / step + 0.001 * seed}) for step in range(1, last + 1)]
        command = f"python t.py --lr {lr} --width {size} --seed {seed}"
        runs.append(foreign(tmp_path / f"{lr}-{size}-{seed}", command, rows))
    found = compare_folders(*runs)
    assert (found.best, found.interactions) == (None, ())
    assert wording.findings(found).verdict.startswith("Confounded")


def test_equal_lengths_and_lengths_that_are_varied_are_no_confound(tmp_path: Path) -> None:
    runs = lengths(tmp_path, ("0.01", 0, 40), ("0.01", 1, 39), ("0.03", 0, 38), ("0.03", 1, 40))
    assert compare_folders(*runs).contrasts[0].finding == "lower"
    folders = []
    for epochs, seed in product((8, 40), (0, 1)):
        rows = [(step, {"loss": 1 / step + 0.001 * seed}) for step in range(1, epochs + 1)]
        command = f"python t.py --epochs {epochs} --seed {seed}"
        folders.append(foreign(tmp_path / f"e{epochs}-{seed}", command, rows))
    assert compare_folders(*folders).contrasts[0].finding == "lower"


def test_d4_programs_that_two_sweeps_froze_unlike_are_another_key(tmp_path: Path) -> None:
    runs = []
    for name, lr in (("a", "0.01"), ("b", "0.03")):
        runs.append(foreign(tmp_path / name / "p01", f"python t.py --lr {lr}", LOSS))
        (tmp_path / name / "snapshot").mkdir()
        (tmp_path / name / "snapshot/files.json").write_text(json.dumps({"t.py": name, "plan.md": "x"}))
    with pytest.raises(NotComparableError, match="code differs"):
        compare_folders(*runs)


def test_d5_the_direction_is_the_metrics_and_is_never_assumed(tmp_path: Path) -> None:
    rows = {"loss": 1.0, "accuracy": 0.5, "kl": 0.1}
    folders = [
        foreign(tmp_path / f"{lr}{seed}", f"python t.py --lr {lr} --seed {seed}", [
            (step, {name: value + 0.1 * lr + 0.01 * seed / step for name, value in rows.items()})
            for step in range(1, 4)])
        for lr, seed in product((1, 2), (0, 1))
    ]  # fmt: skip
    best = {name: compare_folders(*folders, metric=name) for name in rows}
    assert [(one.study.goal, one.best) for one in best.values()] == [
        ("min", "lr=1"), ("max", "lr=2"), (None, None),
    ]  # fmt: skip
    told = wording.findings(best["kl"])
    assert told.best == "" and "better" not in " ".join(told.found) and "worse" not in " ".join(told.found)
    assert compare_folders(*folders, metric="kl", goal="max").best == "lr=2"
    assert wording.findings(best["loss"]).best.startswith("The lowest mean is")


def test_a_metric_that_all_plans_name_was_not_chosen_afterwards(tmp_path: Path) -> None:
    rows = [(step, {"loss": 1 / step, "heat": step / 9}) for step in range(1, 9)]
    own = {"metrics": {"patterns": [], "metric": "heat", "goal": "min"}}
    folders = [foreign(tmp_path / name, f"python t.py --lr {name}", rows, **own) for name in "ab"]
    found = compare_folders(*folders)
    assert (found.metric, found.study.goal, found.chosen_afterwards) == ("heat", "min", False)


def test_an_unknown_or_unclear_metric_is_an_error_that_says_which_there_are(tmp_path: Path) -> None:
    rows = [(step, {"heat": 1 / (step + 1), "light": step / 30}) for step in range(30)]
    folders = [foreign(tmp_path / name, f"python t.py --lr {name}", rows) for name in "ab"]
    with pytest.raises(NotComparableError, match="name one with --metric; all of them have: heat, light"):
        compare_folders(*folders)
    with pytest.raises(NotComparableError, match="no run has lihgt: did you mean light"):
        compare_folders(*folders, metric="lihgt")
    with pytest.raises(NotComparableError, match="holds no run"):
        compare_folders(folders[0], tmp_path / "nothing")


def sweep(folder: Path) -> Path:
    """A sweep of two points and two seeds, whose last run was never started."""
    more = {"question": "Does the KL loss matter?", "metric": "val/mean_reward"}
    plan = grid({KL: (0.01, 0.1)}, (1, 2), name="kl", seed_key="ajet.trainer_common.seed", **more)
    with closing(begun(folder, plan)) as made:
        made.record(RunLeftOut("p02-s2", "the budget was used up"))
    for run in plan.runs[:3]:
        trained(folder / run.name, seed=run.seed or 0, kl=0.01 if run.point == "p01" else 0.1)
    return folder


def test_a_sweep_is_compared_by_its_own_plan(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "kl")
    found = reporting.comparison(SweepFolder(folder), load_state(folder))
    assert (found.metric, found.study.question) == ("val/mean_reward", "Does the KL loss matter?")
    assert found.missing == ("p02-s2: never started: the budget was used up",)
    assert [point.value.n for point in found.points if point.value] == [2, 1]


def test_runs_of_sweeps_are_compared_by_what_they_recorded(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "kl")
    found = compare_folders(trained(tmp_path / "alone", kl=0.5, seed=1), folder)
    assert found.study.keys[0].levels == (0.5, 0.01, 0.1)
    assert sorted(run.name for run in found.study.runs) == ["alone", "p01-s1", "p01-s2", "p02-s1"]
    assert found.missing == ("p02-s2: never started: the budget was used up",)
    assert study_of(folder / "p02-s1", folder / "p01-s1").keys == (Key(KL, (0.1, 0.01), 0.1),)


def test_another_metric_than_the_planned_one_was_chosen_afterwards(tmp_path: Path) -> None:
    runs = [trained(tmp_path / "a", kl=0.5), sweep(tmp_path / "kl")]
    planned, asked = compare_folders(*runs), compare_folders(*runs, metric=METRIC)
    assert (planned.metric, planned.chosen_afterwards) == ("val/mean_reward", False)
    assert (asked.metric, asked.chosen_afterwards) == (METRIC, True)
    line = f"the metric that was planned is val/mean_reward, and these numbers are {METRIC}"
    assert asked.confounds == (*planned.confounds, line)


def test_what_a_plan_calls_its_seed_is_one(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "kl")
    plan = reporting.planned(folder)
    assert plan is not None
    part = replace(plan, seed_key="ajet.lr", runs=plan.runs[:1])
    study = gathered([folder, trained(tmp_path / "alone", seed=1, lr=1)], lambda _: part)[0]
    assert (study.keys, study.seed_key) == ((), "ajet.lr")


ROWS = [(step, {"val/acc": 0.5 + step / 100, "val/f1": 0.3, "train_loss": 1 / step}) for step in range(1, 9)]


@pytest.mark.parametrize(
    ("purpose", "metric", "why"),
    [
        ("Does lr change val/f1?", "val/f1", ""),
        ("Is the training loss lower?", "train_loss", ""),
        ("What does lr do?", "val/acc", "chosen by its name: the purpose names no metric"),
    ],
)
def test_runs_are_compared_by_the_metric_that_their_purpose_names(
    tmp_path: Path, purpose: str, metric: str, why: str
) -> None:
    commands = {"a": "python t.py --lr 1", "b": "python t.py --lr 2"}
    folders = [foreign(tmp_path / name, words, ROWS, purpose=purpose) for name, words in commands.items()]
    found = compare_folders(*folders)
    assert (found.metric, found.study.metric_why, found.chosen_afterwards) == (metric, why, bool(why))
    assert not why or f"({why})" in str(wording.cautions(found))


def test_a_run_without_the_metric_of_the_purpose_is_left_out_and_not_the_metric(tmp_path: Path) -> None:
    lacking = [(step, {"val/acc": 0.5}) for step in range(3)]
    rows = {"a --lr 1 --seed 1": ROWS, "b --lr 2 --seed 1": ROWS, "c --lr 2 --seed 2": lacking}
    purpose = "Does lr change val/f1?"
    runs = [(words[0], f"python t.py {words[2:]}", each) for words, each in rows.items()]
    found = compare_folders(*(foreign(tmp_path / run, *rest, purpose=purpose) for run, *rest in runs))
    assert found.metric == "val/f1" and found.missing == ("c: has no val/f1 (last step 2)",)


@pytest.mark.parametrize("is_point_evaluated", [True, False])
def test_values_of_an_evaluation_and_of_trainings_are_never_in_one_comparison(
    tmp_path: Path, is_point_evaluated: bool
) -> None:
    """Where leaving out the runs without an evaluation would cost a point, what trainings measured counts."""
    folders = []
    for lr, seed in product((1, 2), (1, 2)):
        command = f"python t.py --lr {lr} --seed {seed}"
        folders.append(foreign(tmp_path / f"lr{lr}-s{seed}", command, ROWS, purpose="val/acc?"))
        if lr == 1 or (seed == 1 and is_point_evaluated):
            evaluated(folders[-1], **{"val/acc": 0.1})
    found = compare_folders(*folders)
    values = [run.value for run in found.runs]
    first = wording.findings(found).verdict
    if is_point_evaluated:
        assert values == [0.1, 0.1, 0.1, None] and "Left out" in first and ": lr2-s2." in first
        assert found.missing[0].startswith("lr2-s2: measured by its training")
    else:
        assert values == [0.58] * 4
        assert first.startswith("Compared by what the trainings themselves measured")
