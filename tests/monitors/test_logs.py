"""Log reading: numbers, escapes, progress bars, growth, truncation, size."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitors.logs import (
    LONGEST_LINE,
    Line,
    LogReader,
    after_bar,
    clean,
    is_progress_bar,
    last_useful_lines,
    tail,
)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"plain\r", "plain"),
        (b"\x1b[31mred\x1b[0m text", "red text"),
        (b"\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link", "textlink"),
        (b" 10%\r 50%\r100%\r", "100%"),
        (b"bar 1\rbar 2\r\x1b[K{'loss': 0.5}\r", "{'loss': 0.5}"),
        (b"caf\xc3\xa9 \xff", "café �"),
        (b"a\x00b\tc", "ab\tc"),
    ],
)
def test_what_a_terminal_would_show(raw: bytes, shown: str) -> None:
    assert clean(raw) == shown


@given(
    st.lists(
        st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=30), max_size=20
    ),
    st.lists(st.integers(1, 7), min_size=1, max_size=20),
)
def test_any_split_into_pieces_gives_the_same_lines(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], sizes: list[int]
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    data = "".join(f"{text}\n" for text in texts).encode()
    reader = LogReader(path)
    lines = []
    with path.open("wb", buffering=0) as file:
        while data:
            sizes.append(sizes.pop(0))
            file.write(data[: sizes[-1]])
            data = data[sizes[-1] :]
            lines += reader.read()
    assert [line.text for line in lines] == [text.rstrip() for text in texts]
    assert [line.number for line in lines] == list(range(1, len(texts) + 1))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "plain ", "\x1b[1mlo\x1b[0mss ", "\rbar\r", "x\x00y "]), st.booleans()
        ),
        max_size=30,
    ),
    st.integers(1, 60),
    st.booleans(),
    st.integers(0, 30),
)
def test_picked_lines_are_those_of_read_that_hold_the_word(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[tuple[str, bool]],
    piece: int,
    unfinished: bool,
    every_from: int,
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    text = "".join(f"{part}{'loss' if wanted else ''} é\r\n" for part, wanted in parts)
    path.write_bytes((text + ("loss at last" if unfinished else "")).encode())
    all_lines = LogReader(path).read(final=True)
    reader, picked = LogReader(path), list[Line]()

    def every() -> bool:
        return bool(picked) and picked[-1].number >= every_from

    while reader.bytes_read < len(path.read_bytes()) or not reader.at_end:
        for line in reader.pick(re.compile(b"loss"), every, True, piece):
            picked.append(line)
    assert [line for line in picked if "loss" in line.text] == [
        line for line in all_lines if "loss" in line.text
    ]
    assert set(picked) <= set(all_lines)
    after = [line.number for line in picked if line.number >= every_from][:1]
    if after:
        assert [line for line in picked if line.number >= after[0]] == all_lines[after[0] - 1 :]
    assert reader.last_text == next((line.text for line in reversed(all_lines) if line.text), "")


def test_unfinished_line_waits_for_its_end_unless_final(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\ntw")
    reader = LogReader(path)
    assert [line.text for line in reader.read()] == ["one"]
    assert reader.read() == []
    assert [(line.number, line.text) for line in reader.read(final=True)] == [(2, "tw")]


def test_truncated_and_replaced_files_are_read_from_the_start(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\ntwo\n")
    reader = LogReader(path)
    reader.read()
    path.write_text("new\n")
    assert [(line.number, line.text) for line in reader.read()] == [(1, "new")]
    other = tmp_path / "other"
    other.write_text("rotated, and longer than before\n")
    other.replace(path)
    assert [line.text for line in reader.read()] == ["rotated, and longer than before"]
    assert reader.restarts == 2


def test_very_long_lines_are_cut_and_say_so(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 5_000_000 + b"\nend\n")
    first, second = LogReader(path).read()
    assert first.text.startswith("x" * LONGEST_LINE + " …[") and len(first.text) < LONGEST_LINE + 50
    assert (second.number, second.text) == (2, "end")


def test_endless_progress_bar_stays_small_and_shows_its_last_state(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"\r%d%%|###| %d/999999" % (n % 100, n) for n in range(300_000)) + b"\n")
    (line,) = LogReader(path).read()
    assert line.text == "99%|###| 299999/999999"


def test_tail_has_true_numbers(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(f"line {n}\n" for n in range(1, 100_001)) + "rest")
    assert [(line.number, line.text) for line in tail(path, 2)] == [
        (100_000, "line 100000"),
        (100_001, "rest"),
    ]
    assert len(tail(path, 1_000_000)) == 100_001
    assert tail(tmp_path / "missing", 3) == []


def test_useful_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("start\n\n 10%|# | 1/10 [00:01<00:09,  1.00it/s]\nretry\nretry\nKeyError: 'x'\n\n")
    assert [line.text for line in last_useful_lines(path, 2)] == ["retry", "KeyError: 'x'"]
    assert is_progress_bar("Epoch 1: 100%|████| 3/3 [00:00<00:00]")
    assert not is_progress_bar("accuracy is 93% | better")


def test_what_another_program_prints_behind_a_bar_is_parted_from_it() -> None:
    bar = "  4%|▍         | 195/4600 [11:02<4:00:11,  3.27s/it]"
    assert (
        after_bar(f"{bar}run.sh: line 22: 31882 Killed  python x.py")
        == "run.sh: line 22: 31882 Killed  python x.py"
    )
    assert after_bar(bar) == after_bar("step 3") == ""
