"""The journal survives torn writes, notices damage, and has one owner at a time."""

import errno
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import journal
from harness.errors import UserError
from harness.journal import Entry, Journal, JournalDamagedError, JournalOwnedError, Owner
from harness.journal.events import Intent, JournalRepaired, Noted
from tests.harness.runs import created

OPENED = "import sys, os, signal, resource, time, pathlib, fcntl; from harness.journal import *\n"
OWNS = OPENED + "j = Journal(pathlib.Path(sys.argv[1]), clock=lambda: 1.0); print('ready', flush=True)\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


@contextmanager
def another_process(code: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has said that it is ready."""
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process


def write(path: Path, *texts: str) -> None:
    """A run that began, with notes; begun only once."""
    with Journal(path, clock=lambda: 1.5) as opened:
        if not opened.entries:
            opened.append(created())
        for text in texts:
            opened.append(Intent("note"))
            opened.append(Noted(f"about {text}"))


def texts(entries: list[Entry]) -> list[str]:
    return [noted.text.removeprefix("about ") for noted in journal.events_of(entries, Noted)]


def test_what_is_not_utf8_is_kept_in_a_file_that_is(path: Path) -> None:
    write(path, "caf\udce9 \ud800 数")
    assert texts(journal.read(path)) == ["caf\udce9 \ud800 数"]
    assert "数" in path.read_bytes().decode()


def test_every_cut_of_the_last_line_is_survived_and_the_rest_kept(path: Path) -> None:
    write(path, "one", "two")
    content = path.read_bytes()
    start_of_last = content.rindex(b"\n", 0, -1) + 1
    for cut in range(start_of_last + 1, len(content)):
        path.write_bytes(content[:cut])
        assert texts(journal.read(path)) == ["one"]
    with Journal(path, clock=lambda: 2.0) as opened:
        opened.append(Noted("about three"))
    *_, repaired, noted = [entry.event for entry in journal.read(path)]
    assert isinstance(repaired, JournalRepaired) and noted == Noted("about three")


@pytest.mark.parametrize(("line", "gone"), [(2, False), (4, False), (6, False), (2, True), (4, True)])
def test_damage_of_a_whole_entry_is_an_error_that_names_it(path: Path, line: int, gone: bool) -> None:
    write(path, "one", "two", "three")
    lines = path.read_bytes().splitlines(keepends=True)
    lines[line : line + 1] = [] if gone else [lines[line].replace(b"about", b"abuot")]
    path.write_bytes(b"".join(lines))
    for read in (journal.read, Journal):
        with pytest.raises(JournalDamagedError, match=f"journal.jsonl:{line + 1}:"):
            read(path)
    assert path.read_bytes() == b"".join(lines)


HOURS_5 = 5 * 3600.0


@pytest.mark.parametrize("set_by", [-HOURS_5, HOURS_5])
def test_a_journal_counts_time_on_from_its_owner_on_this_boot_whatever_the_clock_says(
    path: Path, set_by: float
) -> None:
    with Journal(path) as first:
        begun = first.append(created())
        now = first.clock()
        first.append(Owner.this_process(lambda: now - set_by))  # the machine's clock was set since
    with Journal(path) as second:
        second.append(Owner.this_process(second.clock))
        assert second.clock() == pytest.approx(begun.time - set_by, abs=60.0)
    with Journal(path) as third:
        assert third.clock() == pytest.approx(begun.time - set_by, abs=60.0)


@pytest.mark.parametrize(("written", "ahead"), [(-HOURS_5, 0.0), (HOURS_5, HOURS_5)])
def test_on_another_boot_the_machine_s_clock_counts_but_never_before_the_last_entry(
    path: Path, written: float, ahead: float
) -> None:
    before = time.time() + written
    with Journal(path, clock=lambda: before) as first:
        first.append(created())
        first.append(Owner(1, "here", "another boot", before - 60.0))
    with Journal(path) as second:
        assert second.clock() == pytest.approx(time.time() + ahead, abs=60.0)


def test_second_owner_is_refused_and_told_who_owns_it(path: Path) -> None:
    with Journal(path, clock=lambda: 1.0) as opened:
        opened.append(created())
        opened.append(Owner.this_process())
        assert journal.is_owned(path)
        with pytest.raises(JournalOwnedError, match=str(os.getpid())):
            Journal(path, clock=lambda: 2.0)
    assert not journal.is_owned(path)


def test_who_took_over_a_moment_ago_is_waited_for_and_named(path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    with Journal(path, clock=lambda: 1.0) as opened:
        opened.append(created())
        opened.append(Owner(dead.pid, socket.gethostname()))
    code = OWNS + "time.sleep(0.3); j.append(Owner.this_process()); sys.stdin.read()"
    with another_process(code, path) as winner:
        with pytest.raises(JournalOwnedError, match=f"by process {winner.pid} "):
            Journal(path, clock=lambda: 2.0)


def test_a_look_at_the_journal_does_not_keep_its_next_owner_out(path: Path) -> None:
    write(path, "one")
    looks = (
        OPENED + "file = open(sys.argv[1]); fcntl.flock(file, fcntl.LOCK_SH); print('ready', flush=True)\n"
    )
    with another_process(looks + "time.sleep(0.3)", path):
        write(path, "two")


def test_lock_dies_with_its_owner(path: Path) -> None:
    write(path, "one")
    with another_process(OWNS + "os.kill(os.getpid(), signal.SIGKILL)", path) as killed:
        assert killed.wait() == -9
    with Journal(path, clock=lambda: 2.0) as opened:
        assert texts(opened.entries) == ["one"]


def test_a_full_disk_leaves_what_was_written_and_an_entry_is_whole_or_absent(path: Path) -> None:
    write(path, "one")
    code = (
        "from harness.journal.events import StopAsked\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "size = j.path.stat().st_size; known = len(j.entries)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, size + 40))\n"
        "try: j.append(StopAsked('x' * 200))\n"
        "except OSError: print(j.path.stat().st_size == size, len(j.entries) == known)"
    )
    with another_process(OWNS + code, path) as full:
        assert full.stdout is not None and full.stdout.read() == "True True\n"
    write(path, "two")
    assert texts(journal.read(path)) == ["one", "two"]


def test_an_owner_that_finds_entries_of_another_one_writes_nothing(path: Path, tmp_path: Path) -> None:
    """As on machines that share the file and not its locks."""
    write(path, "one")
    with Journal(path) as opened:
        (tmp_path / "elsewhere").write_bytes(path.read_bytes())
        with Journal(tmp_path / "elsewhere") as other:
            other.append(Owner(7, "far"))
        path.write_bytes(taken_over := (tmp_path / "elsewhere").read_bytes())
        with pytest.raises(JournalOwnedError, match="process 7 on far"):
            opened.append(Intent("note"))
    assert path.read_bytes() == taken_over


@pytest.mark.parametrize("error", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_without_locks_no_journal_is_opened_but_read(
    path: Path, error: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    write(path, "one")
    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(UserError, match="cannot be locked"):
        Journal(path)
    assert not journal.is_owned(path) and texts(journal.read(path)) == ["one"]
