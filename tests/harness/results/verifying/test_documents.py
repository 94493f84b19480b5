"""A page or a drawing that says something else than what is made now is found; another layout is not."""

import os
from pathlib import Path

import pytest

from harness.results.verifying.documents import document_differences

DRAWING = """<svg viewBox="0 0 700 300"><g id="curves-axes_1"><path id="m1a2b" d="M 3 2.5
L 40.25 120"/><use xlink:href="#m1a2b" x="10.5" y="250" style="stroke: #2563a8; opacity: 0.2"/>
<text x="12" y="30" transform="rotate(-0 12 30)">0.60</text></g></svg>"""
PAGE = f"<h1>Does it help?</h1>\n<p>No detectable difference: 0.60.</p>\n{DRAWING}\n<p>The end.</p>\n"


def differ(folder: Path, there: str, now: str = PAGE) -> list[str]:
    (folder / "page.html").write_text(there, encoding="utf-8")
    return [where for where, _ in document_differences(folder / "page.html", now)]


def test_a_page_is_held_to_its_words(tmp_path: Path) -> None:
    assert differ(tmp_path, PAGE) == []
    assert differ(tmp_path, PAGE.replace("No detectable", "A large")) == ["line 2 outside of drawings"]
    assert differ(tmp_path, f"{PAGE}<p>Really.</p>\n") == ["line 5 outside of drawings"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0.60</text>", "0.90</text>"),  # a label
        ("L 40.25 120", "L 40.25 90"),  # where a line goes
        ('y="250"', 'y="100"'),  # where a dot is
        ("L 40.25 120", ""),
        ("#2563a8", "#2563a9"),
        ("opacity: 0.2", "opacity: 0"),
        ('href="#m1a2b"', 'href="#curves-axes_1"'),
        ("</g></svg>", "<text>all is well</text></g></svg>"),
        (DRAWING, "<svg/>"),
        (DRAWING, f"{DRAWING}{DRAWING}"),
    ],
)
def test_a_drawing_is_held_to_its_words_and_shapes(tmp_path: Path, old: str, new: str) -> None:
    assert old in PAGE
    assert len(differ(tmp_path, PAGE.replace(old, new))) == 1


def test_another_version_may_name_and_place_a_drawing_a_little_differently(tmp_path: Path) -> None:
    moved = DRAWING.replace("m1a2b", "m77ff").replace("curves-axes_1", "curves-axes_0")
    moved = moved.replace("3 2.5\nL 40.25 120", "4.25 1\nL 39 121.5").replace(
        'x="12" y="30"', 'x="13" y="31.2"'
    )
    assert differ(tmp_path, PAGE.replace(DRAWING, moved)) == []


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert list(document_differences(tmp_path / "pipe", PAGE)) == []
    assert list(document_differences(tmp_path / "gone", PAGE)) == []
    (tmp_path / "page.html").write_bytes(b"\xff")
    assert [where for where, _ in document_differences(tmp_path / "page.html", PAGE)] == ["the text"]
