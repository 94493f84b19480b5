"""The supervisor's files when the disk is full."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from monitors import records
from monitors.records import PaneLog, write_atomically


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file of this process grows beyond `size` bytes, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_a_full_disk_refuses_is_written_once_there_is_room(tmp_path: Path) -> None:
    log = PaneLog(tmp_path / "pane.log")
    with room_for(10):
        log.write(b"one\ntwo\nthree\n")
        log.write(b"four\n")
        assert not log.flush()
        assert (log.written, log.lost) == (10, 9)
    log.write(b"five\n")
    assert (tmp_path / "pane.log").read_bytes() == b"one\ntwo\nthree\nfour\nfive\n"
    assert log.lost == 0


def test_what_memory_does_not_hold_is_lost_and_counted(tmp_path: Path) -> None:
    log = PaneLog(tmp_path / "pane.log")
    with room_for(0):
        log.write(b"a" * records.LOG_BACKLOG_BYTES)
        log.write(b"b" * 100)
    assert log.flush()
    assert log.lost == 100
    assert (tmp_path / "pane.log").stat().st_size == records.LOG_BACKLOG_BYTES


def test_a_record_that_does_not_fit_leaves_the_old_one_and_no_scrap(tmp_path: Path) -> None:
    path = tmp_path / "heartbeat"
    write_atomically(path, {"time": 1})
    with room_for(5), pytest.raises(OSError):
        write_atomically(path, {"time": 2})
    assert path.read_text() == '{"time": 1}'
    assert list(tmp_path.iterdir()) == [path]
