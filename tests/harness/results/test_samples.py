"""Answers before and after, where the trainer wrote them down."""

import json
from pathlib import Path

from harness.results.collect import collect
from harness.results.report import build_report
from harness.results.samples import episode_pages, samples
from tests.harness.results.journals import ended
from tests.harness.results.page import Page
from tests.harness.results.synthetic import attempt


def validated(folder: Path, rows: list[tuple[int, str, bool, str | None]]) -> None:
    made = attempt(folder).exit()
    with (made.folder / "trainer" / "validation.jsonl").open("w") as file:
        for step, task, success, text in rows:
            row = {"step": step, "task_id": task, "rewards": [float(success)], "successes": [success]}
            kept = {} if text is None else {"query": f"sort {task}", "texts": [text, "another try"]}
            file.write(json.dumps(row | kept) + "\n")


def test_the_first_and_the_last_answer_stand_side_by_side_with_their_lines(tmp_path: Path) -> None:
    rows = [(0, "ba", False, "ba"), (0, "dc", False, None), (5, "ba", True, "xx"), (9, "ba", True, "ab")]
    validated(tmp_path, rows)
    (sample,) = samples(collect(tmp_path))
    assert sample["query"] == "sort ba"
    assert [(one["position"], one["text"], one["is_success"]) for one in sample["answers"]] == [
        ("step 0", "ba", False),
        ("step 9", "ab", True),
    ]
    assert [one["source"].line for one in sample["answers"]] == [1, 4]


def test_answers_are_text_on_the_page_whatever_a_model_wrote(tmp_path: Path) -> None:
    validated(
        tmp_path, [(0, "a", False, "<script>alert(1)</script>"), (9, "a", True, "</pre>\u2028\x1b[31m")]
    )
    page = Page(build_report(tmp_path, ended()).html.read_text())
    page.assert_only_our_script_runs()
    assert "<script>alert(1)</script>" in page.text and "Sample answers" in page.text


def test_without_texts_there_are_no_samples(tmp_path: Path) -> None:
    validated(tmp_path, [(0, "a", False, None), (9, "a", True, "x")])
    assert samples(collect(tmp_path)) == ()


def test_episodes_of_the_first_and_the_last_validation_are_linked(tmp_path: Path) -> None:
    validated(tmp_path, [(0, "ba", False, "ba"), (9, "ba", True, "ab")])
    assert episode_pages(collect(tmp_path)) == ()
    validation = next(tmp_path.rglob("validation.jsonl"))
    pages = validation.parent / "episodes"
    pages.mkdir()
    for name in ("first", "last"):
        (pages / f"{name}.html").write_text("<p>tokens</p>")
    report = build_report(tmp_path, ended()).html.read_text()
    for position, page in episode_pages(collect(tmp_path)):
        assert (tmp_path / page).read_text() == "<p>tokens</p>"
        assert f'<a href="{page}">an episode at {position}</a>' in report
    assert len(episode_pages(collect(tmp_path))) == 2
