"""The report of several runs: complete, honest, safe with any name, the same when built again."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from harness.results.compare import compare_results
from harness.results.comparing.types import Comparison, Curve, Key, Study
from harness.results.sweeps import wording
from harness.results.sweeps.report import DOCUMENTS, SweepReport, build_sweep_report
from harness.results.sweeps.tables import SweepAbout
from tests.harness.results.comparisons import KL, LR, OPTIMIZER, REPEAT, comparison
from tests.harness.results.journals import section
from tests.harness.results.page import Page

PLAN = {
    "name": "kl-sweep",
    "parallel": 2,
    "budget_s": 43200.0,
    "author": "person",
    "settings": {"a.steps": 240},
}
ABOUT = SweepAbout("succeeded", started=1.76e9, ended=1.76e9 + 7200, canary="passed in 3 min", plan=PLAN)


def undrawn(made: Comparison) -> Comparison:
    """The comparison without what two of the three figures are drawn from."""
    runs = tuple(replace(run, curve=Curve((), ()), hours=None) for run in made.runs)
    return replace(made, runs=runs, points=tuple(replace(point, cost=None) for point in made.points))


def tables(markdown: str) -> list[list[list[str]]]:
    tree = SyntaxTreeNode(MarkdownIt("commonmark").enable("table").parse(markdown))
    return [
        [["".join(leaf.content for leaf in cell.walk() if leaf.type in ("text", "code_inline"))
          for cell in row.children] for part in table.children for row in part.children]
        for table in tree.walk() if table.type == "table"
    ]  # fmt: skip


Grid = tuple[Path, Comparison, SweepReport]


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Grid:
    folder = tmp_path_factory.mktemp("grid")
    made = comparison((KL, REPEAT), 3, folder, lost=(4,))
    run = folder / made.runs[0].run.name
    run.mkdir()
    (run / "report.html").write_text("")
    return folder, made, build_sweep_report(folder, made, ABOUT)


def test_all_documents_are_there_and_agree(grid: Grid) -> None:
    folder, made, report = grid
    data = json.loads((report.folder / "sweep.json").read_text())
    page, markdown = Page(report.html.read_text()), (report.folder / "sweep_report.md").read_text()
    text = "".join(page.text)
    assert data["headline"] == list(report.headline) and data["plan"] == PLAN
    for sentence in data["found"]:
        assert sentence in text
    for point in made.points:
        assert point.value is not None
        assert f"{point.value.mean:.3f}" in text and f"{point.value.mean:.3f}" in markdown
    assert len(list(csv.DictReader((report.folder / "points.csv").open(newline="")))) == len(made.runs)
    figures = {"figures/curves.json", "figures/levels.svg", "figures/quality.svg"}
    assert {entry["path"] for entry in data["documents"]} >= {*DOCUMENTS, *figures}
    links = [str(attributes["href"]) for tag, attributes in page.elements if tag == "a"]
    assert [link for link in links if link.endswith("html")] == [f"{made.runs[0].run.name}/report.html"]
    assert (folder / "figures/curves.svg").read_text().startswith("<?xml")


def test_what_was_found_comes_first_and_is_worded_by_the_finding(grid: Grid) -> None:
    _, made, report = grid
    contrast = made.keys[1].contrasts[0]
    assert contrast.finding == "higher" and contrast.low is not None and contrast.high is not None
    assert report.headline[0] == "A detectable difference: num_repeat"
    by = f"+{contrast.difference:.3f} [{contrast.low:.3f}, {contrast.high:.3f}]"
    assert report.headline[1] == f"num_repeat matters: 8 is higher (better) than 4 by {by}."
    assert report.headline[2].startswith("kl_loss_coef: no detectable difference (")
    assert "these seeds would have found a difference of ±" in report.headline[2]
    page = report.html.read_text()
    order = ["A detectable difference", "Before you believe", "<nav", "<h2>What was varied", "<h2>Points"]
    order += [
        "<h2>Figures",
        "<h2>What was expected",
        "<h2>Runs",
        "<h2>How it was computed",
        "<h2>What was planned",
    ]
    places = [page.index(title) for title in order]
    assert places == sorted(places)


def test_tables_hold_every_level_point_and_run_and_a_lost_run_counts_nowhere(grid: Grid) -> None:
    _, made, report = grid
    lost = made.runs[4].run
    markdown = (report.folder / "sweep_report.md").read_text()
    caution = markdown[markdown.index("Before you believe") : markdown.index("What was varied")]
    assert f"{lost.name}: failed: CUDA out of memory" in caution.replace("\\", "")
    assert "17 of 18 runs count" in markdown
    keys, points, expected, runs = tables(markdown)
    assert next(row for row in points if row[0] == lost.point)[5] == "2 of 3"
    assert [len(keys), len(points), len(expected), len(runs)] == [4, 7, 2, 19]
    for table in (keys, points, expected, runs):
        assert {len(row) for row in table} == {len(table[0])}
    means = [float(row[3]) for row in points[1:]]
    assert means == sorted(means, reverse=True)
    assert points[1][-1] == "highest mean" and [row[-1] for row in points].count("baseline") == 1


@pytest.mark.usefixtures("drawn_anew")
def test_building_again_gives_the_same_bytes(grid: Grid) -> None:
    folder, made, _ = grid
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    build_sweep_report(folder, made, ABOUT)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_single_seed_is_marked_in_every_row_and_figure(tmp_path: Path) -> None:
    made = comparison((REPEAT,), 1, tmp_path)
    report = build_sweep_report(tmp_path, made)
    assert report.headline[0] == "Single seed: nothing can be said about other seeds"
    points = tables((report.folder / "sweep_report.md").read_text())[1]
    assert all("single seed" in row[-1] for row in points[1:])
    page = report.html.read_text()
    assert page.count('<span class="tag warn">single seed</span>') == 2
    captions = re.findall(r"<figcaption>.*?<span>(.*?)</span>", page)
    assert ["single seed" in caption.lower() for caption in captions] == [True] * 3


def test_confounds_repairs_and_a_metric_chosen_afterwards_cannot_be_overlooked(tmp_path: Path) -> None:
    made = undrawn(comparison((REPEAT,), 3, tmp_path))
    runs = (
        replace(made.runs[0], deviations=("n_vllm_engine: 2 → 1",), code_changed=True),
        replace(made.runs[1], by_person=("--data a.csv → b.csv",)),
        *made.runs[2:],
    )
    made = replace(made, runs=runs, confounds=("torch differs",), chosen_afterwards=True)
    report = build_sweep_report(tmp_path, made)
    text = "".join(Page(report.html.read_text()).text)
    caution = text[text.index("Before you believe") : text.index("What was varied")]
    for words in ("torch differs", "n_vllm_engine: 2 → 1", "chosen afterwards", made.runs[0].run.name):
        assert words in caution
    changed = f"{made.runs[1].run.name} is not the same point as the others: a person changed --data a.csv"
    assert report.headline[0].startswith(changed)
    assert " Runs of different code: in 1 of 6 that count a model changed it. " in report.headline[0]
    assert "changed by a person" in text[text.index("Points") :]
    alike = replace(made, runs=tuple(replace(run, by_person=("--data a → b",)) for run in made.runs))
    assert wording.findings(alike).verdict.startswith("For every run that counts a person changed --data a")
    assert [line for line in report.headline if line.startswith("caution")] == [
        "caution: The points differ in more than what was varied",
        "caution: Runs whose code a model changed (†): not the author's results",
        "caution: Runs that were repaired on the way",
        "caution: The metric was chosen afterwards",
    ]


def test_no_run_that_counts_is_said_and_draws_nothing(tmp_path: Path) -> None:
    report = build_sweep_report(tmp_path, comparison((REPEAT,), 1, tmp_path, lost=(0, 1)))
    assert report.headline[0] == "Nothing can be compared: no run counts"
    assert list((tmp_path / "figures").iterdir()) == []
    assert "0 of 2 runs count" in (report.folder / "sweep_report.md").read_text()


def test_nothing_that_was_written_by_others_becomes_active(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>|`x`[a](javascript:b)" + "y" * 90 + "\n# x\n- z"
    made = comparison((Key(f"ajet.{evil}", ("a", evil), "a"),), 2, tmp_path)
    first = replace(made.runs[0], deviations=(evil,), outcome=evil)
    study: Study = replace(made.study, name=evil, question=evil)
    made = replace(made, study=study, metric=evil, confounds=(evil,), missing=(evil,))
    made = replace(made, runs=(first, *made.runs[1:]))
    about = replace(ABOUT, outcome="failed", reason=evil, plan={"settings": {evil: evil}})
    written = {"findings": section(words=evil.replace("1", "x") + " <img src=x>")}
    report = build_sweep_report(tmp_path, made, about, narrative=written)
    page = Page(report.html.read_text())
    page.assert_only_our_script_runs()
    assert not re.search(r"(src|href)=\"(https?:)?//", report.html.read_text())
    for table in tables((report.folder / "sweep_report.md").read_text()):
        assert {len(row) for row in table} == {len(table[0])}
    html = MarkdownIt("commonmark").render((report.folder / "sweep_report.md").read_text())
    assert "<script" not in html and "javascript:" not in "".join(re.findall(r'href="[^"]*"', html))


def test_secrets_are_masked_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "correct-horse-battery")
    made = replace(comparison((REPEAT,), 2, tmp_path), confounds=("key correct-horse-battery",))
    about = replace(ABOUT, plan={"settings": {"token": "correct-horse-battery"}})
    build_sweep_report(tmp_path, made, about, {"findings": section(words="it is correct-horse-battery")})
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or b"correct-horse-battery" not in path.read_bytes()


def test_what_a_model_wrote_comes_last_and_is_worded_by_the_program(tmp_path: Path) -> None:
    made = undrawn(comparison((REPEAT,), 3, tmp_path))
    contrast = {"kind": "contrast", "key": "num_repeat", "level": 8}
    written = {"findings": section(contrast, words="It pays, see [[level/num_repeat/8]].")}
    report = build_sweep_report(tmp_path, made, replace(ABOUT, model="a-model"), narrative=written)
    page = report.html.read_text()
    last = page[page.index("What was planned") :]
    assert "(a-model)" in last and "A model’s interpretation, not checked" in last
    told = json.loads((report.folder / "sweep.json").read_text())["narrative"]
    assert "num_repeat 8 than with 4" in told["sections"][0]["findings"][0]
    assert told["sections"][0]["findings"][0] in last
    assert told["sections"][0]["interpretation"] == "It pays, see [num_repeat 8]."


def test_sixty_points_fit(tmp_path: Path) -> None:
    made = comparison((KL, REPEAT, OPTIMIZER, LR), 1, tmp_path)
    assert len(made.points) == 60
    report = build_sweep_report(tmp_path, made)
    page = Page(report.html.read_text())
    assert sum("data-chart" in attributes for _, attributes in page.elements) == 3
    assert "one panel per key" in "".join(page.text)
    points = tables((report.folder / "sweep_report.md").read_text())[1]
    assert len(points) == 61 and points[0][1:5] == ["kl_loss_coef", "num_repeat", "optimizer", "lr"]


def test_a_lower_value_is_better_where_that_is_the_goal(tmp_path: Path) -> None:
    made = undrawn(comparison((REPEAT,), 3, tmp_path))
    made = compare_results(replace(made.study, goal="min"), made.runs)
    worst = min(made.points, key=lambda point: point.value.mean if point.value else 0.0)
    report = build_sweep_report(tmp_path, replace(made, best=worst.point.name))
    assert "8 is higher (worse) than 4" in report.headline[1]
    assert report.headline[2].startswith("The lowest mean is")
    assert tables((report.folder / "sweep_report.md").read_text())[1][1][-1] == "baseline, lowest mean"


def test_a_figure_that_cannot_be_drawn_is_left_out_and_named(tmp_path: Path) -> None:
    made = comparison()
    first, *others = made.runs
    curve = Curve(first.curve.steps, (1e308, *first.curve.values[1:]))
    build_sweep_report(tmp_path, replace(made, runs=(replace(first, curve=curve), *others)), ABOUT)
    told = json.loads((tmp_path / "sweep.json").read_text())
    assert [figure["files"][-1] for figure in told["figures"]] == [
        "figures/levels.json",
        "figures/quality.json",
    ]
    (note,) = (note for note in told["notes"] if "could not be drawn" in note)
    assert "the figure of curves" in note and note in (tmp_path / "sweep_report.html").read_text()
