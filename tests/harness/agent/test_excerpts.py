"""Whatever the text, what is shown of it is bounded, printable, and keeps its line numbers."""

import re
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from harness.agent import excerpts

PIECES = st.sampled_from([
    "password:", "api_key = ", '"', "'", "\\", "Bearer ", "sk-abcdefghijklmnop1234", "https://me:", "@host",
    "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "token", " ", "\t", "x" * 1500, "\x1b[31m",
    "\u202e", "\u2028", "\x85", "é", "\ud800", "|",
])  # fmt: skip
LINES = st.lists(st.lists(PIECES, max_size=6).map("".join), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(lines=LINES, title=st.lists(PIECES, max_size=4).map("".join), head=st.floats(0, 1))
@example(lines=["password:", "hunter2hunter2", "end"], title="", head=0.5)
def test_any_text_is_bounded_and_keeps_its_lines(lines: list[str], title: str, head: float) -> None:
    masked = excerpts.masked(lines)
    assert len(masked) == len(lines)
    assert all(line.replace("\t", "").isprintable() for line in masked)
    left_out: list[int] = []

    def hint(index: int) -> str:
        left_out.append(index)
        return "here"

    text = excerpts.fitted(excerpts.plain(title), masked, hint, head)
    assert len(text) <= excerpts.LONGEST_TEXT
    kept = text.count("\n") + 1 - bool(title and excerpts.plain(title)) - len(left_out)
    missing = sum(map(int, re.findall(r"^… (\d+) lines left out: here …$", text, re.MULTILINE)))
    assert kept + missing == len(lines)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.text(alphabet="ab\n", max_size=300), first=st.integers(1, 120), count=st.integers(1, 20))
def test_lines_are_those_an_editor_shows(tmp_path: Path, content: str, first: int, count: int) -> None:
    file = tmp_path / "file.txt"
    file.write_text(content)
    lines = content.removesuffix("\n").split("\n") if content else []
    shown, total = excerpts.of_file(file, first, count)
    assert total == len(lines)
    assert shown == lines[first - 1 : first - 1 + count]


def test_neither_invisible_characters_nor_an_endless_key_hide_what_stands_there() -> None:
    (shown,) = excerpts.masked(["key sk-abcd\u200befgh\x1b[0mijklmnop1234 end"])
    assert shown == "key [redacted] end"
    masked = excerpts.masked(["-----BEGIN PRIVATE KEY-----", *["abc"] * 500])
    assert masked[1] == masked[100] == "[redacted]"
    assert masked[-1] == "abc"
