"""Runs as DataFrames: the numbers of the report, the plots, and the code of docs/notebook.md."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import harness
from harness import index
from tests.harness.results.finished import finished_run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/notebook.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _without_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_run(tmp_path_factory.mktemp("made") / "exp_results" / "quickstart")


@pytest.fixture
def folder(finished: Path) -> Path:
    """A finished run that is listed."""
    index.add(index.IndexedRun("7f3a00000000", "quickstart", str(finished), 1.0))
    return finished


def test_the_code_of_the_page_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder.parents[1])
    names: dict[str, Any] = {}
    for block in BLOCKS:
        exec(compile(block, "docs/notebook.md", "exec"), names)
    printed = capsys.readouterr().out
    assert len(BLOCKS) >= 7
    assert "succeeded" in printed and "did you mean critic/rewards/mean?" in printed
    assert (folder.parents[1] / "curves.png").stat().st_size > 1000


def test_metrics_are_those_of_the_raw_file(folder: Path) -> None:
    table = harness.open_run(folder).metrics
    assert table.index.name == "step" and table.index.tolist() == list(range(1, 13))
    raw = [json.loads(line) for line in (folder / "attempts/01/metrics.jsonl").open()]
    for key in raw[0]["values"]:
        assert table[key].tolist() == [row["values"][key] for row in raw]


def test_validations_and_facts_are_those_of_the_report(folder: Path) -> None:
    run = harness.open_run(folder)
    told = {fact["id"]: fact for fact in json.loads((folder / "result.json").read_text())["facts"]}
    assert run.facts["value"].to_dict() == pytest.approx({name: fact["value"] for name, fact in told.items()})
    last = run.validations.iloc[-1]
    fact = told["val/12/task_pass_rate@1"]
    assert (last["step"], last["task_pass_rate@1"]) == (12, pytest.approx(fact["value"]))
    ends = fact["interval_95"]
    assert last["task_pass_rate@1_low"] == pytest.approx(ends["low"])
    assert last["task_pass_rate@1_high"] == pytest.approx(ends["high"])


def test_attempts_and_the_table_of_all_runs(folder: Path) -> None:
    run = harness.open_run("quickstart")
    assert run.attempts.index.tolist() == [1]
    for table in (harness.runs(), harness.runs(folder.parent)):
        assert table[["name", "state", "dir"]].values.tolist() == [[run.name, "succeeded", str(folder)]]
    assert len(harness.runs(folder.parents[1] / "exp_results" / "quickstart" / "attempts")) == 0


def test_a_damaged_journal_is_listed_as_such(tmp_path: Path) -> None:
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "journal.jsonl").write_text("garbage\n" * 3)
    assert harness.runs(tmp_path)[["name", "state"]].values.tolist() == [["torn", "damaged"]]


def test_a_plot_draws_the_values_that_are_in_the_table(folder: Path) -> None:
    run = harness.open_run(folder)
    figure = run.plot("actor/kl_loss", "critic/rewards/mean")
    for name, panel in zip(("actor/kl_loss", "critic/rewards/mean"), figure.axes, strict=True):
        (line,) = panel.lines
        assert panel.get_ylabel() == name
        assert line.get_ydata().tolist() == run.metrics[name].tolist()


def test_what_is_no_run_is_refused_with_the_closest_name(folder: Path) -> None:
    with pytest.raises(harness.UserError, match="did you mean quickstart"):
        harness.open_run("quikstart")
    with pytest.raises(harness.UserError, match="is no folder"):
        harness.runs(folder / "nowhere")


def test_importing_the_package_imports_no_pandas() -> None:
    code = "import harness, sys; harness.open_run; print(*({'pandas', 'matplotlib'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == ""
