"""What is read where a person points at a folder."""

import shutil
from pathlib import Path

import pytest

from harness.metric_files.reading import NoSourceError, read_source

WRITTEN = Path(__file__).parent / "written"


def test_a_folder_is_read_by_its_best_source() -> None:
    found = read_source(WRITTEN / "lightning")
    assert (found.source.name, found.rows[0][0]) == ("metrics.csv", 2)


def test_a_run_is_read_where_its_rows_came_from(tmp_path: Path) -> None:
    for number in ("01", "02"):
        attempt = tmp_path / "attempts" / number
        attempt.mkdir(parents=True)
        (attempt / "pane.log").write_text("step:1 - loss:0.5\n")
    assert read_source(tmp_path).source.name == "pane.log"
    shutil.copytree(WRITTEN / "ultralytics", tmp_path / "attempts/02/metric_source")
    found = read_source(tmp_path)
    assert found.source == tmp_path / "attempts/02/metric_source/results.csv"
    assert [line for line, _ in found.rows] == [2, 3, 4]


def test_a_folder_without_metrics_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoSourceError, match="no file in it holds metrics"):
        read_source(tmp_path)
