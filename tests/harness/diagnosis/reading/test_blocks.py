"""Bytes of any kind as blocks of whole lines: the oracle is the reader of growing logs."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.diagnosis.reading.blocks import blocks, text_of
from monitors.logs import LONGEST_LINE, Line, LogReader

PIECES = st.sampled_from(
    [b"a", b"error ", b"\n", b"\r", b"\r\n", b"\x1b[36m", b"\xff", b"\x00", "█".encode(), b"b" * 50]
)


def lines_by_blocks(path: Path, size: int) -> list[Line]:
    found: list[Line] = []
    for block in blocks(path, size):
        raws = block.data.split(b"\n")
        if block.data.endswith(b"\n"):
            raws.pop()
        found += [Line(block.number + index, text_of(raw)) for index, raw in enumerate(raws)]
    return found


@settings(max_examples=150, deadline=None)
@given(data=st.lists(PIECES, max_size=60).map(b"".join), size=st.integers(1, 40))
def test_lines_and_numbers_are_those_of_the_reader_of_logs(data: bytes, size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_bytes(data)
        assert lines_by_blocks(path, size) == LogReader(path).read(final=True)


def test_a_line_longer_than_memory_is_cut_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"first\n" + b"x" * 3_000_000 + b"\nlast\n")
    first, long, last = lines_by_blocks(path, 100_000)
    assert long.text.endswith(f"…[{3_000_000 - LONGEST_LINE} bytes cut]")
    assert (first.text, last) == ("first", Line(3, "last"))
    assert lines_by_blocks(path, 10_000_000)[1] == long


def test_of_a_long_redrawn_line_the_last_state_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"\r%d%% " % done for done in range(100_000)) + b"\n")
    assert lines_by_blocks(path, 100_000)[0].text == "99999%"
