"""Samples of memory as evidence for a kill."""

import json
from pathlib import Path

from harness.diagnosis.ends import out_of_memory


def samples(folder: Path, *pairs: tuple[int, int]) -> Path:
    file = folder / "resources.jsonl"
    rows = (json.dumps({"rss_bytes": rss, "mem_available_bytes": free}) for rss, free in pairs)
    file.write_text("\n".join(rows) + "\n")
    return file


def test_a_last_sample_without_room_is_evidence(tmp_path: Path) -> None:
    found = out_of_memory(samples(tmp_path, (10, 90), (98, 2)))
    assert found is not None and (found.line, found.file) == (2, "resources.jsonl")


def test_memory_that_was_given_back_is_none(tmp_path: Path) -> None:
    assert out_of_memory(samples(tmp_path, (98, 2), (50, 50))) is None


def test_a_torn_last_line_is_passed_over_and_no_file_is_no_evidence(tmp_path: Path) -> None:
    file = samples(tmp_path, (98, 2))
    with file.open("a") as out:
        out.write('{"rss_by')
    found = out_of_memory(file)
    assert found is not None and found.line == 1
    assert out_of_memory(tmp_path / "none") is None
