"""`harness compare`: any runs side by side, on a narrow terminal, as JSON, and as a report of its own."""

import json
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from harness.atomic_write import write_json
from harness.index import IndexedRun, add
from harness.sweep import reporting
from harness.sweep.plan import SweepFolder
from harness.sweep.state import load_state
from tests.harness.cli.typed import typed
from tests.harness.results.comparing.result_folders import begun, foreign
from tests.harness.results.synthetic import attempt, draw_successes
from tests.harness.sweep.finished import finished_sweep


def run(root: Path, lr: str, seed: int, rate: float, outcome: str = "succeeded") -> Path:
    """A finished run as its folder tells it: 400 tasks in two validations."""
    folder = root / f"lr{lr}-s{seed}"
    folder.mkdir(parents=True)
    rng = np.random.default_rng((seed, int(1e7 * float(lr))))
    made = attempt(folder).exit(seconds=3600.0).config(f"lr: {lr}\nseed: {seed}\n")
    made.metrics([(step, {"critic/rewards/mean": 0.1 * step}) for step in (1, 2)])
    made.validations({0: draw_successes(rng, 0.3, 100, 4), 2: draw_successes(rng, rate, 100, 4)})
    story = begun(folder, policy="playbook").attempt(1).ended(outcome)
    story.add("finish", outcome=outcome, reason="attempt 1 ended").write(folder)
    write_json(folder / "finish.flag", {"outcome": outcome, "reason": "attempt 1 ended"})
    return folder


compared = partial(typed, "compare")


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    rates = {"1e-6": 0.45, "1e-5": 0.75}
    folder, each = tmp_path / "runs", [(lr, seed) for lr in rates for seed in (1, 2, 3)]
    return [run(folder, lr, seed, rates[lr] + 0.01 * seed) for lr, seed in each]


def test_the_table_fits_eighty_columns_and_says_what_was_found(runs: list[Path]) -> None:
    status, out, _ = compared("--metric", "val/task_pass_rate@1", *runs)
    lines = out.splitlines()
    assert status == 0 and max(map(len, lines)) <= 80
    assert lines[0] == "A detectable difference: lr"
    assert "lr matters: 1e-05 is higher (better) than 1e-06 by +0." in out
    assert "all 6 runs count" in out and "3 of 3" in out
    (row,) = [line for line in lines if line.startswith("lr ") and line.split()[-1] == "higher"]
    assert row.split()[1:3] == ["1e-05", "1e-06"]


def test_a_report_is_written_only_where_it_is_asked_for(runs: list[Path], tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*")}
    status, out, _ = compared("--out", tmp_path / "report", *runs)
    assert status == 0 and str(tmp_path / "report/sweep_report.html") in out
    made = {path.name for path in (tmp_path / "report").iterdir()}
    assert made == {"sweep_report.html", "sweep_report.md", "sweep.json", "points.csv", "figures"}
    (tmp_path / "taken").write_text("")
    status, _, err = compared("--out", tmp_path / "taken", *runs)
    assert status == 2 and "taken: the report could not be written" in err
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*")} == before


def test_runs_are_found_by_name(runs: list[Path]) -> None:
    for number, folder in enumerate(runs):
        add(IndexedRun(f"abcd{number}", folder.name, str(folder), 0.0))
    status, out, _ = compared("--json", *(folder.name for folder in runs))
    assert status == 0 and len(json.loads(out)["runs"]) == 6
    status, _, err = compared("lr1e-6-s1x")
    assert status == 2 and "did you mean lr1e-6-s1" in err


def test_nothing_comparable_ends_with_two(tmp_path: Path, runs: list[Path]) -> None:
    status, _, err = compared("--metric", "val/no_such_thing", *runs)
    assert status == 2 and "no_such_thing" in err
    status, _, err = compared("--goal", "up", *runs)
    assert status == 2 and "--goal" in err
    lost = [run(tmp_path, lr, 1, 0.5, "failed") for lr in ("1e-6", "1e-5")]
    status, out, _ = compared("--metric", "val/task_pass_rate@1", *lost)
    assert status == 2 and "no run counts" in out


def test_d4_the_exit_status_says_that_groups_are_confounded(tmp_path: Path) -> None:
    """The learning rates were tried with other lengths, set in a program that nothing recorded."""
    runs = []
    for (lr, last), seed in product((("1", 40), ("2", 40), ("3", 8)), (0, 1)):
        rows = [(step, {"val_loss": 2 / step + 0.001 * seed + 0.1 * int(lr)}) for step in range(1, last + 1)]
        runs.append(foreign(tmp_path / f"{lr}-{seed}", f"python t.py --lr {lr} --seed {seed}", rows))
    status, out, _ = compared(*runs[:2], *runs[4:])
    assert (status, out.splitlines()[0]) == (2, "Confounded: no difference can be attributed to lr")
    assert "lower is better" in out and "confounded" in out
    status, out, _ = compared(*runs)
    assert (status, out.splitlines()[0]) == (1, "A detectable difference: lr; confounded: lr")
    status, out, _ = compared(*runs[:4])
    assert (status, out.splitlines()[0]) == (0, "A detectable difference: lr")


def test_runs_that_do_not_count_have_no_metric_and_no_direction(tmp_path: Path) -> None:
    lost = [run(tmp_path, lr, 1, 0.5, "cancelled") for lr in ("1e-6", "1e-5")]
    status, out, _ = compared(*lost)
    assert status == 2 and "better" not in out
    assert "\n2 points, 0 of 2 runs count\n" in out


def test_a_whole_sweep_is_compared_as_its_own_report_does_it(tmp_path: Path) -> None:
    """One run had another GPU: both name it, with the metric that is asked for."""
    folder = SweepFolder(finished_sweep(tmp_path / "trial"))
    for number, run in enumerate(("p01-s0", "p02-s0")):
        record = {"hardware": {"gpus": [f"GPU {number}"]}}
        (folder.result_dir(run) / "provenance.json").write_text(json.dumps(record))
    status, out, _ = compared("--json", "--metric", "critic/rewards/mean", folder.dir, folder.dir / "p01-s0")
    told = json.loads(out)
    own = reporting.comparison(folder, load_state(folder.dir))
    assert status == 0 and (told["metric"], own.metric) == ("critic/rewards/mean", "val/task_pass_rate@1")
    assert {*told["confounds"]} > {*own.confounds}
    assert "GPU differs: GPU 0 (p01-s0); GPU 1 (p02-s0)" in told["confounds"]
    assert any("that was planned is val/task_pass_rate@1" in one for one in told["confounds"])
    assert told["chosen_afterwards"]
    _, out, _ = compared("--json", "--metric", "task_pass_rate@1", folder.dir)
    assert json.loads(out)["chosen_afterwards"] is False
    status, _, err = compared("--metric", "val/no_such_thing", folder.dir)
    assert status == 2 and "no run has val/no_such_thing" in err
