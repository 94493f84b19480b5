"""What may differ between what was written down and what comes out now: secrets that were masked."""

from pathlib import Path

import pytest

from harness.results.verifying.same import differences, is_same_text, table_differences


@pytest.mark.parametrize(
    ("recorded", "again"),
    [
        ("uses [redacted] as a key", "uses kx-81-tiger-soup as a key"),
        ("[redacted]", "kx-81-tiger-soup"),
        ("[redacted], then [redacted].", "kx-81-tiger-soup, then ab-99-lion-stew."),
        ("[redacted][redacted]", "kx-81-tiger-soup"),
        ("a [redacted] here", "a [redacted] here"),
    ],
)
def test_a_mask_stands_for_the_secret_it_replaced(recorded: str, again: str) -> None:
    assert is_same_text(recorded, again)


@pytest.mark.parametrize(
    ("recorded", "again"),
    [
        ("lower[redacted]", "higher"),
        ("[redacted]higher", "higher"),
        ("[redacted]", "higher"),
        ("[redacted]", "a is higher than b, and nothing else"),
        ("mean [redacted]", "mean 0.8597123"),
        ("all is well [redacted]", "nothing is well kx-81-tiger-soup"),
        ("[redacted] is well", "kx-81-tiger-soup is bad"),
        ("<td>[redacted]</td>", "<td>0.2</td><td>0.4</td>"),
        ("[redacted]" * 500, "x-" * 500 + " "),
    ],
)
def test_a_mask_stands_for_nothing_else(recorded: str, again: str) -> None:
    assert not is_same_text(recorded, again)


@pytest.mark.parametrize("field", ["finding", "outcome", "verdict"])
def test_no_mask_stands_in_fields_with_words_of_the_harness(field: str, tmp_path: Path) -> None:
    recorded, again = {"runs": [{field: "[redacted]"}]}, {"runs": [{field: "stopped_early"}]}
    assert [where for where, _ in differences(recorded, again, "")] == [f"runs[0].{field}"]
    table = tmp_path / "points.csv"
    table.write_text(f"run,{field}\np01,[redacted]\n")
    assert [where for where, _ in table_differences(table, f"run,{field}\np01,stopped_early\n")] == ["line 2"]
