"""The supervisor's files when the disk is full, or the log is."""

import json
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from monitors import records
from monitors.records import ExitRecord, PaneLog, overwrite, write_atomically


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file of this process grows beyond `size` bytes, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def log_at(path: Path, limit: int = 1 << 40) -> PaneLog:
    return PaneLog(path / "pane.log", limit)


def test_what_a_full_disk_refuses_is_written_once_there_is_room(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    with room_for(10):
        log.write(b"one\ntwo\nthree\n")
        log.write(b"four\n")
        assert not log.flush()
        assert (log.written, log.lost, log.why) == (10, 9, "file size limit")
    log.write(b"five\n")
    assert (tmp_path / "pane.log").read_bytes() == b"one\ntwo\nthree\nfour\nfive\n"
    assert log.lost == 0


def lines(first: int, count: int) -> bytes:
    """Lines of 16 bytes each, numbered."""
    return b"".join(b"step=%010d\n" % number for number in range(first, first + count))


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "LOG_BACKLOG_BYTES", 800)
    monkeypatch.setattr(records, "LOG_TAIL_BYTES", 160)


@pytest.mark.usefixtures("small_memory")
def test_what_memory_does_not_hold_is_lost_and_counted_but_its_end_is_kept(tmp_path: Path) -> None:
    log = log_at(tmp_path)
    with room_for(0):
        for number in range(0, 1000, 7):
            log.write(lines(number, 7))
    assert log.flush()
    log.write(lines(1001, 1))
    head, gap, tail = (tmp_path / "pane.log").read_bytes().partition(b"\r\n[")
    words, end, tail = tail.partition(b" bytes of the log are missing here: file size limit]\r\n")
    assert gap and end and head == lines(0, 50)
    assert len(tail) >= 160 and tail == lines(1002 - len(tail) // 16, len(tail) // 16)
    assert log.lost == int(words) and log.lost + len(head) + len(tail) == 16 * 1002


@pytest.mark.usefixtures("small_memory")
@pytest.mark.parametrize("piece", [1, 10, 16, 100, 5000])
def test_beyond_its_limit_a_log_keeps_whole_lines_and_its_end(tmp_path: Path, piece: int) -> None:
    log, data = log_at(tmp_path, limit=505), lines(0, 300)
    for start in range(0, len(data), piece):
        log.write(data[start : start + piece])
    assert 490 < (tmp_path / "pane.log").stat().st_size <= 520
    log.finish()
    assert log.flush()
    head, _, tail = (tmp_path / "pane.log").read_bytes().partition(b"\r\n[")
    words, _, tail = tail.partition(b" bytes of the log are missing here: log limit]\r\n")
    assert data.startswith(head) and data.endswith(tail) and len(tail) >= 160
    assert (log.lost, log.why) == (int(words), "log limit")
    assert log.lost + len(head) + len(tail) == len(data)
    assert piece < 16 or head.endswith(b"\n")


@pytest.mark.usefixtures("small_memory")
def test_a_log_that_is_only_a_little_too_long_is_whole(tmp_path: Path) -> None:
    log, data = log_at(tmp_path, limit=505), lines(0, 41)
    for start in range(0, len(data), 48):
        log.write(data[start : start + 48])
    log.finish()
    assert log.flush() and log.lost == 0
    assert (tmp_path / "pane.log").read_bytes() == data


def test_a_record_that_does_not_fit_leaves_the_old_one_and_no_scrap(tmp_path: Path) -> None:
    path = tmp_path / "heartbeat"
    write_atomically(path, {"time": 1})
    with room_for(5), pytest.raises(OSError):
        write_atomically(path, {"time": 2})
    assert path.read_text() == '{"time": 1}'
    assert list(tmp_path.iterdir()) == [path]


def test_a_record_is_written_over_a_longer_one(tmp_path: Path) -> None:
    path = tmp_path / "heartbeat"
    for pids in ([1, 22, 333], [1], []):
        overwrite(path, {"family": pids})
        assert json.loads(path.read_text()) == {"family": pids}


LINKED = {
    "a record": lambda path: write_atomically(path, {"time": 2}),
    "a heartbeat": lambda path: overwrite(path, {"time": 2}),
    "an exit record": lambda path: ExitRecord(path).write({"status": 0}),
}


@pytest.mark.parametrize("write", LINKED.values(), ids=LINKED)
def test_links_that_a_training_put_there_are_not_followed(tmp_path: Path, write: Callable[..., None]) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("precious")
    for name in ("record", "record.tmp"):
        (tmp_path / name).symlink_to(elsewhere)
    write(tmp_path / "record")
    assert elsewhere.read_text() == "precious"
    assert json.loads((tmp_path / "record").read_text()) and not (tmp_path / "record").is_symlink()


def link(path: Path) -> None:
    path.symlink_to(path.with_name("elsewhere"))


HINDERED = {
    "removed": ([Path.unlink], []),
    "a link": ([Path.unlink, link], []),
    "a folder": ([Path.unlink, Path.mkdir], []),
    "the record itself a link": ([], [link]),
    "the record itself a folder": ([], [Path.mkdir]),
}


@pytest.mark.parametrize(("to_reserved", "to_record"), HINDERED.values(), ids=HINDERED)
def test_how_a_training_ended_is_recorded_whatever_it_put_in_the_way(
    tmp_path: Path, to_reserved: list[Callable[[Path], object]], to_record: list[Callable[[Path], object]]
) -> None:
    elsewhere, path = tmp_path / "elsewhere", tmp_path / "exit.json"
    elsewhere.write_text("precious")
    record = ExitRecord(path)
    for change in to_reserved:
        change(tmp_path / "exit.json.tmp")
    for change in to_record:
        change(path)
    record.write({"status": 0})
    assert json.loads(path.read_text()) == {"status": 0} and not path.is_symlink()
    assert elsewhere.read_text() == "precious"


def test_a_pipe_in_the_place_of_a_record_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "heartbeat")
    overwrite(tmp_path / "heartbeat", {"time": 2})
    assert json.loads((tmp_path / "heartbeat").read_text()) == {"time": 2}
